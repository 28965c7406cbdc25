"""MARVEL with other warm-ups, CIFAR-10 and CIFAR-100, ResNet-32: the paper's Table 7, 16 cells.

    marvel bench warmup --seeds 0                    about 11 minutes of one H200, and four runs of Tables 3 and 4
    marvel report warmup

The settings it varies are those of `sensitivity.py`.
"""

from marvel.experiment import Experiment

from .sensitivity import SEEDS, SETTINGS

WARMUPS = (20, 30, 40, 50)

EXPERIMENT = Experiment(
    "warmup",
    "Sensitivity to the warm-up: test accuracy",
    tuple(setting.cell("warmup", warmup) for setting in SETTINGS for warmup in WARMUPS),
    SEEDS,
    headings=("setting", "warm-up", "method"),
)
