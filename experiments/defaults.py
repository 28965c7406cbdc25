"""MARVEL and MARVEL+ with nothing set: what a user gets who knows neither warm-up nor wait.

    marvel bench defaults --seeds 0                  about 37 minutes of one H200, and runs of Tables 1 to 4
    marvel report defaults

The paper reads the warm-up off a run of cross entropy, and chooses the wait in each cell by cross-validation. With
"auto" the warm-up ends where the training accuracy stops rising fast, and the wait is a fifteenth of the epochs. The
schedule is the paper's.
"""

from marvel.experiment import Experiment

from .cifar import SEEDS
from .readings import BINARY, CIFAR, of, read_as

READINGS = {"as the paper sets it": {}, "nothing set": {"options": {"warmup": "auto", "wait": "auto"}}}

EXPERIMENT = Experiment(
    "defaults",
    "MARVEL and MARVEL+ with warm-up and wait chosen by themselves: test accuracy",
    read_as(of((*BINARY, *CIFAR), "marvel", "marvel+"), READINGS),
    SEEDS,
    measures=("test_accuracy", "label_precision", "label_recall"),
    headings=("problem, settings", "noise", "method"),
    readings=True,
)
