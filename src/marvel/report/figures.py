"""Figures of runs, in one style: readable in print, and by those who do not tell red from green."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marvel.errors import InvalidInput
from marvel.runs import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record: TypeAlias = Mapping[str, Any]
"""What `record.json` holds."""

PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, the yellow left out, which is lost on white."""
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), "-.")
"""Lines differ in more than colour, for copies in grey."""
GREY = "#6B6B6B"

NAMES = {"ce": "Cross entropy", "marvel": "MARVEL", "marvel+": "MARVEL+", "oracle": "Oracle"}
PANELS = {
    "test_accuracy": ("Test accuracy", "on new instances with clean labels"),
    "memorisation_ratio": ("Memorisation ratio", "share of the wrong labels learned by heart"),
}


def style() -> Any:
    """The one style of all figures, for `matplotlib.rc_context`."""
    return {
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "axes.labelcolor": "#333333",
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.8,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": "#333333",
        "ytick.labelcolor": "#333333",
        "ytick.major.size": 0,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "figure.dpi": 200,
        "savefig.dpi": 200,
    }


def curves(records: Sequence[Record], path: str | Path) -> None:
    """Test accuracy and memorisation ratio by epoch, a line a record; a PNG file."""
    import matplotlib
    from matplotlib.figure import Figure

    shown = [key for key in PANELS if any(key in record["curves"] for record in records)]
    if not shown:
        raise InvalidInput("there is nothing to draw: no record has a curve of test accuracy or memorisation ratio")
    with matplotlib.rc_context(style()):
        figure = Figure(figsize=(3.6 * len(shown) + 0.2, 3.2))
        for place, key in enumerate(shown, 1):
            _panel(figure.add_subplot(1, len(shown), place), records, key)
        _legend(figure, records)
        _save(figure, Path(path))


def _panel(axes: "Axes", records: Sequence[Record], key: str) -> None:
    epochs = max(len(record["curves"].get(key, ())) for record in records)
    _mark_warmup(axes, records)
    for k, (record, name) in enumerate(zip(records, names(records), strict=True)):
        values = [float("nan") if value is None else 100 * value for value in record["curves"].get(key, ())]
        colour = PALETTE[k % len(PALETTE)]
        dash: Any = DASHES[k % len(DASHES)]
        axes.plot(range(1, len(values) + 1), values, color=colour, linestyle=dash, label=name, clip_on=False)
        fallen = [drop for drop in drops(record) if drop <= len(values)]
        heights = [values[drop - 1] for drop in fallen]
        if fallen:  # an empty line still takes part in the layout, in the corner of the page
            axes.plot(fallen, heights, "v", color=colour, markersize=5, clip_on=False)
    title, subtitle = PANELS[key]
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=20)
    axes.text(0, 1.045, subtitle, transform=axes.transAxes, fontsize=8.5, color=GREY)
    axes.set_xlim(0, epochs)
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
    axes.set_xlabel("Epoch")


def _mark_warmup(axes: "Axes", records: Sequence[Record]) -> None:
    """Shade the warm-up; where methods end it at different epochs, up to the first, the others being near."""
    ends = [record["chosen"]["warmup"] for record in records if "warmup" in record.get("chosen", {})]
    if ends and min(ends) > 0:
        axes.axvspan(0, min(ends), color="#EFEFEF", linewidth=0, zorder=0)
        place: dict[str, Any] = {"xytext": (2, 0), "textcoords": "offset points", "ha": "left", "va": "center"}
        axes.annotate("warm-up ends", (min(ends), 30), fontsize=8, color=GREY, rotation=90, **place)


def _legend(figure: "Figure", records: Sequence[Record]) -> None:
    from matplotlib.lines import Line2D

    handles, labels = figure.axes[0].get_legend_handles_labels()
    if any(map(drops, records)):
        handles.append(Line2D([], [], color=GREY, marker="v", markersize=5, linestyle="none"))
        labels.append("learning rate falls")
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), handlelength=2.6)
    rows = -(-len(labels) // 4)
    figure.tight_layout(rect=(0, 0.08 * rows, 1, 1), w_pad=2.5)


def drops(record: Record) -> Sequence[int]:
    """The last epochs of each learning rate but the last."""
    config = record["config"]
    return config.get("drops") or () if config.get("schedule", "drops") == "drops" else ()


def names(records: Sequence[Record]) -> list[str]:
    """What to call each record: its method, and its seed where there are several."""
    seeds = {record["config"].get("seed") for record in records}
    called = [NAMES.get(record["config"]["method"], record["config"]["method"]) for record in records]
    if len(seeds) == 1:
        return called
    return [f"{name}, seed {record['config'].get('seed')}" for name, record in zip(called, records, strict=True)]


def _save(figure: "Figure", path: Path) -> None:
    content = io.BytesIO()
    figure.savefig(content, format="png")
    write_atomically(path, content.getvalue())
