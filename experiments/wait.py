"""MARVEL with other waits, CIFAR-10 and CIFAR-100, ResNet-32: the paper's Table 8, 16 cells.

    marvel bench wait --seeds 0                      about 11 minutes of one H200, and four runs of Tables 3 and 4
    marvel report wait

The settings it varies are those of `sensitivity.py`.
"""

from marvel.experiment import Experiment

from .sensitivity import SEEDS, SETTINGS

WAITS = ((6, 8, 10, 12), (4, 6, 8, 10), (10, 13, 16, 19), (10, 13, 16, 19))  # of each setting

EXPERIMENT = Experiment(
    "wait",
    "Sensitivity to the wait: test accuracy",
    tuple(setting.cell("wait", wait) for setting, waits in zip(SETTINGS, WAITS, strict=True) for wait in waits),
    SEEDS,
    headings=("setting", "wait", "method"),
)
