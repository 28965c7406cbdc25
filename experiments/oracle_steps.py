"""How many steps has an epoch of the paper's Oracle? It goes over the right labels alone, or has the others in its
batches without weight, as MARVEL has what it removes.

    marvel bench oracle-steps --seeds 0 --only skip_removed=false     about 12 minutes of one H200
    marvel report oracle-steps

Where epochs shrink with the labels, at 80 % noise they have a fifth of the steps, and the network learns less in as
many epochs. The rest is as in `cifar.py`.
"""

from marvel.experiment import Experiment

from .cifar import SEEDS
from .readings import CIFAR, of, read_as

READINGS = {"epochs shrink": {}, "as many steps": {"options": {"skip_removed": False}}}

EXPERIMENT = Experiment(
    "oracle-steps",
    "Oracle on CIFAR: do its epochs shrink?",
    read_as(of(CIFAR, "oracle"), READINGS),
    SEEDS,
    headings=("problem, epochs", "noise", "method"),
    readings=True,
)
