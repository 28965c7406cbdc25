"""Figure 4(a): what a margin is worth to MARVEL+."""

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from marvel.report.cells import Runs
from marvel.report.figures import style
from marvel.report.figures.sheet import Panel, PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = npt.NDArray[np.float64]
MEDIAN, VARIANCE = 2.0, 3.0


def draw(axes: "Axes", panel: Panel, runs: Runs) -> None:
    low, high, sd = -5.0, 9.0, math.sqrt(VARIANCE)
    left = np.linspace(low, MEDIAN, 200)
    green = style.LOOKS["marvel+"]["color"]
    right = np.array([MEDIAN + 1e-9, high])
    axes.plot(left, weight(left), color=green)
    axes.plot(right, weight(right), color=green)
    axes.plot(left[-1:], weight(left[-1:]), "o", color=green, markersize=4.5)
    axes.plot(right[:1], weight(right[:1]), "o", markerfacecolor="white", markeredgecolor=green, markersize=4.5)
    for at, name in ((MEDIAN - sd, "μ – σ"), (MEDIAN, "μ")):
        style.mark_epoch(axes, at)
        style.note(axes, name, (at, 1.08), (-3, 0), ha="right", color=style.GREY)
    style.note(axes, "$e^{-1/2}$ ≈ 0.61", (high, math.exp(-0.5)), (0, 5), ha="right")
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.15)
    axes.set_xlabel("Margin")
    axes.set_ylabel("Weight")


def weight(margin: Values) -> Values:
    """Among three margins whose median and variance are the figure's."""
    import torch

    from marvel.methods.marvel import adaptive_weight

    away = math.sqrt(1.5 * VARIANCE)
    every = torch.tensor([MEDIAN - away, MEDIAN, MEDIAN + away, *margin.tolist()], dtype=torch.float64)
    found: Values = adaptive_weight(every, torch.arange(len(every)) < 3)[3:].numpy()
    return found


FIGURE = PaperFigure(
    name="weight-function",
    number="Figure 4 (a)",
    caption="The weight of a margin in MARVEL+, for a median μ = 2 and a variance σ² = 3 (dashed: μ, and μ – σ, whose "
    "weight all margins above the median have).",
    panels=(Panel("Weight of a margin", "MARVEL+, μ = 2, σ² = 3", ()),),
    draw=draw,
)
