"""The one style of all figures: readable in print, in grey, and by those who do not tell red from green."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marvel.runs import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, the yellow left out, which is lost on white."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), "-.")
"""Lines differ in more than colour, for copies in grey."""
GREY = "#6B6B6B"
DARK = "#333333"

LOOKS: dict[str, dict[str, Any]] = {
    "ce": {"color": PALETTE[0], "linestyle": (0, (5, 1.3)), "linewidth": 1.6},
    "gce": {"color": PALETTE[3], "linestyle": (0, (4, 1, 1, 1)), "linewidth": 1.6},
    "sce": {"color": PALETTE[4], "linestyle": (0, (1, 1.2)), "linewidth": 1.6},
    "npcl": {"color": PALETTE[5], "linestyle": "-", "linewidth": 1.1},
    "marvel": {"color": PALETTE[1], "linestyle": (0, (3, 1)), "linewidth": 1.6},
    "marvel+": {"color": PALETTE[2], "linestyle": "-", "linewidth": 2.2},
}
"""A method looks the same in every figure, and like no other one, also in grey."""

NOISY, CLEAN = PALETTE[1], PALETTE[4]
"""Instances with wrong and with right labels: dark and light, also in grey."""


def style() -> Any:
    """For `matplotlib.rc_context`."""
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib, so that all machines draw alike
        "font.size": 9,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "axes.labelcolor": DARK,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.8,
        "hatch.linewidth": 0.6,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": DARK,
        "ytick.labelcolor": DARK,
        "ytick.major.size": 0,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "figure.dpi": 200,
        "savefig.dpi": 200,
        "svg.hashsalt": "marvel",  # the same figure is the same file
    }


def heading(axes: "Axes", title: str, subtitle: str) -> None:
    """Bold, and a line in grey below."""
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=20)
    axes.text(0, 1.045, subtitle, transform=axes.transAxes, fontsize=8.5, color=GREY)


def percent_axis(axes: "Axes", low: int = 0, high: int = 100, step: int = 20) -> None:
    """A little room above, so that lines at 100 % are seen whole."""
    axes.set_ylim(low, high + 0.02 * (high - low))
    axes.set_yticks(range(low, high + 1, step), [f"{tick} %" for tick in range(low, high + 1, step)])


def shade(axes: "Axes", epoch: float) -> None:
    """A grey ground up to an epoch."""
    axes.axvspan(0, epoch, color="#EFEFEF", linewidth=0, zorder=0)


def shade_warmup(axes: "Axes", epoch: float, height: float = 0.97, va: str = "top", inside: bool = False) -> None:
    """The epochs of plain training, as a grey ground; said at that height, beside it or inside."""
    shade(axes, epoch)
    how = {"va": va, "rotation": 90, "color": GREY, "xycoords": ("data", "axes fraction")}
    note(axes, "warm-up ends", (epoch, height), (-2 if inside else 2, 0), ha="right" if inside else "left", **how)


def note(axes: "Axes", text: str, at: tuple[float, float], away: tuple[float, float] = (0, 0), **how: Any) -> None:
    """A few words at a point, `away` from it by so many points of print."""
    usual: dict[str, Any] = {"fontsize": 8, "color": DARK}
    axes.annotate(text, at, away, textcoords="offset points", **(usual | how))


def mark_epoch(axes: "Axes", epoch: float) -> None:
    axes.axvline(epoch, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)


def save(figure: "Figure", path: Path, metadata: Mapping[str, Any] | None = None) -> None:
    """As the ending of the path says: .png or .svg."""
    content = io.BytesIO()
    kind = path.suffix.lstrip(".")
    # A date would make every file another one.
    known = dict(metadata or {}) | ({"Date": None} if kind == "svg" else {})
    figure.savefig(content, format=kind, metadata=known)
    write_atomically(path, content.getvalue())
