"""Which batch did the paper take for its binary problems? Its text does not say: four readings.

    marvel bench binary-batch --seeds 0              about 67 minutes of one H200, and runs of Tables 1 and 2
    marvel bench binary-batch --only data=aquatic-fish --seeds 0      a fifth of that
    marvel report binary-batch

128 is the one in use, and its runs are those of Tables 1 and 2; 256 is what the paper takes for its real-world data.
Cross entropy, MARVEL and MARVEL+; the rest is as in `binary.py`. Small batches take longer than the costs say.
"""

from marvel.experiment import Experiment

from . import binary_asymmetric, binary_symmetric
from .binary import read_as

BATCHES = (128, 256, 64, 32)

EXPERIMENT = Experiment(
    "binary-batch",
    "Binary problems: which batch fits the paper's columns?",
    tuple(read_as((binary_symmetric, binary_asymmetric), ("ce", "marvel", "marvel+"), "batch", BATCHES)),
    binary_symmetric.SEEDS[:3],
    measures=("test_accuracy", "memorisation_ratio"),
    headings=("problem, batch", "noise", "method"),
    readings=True,
)
