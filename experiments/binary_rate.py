"""Which learning rate did the paper's cross entropy begin with on its binary problems? Its text gives MARVEL's alone.

    marvel bench binary-rate --seeds 0               about 15 minutes of one H200, and runs of Tables 1 and 2
    marvel report binary-rate

"For MARVEL, the initial learning rate is 0.01": for the others nothing is said. With 0.01 cross entropy memorises
nearly all labels of the problems with ResNet-18 within 100 epochs, and on (aquatic, fish) ends below the paper's. The
rest is as in `binary.py`.
"""

from marvel.experiment import Experiment

from .binary import SEEDS
from .readings import BINARY, of, read_as

RATES = (0.01, 0.03, 0.1)

EXPERIMENT = Experiment(
    "binary-rate",
    "Binary problems: which learning rate of cross entropy fits the paper's columns?",
    read_as(of(BINARY, "ce"), {f"learning rate {rate}": {"lr": rate} for rate in RATES}),
    SEEDS[:3],
    measures=("test_accuracy", "memorisation_ratio"),
    headings=("problem, learning rate", "noise", "method"),
    readings=True,
)
