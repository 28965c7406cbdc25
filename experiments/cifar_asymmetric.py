"""Test accuracy on CIFAR-10 and CIFAR-100 with asymmetric noise, ResNet-32: the paper's Table 4.

    marvel bench cifar-asymmetric --only method=ce,sce,marvel,marvel+,oracle --seeds 0    about 18 minutes of one H200
    marvel bench cifar-asymmetric --seeds 0                                               about 70 minutes: all methods
    marvel report cifar-asymmetric

Asymmetric is circular: class 0 to class 1, and so on. Settings: `cifar.py`. Below are the waits the paper selected.
"""

from marvel.experiment import Experiment

from .cifar import SEEDS, rows

RATES = (0.2, 0.4)
WAITS = {"cifar10": ((8, 6), (10, 6)), "cifar100": ((16, 7), (15, 6))}  # of MARVEL, and of MARVEL+, at each rate

EXPERIMENT = Experiment(
    "cifar-asymmetric",
    "CIFAR-10 and CIFAR-100, asymmetric noise, ResNet-32: test accuracy",
    tuple(
        cell
        for data, waits in WAITS.items()
        for rate, wait, wait_plus in zip(RATES, *waits, strict=True)
        for cell in rows("cifar-asymmetric", data, "circular", rate, wait, wait_plus)
    ),
    SEEDS,
)
