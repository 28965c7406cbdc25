"""Figure 2: in the first epochs after the warm-up, wrong labels have few positive margins, right ones many."""

from typing import TYPE_CHECKING

import numpy as np

from marvel.report.cells import ASYMMETRIC_40, Cell, Runs
from marvel.report.figures import style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    """Bars of shares, so that the few noisy and the many clean instances compare."""
    records = [record for record in runs.of(panel.cells[0]) if record["apex"] and "noisy" in record["apex"]]
    for place, (kind, colour, hatch) in enumerate((("noisy", style.NOISY, ""), ("clean", style.CLEAN, "////"))):
        counts = np.array([record["apex"][kind] for record in records], dtype=np.float64)
        shares = 100 * counts / counts.sum(axis=1, keepdims=True)
        at = np.arange(shares.shape[1]) + (place - 0.5) * 0.4
        spread = shares.std(axis=0, ddof=1) if len(shares) > 1 else None
        name = {"noisy": "wrong labels", "clean": "right labels"}[kind]
        bars = axes.bar(
            at,
            shares.mean(axis=0),
            0.38,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=name,
            yerr=spread,
            error_kw={"ecolor": style.DARK, "elinewidth": 0.9, "capsize": 2},
        )
        axes.bar_label(bars, [f"{share:.0f}" for share in shares.mean(axis=0)], padding=2, fontsize=7, color=style.DARK)
    axes.set_xticks(range(6))
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("Positive margins among the first five")
    axes.set_ylabel("Share of each kind")
    style.percent_axis(axes)


FIGURE = PaperFigure(
    name="positive-margins",
    number="Figure 2",
    caption="How many of the first five margins after the warm-up are positive, of instances with wrong and with right "
    "labels, as shares of each kind. Runs of MARVEL: the paper does not say of which method; until the first removal "
    "takes effect it is cross entropy. Bars: mean; whiskers: standard deviation over the seeds.",
    panels=(
        Panel("truck-car", "20 % symmetric", (Cell("truck-car", "symmetric", (0.2,), "marvel"),)),
        Panel("cat-dog", "40 % asymmetric, read as (40 %, 0 %)", (Cell("cat-dog", "pair", ASYMMETRIC_40, "marvel"),)),
    ),
    draw=draw,
)
