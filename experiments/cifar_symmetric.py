"""Test accuracy on CIFAR-10 and CIFAR-100 with symmetric noise, ResNet-32: the paper's Table 3.

    marvel bench cifar-symmetric --only method=ce,sce,marvel,marvel+,oracle --seeds 0     about 36 minutes of one H200
    marvel bench cifar-symmetric --seeds 0                                                about 3 hours: all methods
    marvel report cifar-symmetric

Settings: `cifar.py`. Below are the waits the paper selected.
"""

from marvel.experiment import Experiment

from .cifar import SEEDS, rows

RATES = (0.2, 0.4, 0.6, 0.8)
WAITS = {  # of MARVEL, and of MARVEL+, at each rate
    "cifar10": ((10, 8, 8, 22), (9, 7, 7, 26)),
    "cifar100": ((19, 19, 16, 19), (19, 18, 17, 18)),
}

EXPERIMENT = Experiment(
    "cifar-symmetric",
    "CIFAR-10 and CIFAR-100, symmetric noise, ResNet-32: test accuracy",
    tuple(
        cell
        for data, waits in WAITS.items()
        for rate, wait, wait_plus in zip(RATES, *waits, strict=True)
        for cell in rows("cifar-symmetric", data, "symmetric", rate, wait, wait_plus)
    ),
    SEEDS,
)
