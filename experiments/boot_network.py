"""Which 4-layer CNN did the paper train on (boot, sneaker)? Its text does not say: three readings, all six methods.

    marvel bench boot-network --seeds 0              about 9 minutes of one H200, and runs of Tables 1 and 2
    marvel report boot-network

    cnn4         two convolutions and two linear layers, without BatchNorm, inputs standardised: the one in use
    cnn4-bn      the same with BatchNorm, as D2L's and SCE's code has it
    cnn4-conv4   four convolutions and two linear layers, as AUM's code has it

The rest is as in `binary.py`.
"""

from dataclasses import replace

from marvel.experiment import Experiment

from . import binary_asymmetric, binary_symmetric

NETWORKS = ("cnn4", "cnn4-bn", "cnn4-conv4")

EXPERIMENT = Experiment(
    "boot-network",
    "Boot against sneaker: which network fits the paper's column?",
    tuple(
        replace(cell, group=network, config=cell.config.but(network=network))
        for network in NETWORKS
        for table in (binary_symmetric, binary_asymmetric)
        for cell in table.EXPERIMENT.cells
        if cell.config.data == "boot-sneaker"
    ),
    binary_symmetric.SEEDS[:3],
    headings=("network", "noise", "method"),
    readings=True,
)
