"""Which batch did the paper take for its binary problems with ResNet-18? Its text does not say: three readings.

    marvel bench binary-batch --seeds 0              about 40 minutes of one H200, and runs of Tables 1 and 2
    marvel bench binary-batch --only data=aquatic-fish --seeds 0      a fifth of that
    marvel report binary-batch

128 is the one in use, and its runs are those of Tables 1 and 2. Aquatic-fish has 5,000 images: with batches of 128 its
warm-up of 15 epochs is 600 steps, after which the network still misclassifies many right labels, and MARVEL removes
them. Cross entropy, MARVEL and MARVEL+; the rest is as in `binary.py`. Small batches take longer than the costs say.
"""

from dataclasses import replace

from marvel.experiment import Experiment

from . import binary_asymmetric, binary_symmetric

BATCHES = (128, 64, 32)

EXPERIMENT = Experiment(
    "binary-batch",
    "Binary problems with ResNet-18: which batch fits the paper's columns?",
    tuple(
        replace(cell, group=f"{cell.group}, batch {batch}", config=cell.config.but(batch=batch))
        for batch in BATCHES
        for table in (binary_symmetric, binary_asymmetric)
        for cell in table.EXPERIMENT.cells
        if cell.config.data != "boot-sneaker" and cell.config.method in ("ce", "marvel", "marvel+")
    ),
    binary_symmetric.SEEDS[:3],
    headings=("problem, batch", "noise", "method"),
    readings=True,
)
