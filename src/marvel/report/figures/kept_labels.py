"""Figure 9: how right the labels are that MARVEL keeps, and how many of the right ones it keeps."""

from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from marvel.report.cells import Cell, Runs
from marvel.report.figures import style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES: dict[tuple[str, str], tuple[str, str, Any, str, tuple[float, ...]]] = {
    ("cifar10", "symmetric"): ("CIFAR-10, symmetric", style.PALETTE[1], "-", "o", (0.2, 0.4, 0.6, 0.8)),
    ("cifar10", "circular"): ("CIFAR-10, asymmetric", style.PALETTE[1], (0, (4, 1.5)), "s", (0.2, 0.4)),
    ("cifar100", "symmetric"): ("CIFAR-100, symmetric", style.PALETTE[4], "-", "^", (0.2, 0.4, 0.6, 0.8)),
    ("cifar100", "circular"): ("CIFAR-100, asymmetric", style.PALETTE[4], (0, (4, 1.5)), "D", (0.2, 0.4)),
}
CELLS = tuple(Cell(data, noise, (rate,), "marvel") for (data, noise), line in LINES.items() for rate in line[-1])


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    for (data, noise), (name, colour, dash, marker, _) in LINES.items():
        points = {}
        for cell in panel.cells:
            values = [100 * record["final"][panel.shows] for record in runs.of(cell)]
            if (cell.data, cell.noise) == (data, noise) and values:
                points[100 * cell.rates[0]] = values
        if points:
            means = [fmean(values) for values in points.values()]
            axes.plot(list(points), means, color=colour, linestyle=dash, marker=marker, markersize=5, label=name)
            spread = [stdev(values) if len(values) > 1 else 0 for values in points.values()]
            if any(spread):
                axes.errorbar(list(points), means, spread, fmt="none", ecolor=colour, capsize=2.5, elinewidth=1)
    axes.set_xlim(10, 90)
    axes.set_xticks((20, 40, 60, 80), ["20 %", "40 %", "60 %", "80 %"])
    axes.set_xlabel("Noise")
    style.percent_axis(axes)


FIGURE = PaperFigure(
    name="kept-labels",
    number="Figure 9",
    caption="Label precision (of the instances MARVEL keeps, the share rightly labelled) and label recall (of the "
    "rightly labelled, the share kept) at the end of training. Whiskers: standard deviation over the seeds.",
    panels=(
        Panel("Label precision", "right among the kept, MARVEL", CELLS, "label_precision"),
        Panel("Label recall", "kept among the right, MARVEL", CELLS, "label_recall"),
    ),
    draw=draw,
)
