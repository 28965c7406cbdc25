"""A multi-layer perceptron for vectors and tables of numbers; images are flattened."""

import math

from torch import nn

from marvel.networks.network import Network, Stack
from marvel.networks.norm import BatchNorm1d


def mlp(classes: int, shape: tuple[int, ...]) -> Network:
    """Two hidden layers of 256, each with BatchNorm and ReLU."""
    return Stack(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 256, bias=False),
        BatchNorm1d(256),
        nn.ReLU(),
        nn.Linear(256, 256, bias=False),
        BatchNorm1d(256),
        nn.ReLU(),
        width=256,
        classes=classes,
    )
