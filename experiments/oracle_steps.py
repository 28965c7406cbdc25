"""How many steps has an epoch of the paper's Oracle? It goes over the right labels alone, or has the others in its
batches without weight, as MARVEL has what it removes.

    marvel bench oracle-steps --seeds 0 --only skip_removed=false     about 12 minutes of one H200
    marvel report oracle-steps

Where epochs shrink with the labels, at 80 % noise they have a fifth of the steps, and the network learns less in as
many epochs. The rest is as in `cifar.py`.
"""

from dataclasses import replace

from marvel.experiment import Experiment

from . import cifar_asymmetric, cifar_symmetric
from .cifar import SEEDS

READINGS = {"epochs shrink": {}, "as many steps": {"skip_removed": False}}

EXPERIMENT = Experiment(
    "oracle-steps",
    "Oracle on CIFAR: do its epochs shrink?",
    tuple(
        replace(
            cell,
            group=f"{cell.group}, {reading}",
            column=f"{noise} {cell.column}",
            config=cell.config.but(options=options),
        )
        for reading, options in READINGS.items()
        for noise, table in (("symmetric", cifar_symmetric), ("asymmetric", cifar_asymmetric))
        for cell in table.EXPERIMENT.cells
        if cell.config.method == "oracle"
    ),
    SEEDS,
    headings=("problem, epochs", "noise", "method"),
    readings=True,
)
