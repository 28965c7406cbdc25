"""Figure 1: cross entropy learns, stands, and memorises; MARVEL+ does not go on to the third."""

from typing import TYPE_CHECKING

from marvel.report.cells import Cell, Runs, name_of
from marvel.report.figures import lines, style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CE = Cell("cat-dog", "symmetric", (0.2,), "ce")
CELLS = (CE, CE.by("marvel+"))


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    found = {cell.method: (name_of(cell.method), runs.of(cell)) for cell in panel.cells if runs.of(cell)}
    warmup = lines.warmup_of(runs.of(CE.by("marvel+")))
    if warmup is not None:
        free = (0.97, "top") if panel.shows == "memorisation_ratio" else (0.03, "bottom")
        style.shade_warmup(axes, warmup, *free)
    lines.by_method(axes, found, panel.shows)
    if panel.shows == "test_accuracy":
        style.percent_axis(axes, 30, 100, 10)


FIGURE = PaperFigure(
    name="phases",
    number="Figure 1",
    caption="Test accuracy and memorisation ratio by epoch on cat-dog with 20 % symmetric noise: cross entropy and "
    "MARVEL+. Dashed: the learning rate falls after epochs 75 and 90.",
    panels=(
        Panel("Test accuracy", "cat-dog, 20 % symmetric", CELLS, "test_accuracy"),
        Panel("Memorisation ratio", "cat-dog, 20 % symmetric", CELLS, "memorisation_ratio"),
    ),
    draw=draw,
)
