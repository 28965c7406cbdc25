"""Test accuracy on CIFAR-10 with ResNet-34, symmetric and class-dependent noise: the paper's Table 5, 40 cells.

    marvel bench resnet34 --seeds 0                  about 2.3 hours of one H200
    marvel report resnet34

A tenth of the training set is held out with clean labels, noise is put into the rest, and the epoch of the lowest
validation error counts; of CE, the last. 120 epochs, learning rate 0.1, drops at 40 and 80 (MARVEL: 80 and 100),
warm-up 40; SGD, momentum 0.9, weight decay 2e-4, crop and flip; five runs. The batch is not given: 128. SCE as its own
paper has it. Below are the waits the paper selected, by that validation set.
"""

from typing import Any

from marvel.config import Config
from marvel.experiment import Cell, Experiment
from marvel.paper import METHODS

RATES = {"symmetric": (0.2, 0.4, 0.6, 0.8), "class-dependent": (0.1, 0.2, 0.3, 0.4)}
WAITS = {  # of MARVEL, and of MARVEL+, at each rate
    "symmetric": ((5, 4, 5, 20), (6, 5, 6, 25)),
    "class-dependent": ((6, 6, 5, 4), (7, 6, 5, 4)),
}
NAMES = {"symmetric": "Symmetric", "class-dependent": "Class-Dependent"}
WARMUP = 40


def cell(noise: str, rate: float, method: str, options: dict[str, Any]) -> Cell:
    protocol = "final" if method == "ce" else "validation"
    problem = Config(data="cifar10", noise=noise, rate=rate, network="resnet34", hold_out=0.1, protocol=protocol)
    place = ("resnet34", NAMES[noise], f"{rate:.0%}", method)
    return Cell(NAMES[noise], place[2], METHODS[method], problem.but(method=method, options=options), place)


EXPERIMENT = Experiment(
    "resnet34",
    "CIFAR-10, ResNet-34, a clean validation set: test accuracy",
    tuple(
        cell(noise, rate, method, {} if waits is None else {"warmup": WARMUP, "wait": waits[k]})
        for noise, rates in RATES.items()
        for k, rate in enumerate(rates)
        for method, waits in (
            ("ce", None),
            ("sce", None),
            ("marvel", WAITS[noise][0]),
            ("marvel+", WAITS[noise][1]),
            ("oracle", None),
        )
    ),
    tuple(range(5)),
    headings=("type", "noise", "method"),
)
