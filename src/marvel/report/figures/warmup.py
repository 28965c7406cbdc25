"""Figure 6: the curves of cross entropy that the warm-up is read off."""

from typing import TYPE_CHECKING

from marvel.report.cells import Cell, Runs
from marvel.report.figures import lines, style
from marvel.report.figures.curves import drops
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = {
    "train_accuracy": ("training accuracy, given labels", style.PALETTE[1], "-"),
    "test_accuracy": ("test accuracy, clean labels", style.PALETTE[0], (0, (5, 1.5))),
    "memorisation_ratio": ("memorisation ratio", style.DARK, (0, (1.5, 1))),
}
CHOSEN = {
    "cifar10": ((30,), "the paper: 30, either way"),
    "cifar100": ((40, 50), "the paper: 40; with validation 50"),
}


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    (cell,) = panel.cells
    records = runs.of(cell)
    for key, (name, colour, dash) in CURVES.items():
        values = 100 * lines.stacked(records, key)
        lines.band(axes, range(1, values.shape[1] + 1), values, name, color=colour, linestyle=dash)
    epochs, said = CHOSEN[cell.data]
    for epoch in epochs:
        style.mark_epoch(axes, epoch)
    style.note(axes, said, (epochs[-1], 100), (3, 0), va="top", fontsize=7.5, color=style.GREY)
    for drop in drops(records[0]):
        axes.plot([drop], [1.5], "v", color=style.GREY, markersize=5, clip_on=False)
    axes.plot([], [], "v", color=style.GREY, markersize=5, label="learning rate falls")
    axes.set_xlim(0, values.shape[1])
    axes.set_xlabel("Epoch")
    style.percent_axis(axes)


FIGURE = PaperFigure(
    name="warm-up",
    number="Figure 6",
    caption="Cross entropy: training accuracy on the given labels, accuracy on clean labels (of the test set, standing "
    "for the paper's clean validation set, so that all instances are trained on), and memorisation ratio. Dashed: the "
    "warm-ups the paper reads off them.",
    panels=(
        Panel("CIFAR-10", "40 % asymmetric, cross entropy", (Cell("cifar10", "circular", (0.4,), "ce"),)),
        Panel("CIFAR-100", "60 % symmetric, cross entropy", (Cell("cifar100", "symmetric", (0.6,), "ce"),)),
    ),
    draw=draw,
)
