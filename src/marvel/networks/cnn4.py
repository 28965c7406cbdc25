"""The "4-layer CNN" of the paper's FASHION-MNIST experiments, which it does not specify: three readings.

    cnn4-bn     conv 32, conv 64, linear 128, linear K, with BatchNorm (the network D2L calls a 4-layer CNN)
    cnn4-conv4  conv 32, 32, conv 64, 64, linear 512, linear K, without (AUM's "Conv4")
    cnn4        cnn4-bn without BatchNorm, PyTorch's default initialisation: the default, it fits the paper best

All convolutions are 3 x 3 and keep the size; a 2 x 2 max-pooling follows each width. `cnn4` reproduces the paper only
on inputs standardised with the training set's mean and standard deviation.
"""

from torch import nn

from marvel.networks.network import Network, Stack
from marvel.networks.norm import BatchNorm1d, BatchNorm2d
from marvel.networks.shape import image


def cnn4(classes: int, shape: tuple[int, ...]) -> Network:
    """The default reading: no BatchNorm, PyTorch's default initialisation."""
    channels, height, width = image(shape, "cnn4", least=4)
    return Stack(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        width=128,
        classes=classes,
    )


def cnn4_bn(classes: int, shape: tuple[int, ...]) -> Network:
    """D2L's reading: BatchNorm after the convolutions and after linear 128, He-normal weights, biases of 0."""
    channels, height, width = image(shape, "cnn4-bn", least=4)
    network = Stack(
        nn.Conv2d(channels, 32, 3, padding=1),
        BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        BatchNorm1d(128),
        nn.ReLU(),
        width=128,
        classes=classes,
    )
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def cnn4_conv4(classes: int, shape: tuple[int, ...]) -> Network:
    """AUM's reading: four convolutions and two linear layers, no BatchNorm."""
    channels, height, width = image(shape, "cnn4-conv4", least=4)
    return Stack(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 512),
        nn.ReLU(),
        width=512,
        classes=classes,
    )
