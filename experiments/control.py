"""Cross entropy on MARVEL's learning-rate schedule: how much of the gain is the schedule's? Beyond the paper.

    marvel bench control --seeds 0                   about 11 minutes of one H200, and runs of Tables 3 and 4
    marvel report control

MARVEL keeps the high learning rate longer than CE: it falls after epochs 80 and 100 instead of 40 and 80 on CIFAR-10,
after 100 and 130 instead of 80 and 120 on CIFAR-100. What CE gains by that is not MARVEL's own.
"""

from dataclasses import replace

from marvel.experiment import Cell, Experiment
from marvel.presets import PRESETS

from .cifar import SEEDS
from .readings import CIFAR, of

CONTROL = "CE, MARVEL's schedule"


def cells() -> list[Cell]:
    """In each setting CE, CE on MARVEL's schedule, and MARVEL."""
    found = []
    for cell in of(CIFAR, "ce", "marvel"):
        found.append(cell)
        if cell.config.method == "ce":
            late = cell.config.but(drops=PRESETS[cell.config.data].marvel_drops)
            found.append(replace(cell, row=CONTROL, config=late, paper=None))
    return found


EXPERIMENT = Experiment(
    "control",
    "Cross entropy on MARVEL's learning-rate schedule: test accuracy",
    tuple(cells()),
    SEEDS,
)
