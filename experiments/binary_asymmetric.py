"""Test accuracy on the binary problems with asymmetric noise: the paper's Table 2, 96 cells.

    marvel bench binary-asymmetric --seeds 0         about 24 minutes of one H200; all ten seeds: four hours
    marvel report binary-asymmetric

(40%,10%) flips 40 % of the first named class and 10 % of the second. Settings: `binary.py`. Below are the waits the
paper selected.
"""

from marvel.config import Config
from marvel.experiment import Experiment

from .binary import SEEDS, six

RATES = ((0.2, 0.0), (0.3, 0.1), (0.4, 0.0), (0.4, 0.1))
WAITS = {  # of MARVEL, and of MARVEL+, at each pair of rates
    "boot-sneaker": ((6, 6, 5, 6), (6, 7, 5, 4)),
    "truck-car": ((3, 4, 3, 4), (4, 4, 3, 3)),
    "cat-dog": ((5, 4, 4, 5), (5, 4, 4, 5)),
    "aquatic-fish": ((4, 5, 5, 6), (4, 5, 5, 6)),
}

EXPERIMENT = Experiment(
    "binary-asymmetric",
    "Binary problems, asymmetric noise: test accuracy",
    tuple(
        cell
        for data, waits in WAITS.items()
        for (first, second), wait, wait_plus in zip(RATES, *waits, strict=True)
        for cell in six(
            "binary-asymmetric",
            f"({first:.0%},{second:.0%})",
            Config(data=data, noise="pair", rates=(first, second)),
            wait,
            wait_plus,
        )
    ),
    SEEDS,
)
