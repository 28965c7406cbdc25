"""Test accuracy on the binary problems with symmetric noise: the paper's Table 1, 96 cells.

    marvel bench binary-symmetric --seeds 0          about 24 minutes of one H200; all ten seeds: four hours
    marvel report binary-symmetric

Settings: `binary.py`. Below are the waits the paper selected.
"""

from marvel.config import Config
from marvel.experiment import Experiment

from .binary import SEEDS, six

RATES = (0.1, 0.2, 0.3, 0.4)
WAITS = {  # of MARVEL, and of MARVEL+, at each rate
    "boot-sneaker": ((6, 6, 5, 6), (6, 6, 5, 6)),
    "truck-car": ((5, 3, 4, 4), (5, 3, 4, 4)),
    "cat-dog": ((4, 4, 5, 5), (4, 5, 5, 5)),
    "aquatic-fish": ((4, 4, 4, 5), (7, 4, 4, 6)),
}

EXPERIMENT = Experiment(
    "binary-symmetric",
    "Binary problems, symmetric noise: test accuracy",
    tuple(
        cell
        for data, waits in WAITS.items()
        for rate, wait, wait_plus in zip(RATES, *waits, strict=True)
        for cell in six(
            "binary-symmetric", f"{rate:.0%}", Config(data=data, noise="symmetric", rate=rate), wait, wait_plus
        )
    ),
    SEEDS,
)
