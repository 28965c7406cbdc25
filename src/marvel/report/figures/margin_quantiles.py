"""Figure 4(b): the margins of MARVEL+ rise once wrong labels are removed."""

from typing import TYPE_CHECKING

from marvel.metrics import QUANTILES
from marvel.report.cells import Cell, Runs, name_of
from marvel.report.figures import lines, style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLUS = Cell("cat-dog", "pair", (0.3, 0.1), "marvel+")


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    for cell in panel.cells:
        records = runs.of(cell)
        if not records:
            continue
        values = lines.stacked(records, "margin_survivors")
        for quantile, name, dash in ((0.5, "median", "-"), (0.05, "5 % quantile", (0, (4, 1.2)))):
            label = f"{name_of(cell.method)}, {name}"
            one = values[:, :, QUANTILES.index(quantile)]
            lines.band(axes, range(1, one.shape[1] + 1), one, label, **(style.LOOKS[cell.method] | {"linestyle": dash}))
        axes.set_xlim(0, values.shape[1])
        if (warmup := lines.warmup_of(records)) is not None:
            style.shade_warmup(axes, warmup)
    axes.set_xlabel("Epoch")
    axes.set_ylabel("Margin")


FIGURE = PaperFigure(
    name="margin-quantiles",
    number="Figure 4 (b)",
    caption="Median and 5 % quantile of the margins of the instances not removed, on cat-dog with (30 %, 10 %) noise. "
    "Cross entropy removes none.",
    panels=(Panel("Margins by epoch", "cat-dog, (30 %, 10 %)", (PLUS, PLUS.by("ce"))),),
    draw=draw,
)
