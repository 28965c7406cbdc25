"""Figures 7 and 8: the memorisation ratio across methods."""

import math
from typing import TYPE_CHECKING

from marvel.report.cells import ASYMMETRIC_40, Cell, Runs, name_of
from marvel.report.figures import lines, style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINARY = ("ce", "gce", "sce", "npcl", "marvel+")
MULTI = ("ce", "sce", "marvel", "marvel+")


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    found = {cell.method: (name_of(cell.method), runs.of(cell)) for cell in panel.cells if runs.of(cell)}
    ends = [warmup for _, records in found.values() if (warmup := lines.warmup_of(records)) is not None]
    if ends:
        style.shade_warmup(axes, min(ends))
    lines.by_method(axes, found, "memorisation_ratio")
    highest = max(lines.stacked(records, "memorisation_ratio").mean(axis=0).max() for _, records in found.values())
    top = max(40, 20 * math.ceil(5 * highest))
    style.percent_axis(axes, 0, top, 20 if top > 40 else 10)


def panel(title: str, subtitle: str, cell: Cell, methods: tuple[str, ...]) -> Panel:
    return Panel(title, subtitle, tuple(cell.by(method) for method in methods))


READING = "read as (40 %, 0 %)"
BINARY_FIGURE = PaperFigure(
    name="memorisation-binary",
    number="Figure 7",
    caption="Memorisation ratio of the binary problems. NPCL trains for twice as many epochs, of which every second is "
    "shown. The caption of the paper names no methods: these are the ones its text compares, with MARVEL+.",
    panels=(
        panel("truck-car", "20 % symmetric", Cell("truck-car", "symmetric", (0.2,), ""), BINARY),
        panel("truck-car", f"40 % asymmetric, {READING}", Cell("truck-car", "pair", ASYMMETRIC_40, ""), BINARY),
        panel("cat-dog", "20 % symmetric", Cell("cat-dog", "symmetric", (0.2,), ""), BINARY),
        panel("cat-dog", f"40 % asymmetric, {READING}", Cell("cat-dog", "pair", ASYMMETRIC_40, ""), BINARY),
    ),
    draw=draw,
    same_scale=True,
)

MULTI_FIGURE = PaperFigure(
    name="memorisation-cifar",
    number="Figure 8",
    caption="Memorisation ratio on CIFAR-10 and CIFAR-100, of the methods the authors ran themselves. MARVEL's "
    "learning rate falls later than the others', as in the paper.",
    panels=(
        panel("CIFAR-10", "40 % symmetric", Cell("cifar10", "symmetric", (0.4,), ""), MULTI),
        panel("CIFAR-10", "40 % asymmetric", Cell("cifar10", "circular", (0.4,), ""), MULTI),
        panel("CIFAR-100", "60 % symmetric", Cell("cifar100", "symmetric", (0.6,), ""), MULTI),
        panel("CIFAR-100", "20 % asymmetric", Cell("cifar100", "circular", (0.2,), ""), MULTI),
    ),
    draw=draw,
    same_scale=True,
)
