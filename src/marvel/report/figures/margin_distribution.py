"""Figure 5: how the margins lie early and late in a run of MARVEL+."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from marvel.metrics import QUANTILES
from marvel.report.cells import Cell, Record, Runs
from marvel.report.figures import style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLUS = Cell("cat-dog", "pair", (0.3, 0.1), "marvel+")
OLD_RANGE = (-16.0, 16.0)
"""Of histograms in records that do not say theirs."""


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    """Of one run: histograms of several would blur into another shape."""
    record = runs.of(panel.cells[0])[0]
    edges, counts = histogram(record, panel.shows)
    mean, sd = moments(record, panel.shows)
    median = record["curves"]["margin_survivors"][int(panel.shows) - 1][QUANTILES.index(0.5)]
    width = edges[1] - edges[0]
    density = counts / counts.sum() / width
    green = style.LOOKS["marvel+"]["color"]
    axes.stairs(density, edges, fill=True, color=green, alpha=0.45, linewidth=0, label="margins")
    axes.stairs(density, edges, color=green, linewidth=0.9)
    x = np.linspace(edges[0], edges[-1], 200)
    normal = np.exp(-((x - mean) ** 2) / (2 * sd**2)) / (sd * np.sqrt(2 * np.pi))
    axes.plot(x, normal, color=style.DARK, linewidth=1.1, linestyle=(0, (1, 1)), label="normal of the same mean and sd")
    for at, name in ((median - sd, "μ – σ"), (median, "μ"), (median + sd, "μ + σ")):
        style.mark_epoch(axes, at)
        style.note(axes, name, (at, 1.0), (2, 0), va="top", color=style.GREY, xycoords=("data", "axes fraction"))
    axes.set_ylim(0, 1.12 * max(density.max(), normal.max()))
    axes.set_yticks([])
    axes.set_xlabel("Margin")
    axes.set_ylabel("Density")


def histogram(record: Record, epoch: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Edges and counts of the margins of those not removed."""
    kept = record["histograms"][epoch]
    counts = np.array(kept["survivors"], dtype=np.float64)
    low, high = kept.get("range", OLD_RANGE)
    return np.linspace(low, high, len(counts) + 1), counts


def moments(record: Record, epoch: str) -> tuple[float, float]:
    """Mean and standard deviation of the same margins; from the histogram where the record does not say."""
    kept = record["histograms"][epoch]
    if kept.get("moments"):
        mean, sd = kept["moments"]["survivors"]
        return mean, sd
    edges, counts = histogram(record, epoch)
    middles, shares = (edges[1:] + edges[:-1]) / 2, counts / counts.sum()
    mean = float((shares * middles).sum())
    return mean, float(np.sqrt((shares * (middles - mean) ** 2).sum()))


FIGURE = PaperFigure(
    name="margin-distribution",
    number="Figure 5",
    caption="Margins of the instances that MARVEL+ has not removed after epochs 25 and 75, on cat-dog with "
    "(30 %, 10 %) noise; one run, the lowest seed. Dashed: median μ, and one standard deviation σ on either "
    "side. The outermost bars hold all beyond them.",
    panels=(
        Panel("Epoch 25", "cat-dog, (30 %, 10 %), MARVEL+", (PLUS,), "25"),
        Panel("Epoch 75", "cat-dog, (30 %, 10 %), MARVEL+", (PLUS,), "75"),
    ),
    draw=draw,
)
