"""Ours: how MARVEL-semi removes and returns, and how right its guesses become."""

from typing import TYPE_CHECKING

from marvel.report.cells import Cell, Record, Runs
from marvel.report.figures import lines, style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHOWN = {
    Cell("cifar10", "symmetric", (0.8,), "marvel-semi", "resnet18", 200): ("CIFAR-10", "80 % symmetric"),
    Cell("cifar10n-worst", "none", (), "marvel-semi", "resnet18", 200): ("CIFAR-10N", "worst labels"),
    Cell("digits", "symmetric", (0.8,), "marvel-semi", "cnn2", 60): ("digits", "80 % symmetric"),
}
LEDGER = {
    "clean_remaining": ("kept, label right", style.CLEAN, (0, (5, 1.5))),
    "noisy_remaining": ("kept, label wrong", style.NOISY, "-"),
    "removed": ("removed", style.DARK, (0, (1.5, 1))),
    "returned": ("returned", style.PALETTE[2], (0, (4, 1, 1, 1))),
}
GUESSES = {
    "suggestion_accuracy": ("guesses right", style.PALETTE[3], "-"),
    "test_accuracy": ("test accuracy", style.PALETTE[0], (0, (3, 1))),
}


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    """One run: seeds end their warm-up at different epochs, and their mean would be the course of none."""
    run = runs.of(panel.cells[0])[:1]
    ledger, warmup = panel.shows == "ledger", lines.warmup_of(run)
    if warmup is not None:
        style.shade(axes, warmup)
        if not ledger:  # whose lines leave no room for words
            style.note(axes, "warm-up ends", (warmup, 2), (3, 2), color=style.GREY)
    for key, (name, colour, dash) in (LEDGER if ledger else GUESSES).items():
        shares = 100 * (counted(run[0], key) / run[0]["data"]["n"] if ledger else lines.stacked(run, key))
        lines.band(axes, range(1, shares.shape[1] + 1), shares, name, color=colour, linestyle=dash)
    axes.set_xlim(0, shares.shape[1])
    axes.set_xlabel("Epoch")
    style.percent_axis(axes)


def counted(record: Record, key: str) -> lines.Values:
    """(1, epochs) how many instances; those removed are all that are not kept."""
    if key != "removed":
        return lines.stacked([record], key)
    right, wrong = (lines.stacked([record], kept) for kept in ("clean_remaining", "noisy_remaining"))
    return float(record["data"]["n"]) - right - wrong


FIGURE = PaperFigure(
    name="course",
    number="MARVEL-semi",
    caption="MARVEL-semi by epoch, the run of the first seed. Left, as shares of all instances: kept under a right and "
    "under a wrong label, removed, and returned, which are those of the kept that had been removed. Right: how many "
    "guesses are right, of removed instances whose label is wrong; and test accuracy.",
    panels=tuple(
        Panel(title, f"{noise}: {what}", (cell,), shows)
        for cell, (title, noise) in SHOWN.items()
        for shows, what in (("ledger", "kept, removed, returned"), ("guesses", "what the teacher knows"))
    ),
    draw=draw,
    only_run=True,
)
