"""A small convolutional network with BatchNorm: the demo's, for 8 x 8 digits."""

from torch import nn

from marvel.networks.network import Network, Stack
from marvel.networks.norm import BatchNorm1d, BatchNorm2d
from marvel.networks.shape import image


def cnn2(classes: int, shape: tuple[int, ...]) -> Network:
    """Two convolutions (16 and 32 channels), each halved by max-pooling, and a linear layer of 128."""
    channels, height, width = image(shape, "cnn2", least=4)
    return Stack(
        nn.Conv2d(channels, 16, 3, padding=1, bias=False),
        BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 128, bias=False),
        BatchNorm1d(128),
        nn.ReLU(),
        width=128,
        classes=classes,
    )
