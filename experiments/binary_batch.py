"""Which batch did the paper take for its binary problems? Its text does not say: four readings.

    marvel bench binary-batch --seeds 0              about 67 minutes of one H200, and runs of Tables 1 and 2
    marvel bench binary-batch --only data=aquatic-fish --seeds 0      a fifth of that
    marvel report binary-batch

128 is the one in use, and its runs are those of Tables 1 and 2; 256 is what the paper takes for its real-world data.
Cross entropy, MARVEL and MARVEL+; the rest is as in `binary.py`. Small batches take longer than the costs say.
"""

from marvel.experiment import Experiment

from .binary import SEEDS
from .readings import BINARY, of, read_as

BATCHES = (128, 256, 64, 32)

EXPERIMENT = Experiment(
    "binary-batch",
    "Binary problems: which batch fits the paper's columns?",
    read_as(of(BINARY, "ce", "marvel", "marvel+"), {f"batch {batch}": {"batch": batch} for batch in BATCHES}),
    SEEDS[:3],
    measures=("test_accuracy", "memorisation_ratio"),
    headings=("problem, batch", "noise", "method"),
    readings=True,
)
