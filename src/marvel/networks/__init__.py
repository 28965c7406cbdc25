"""The networks of the paper, and two small ones: by name, for images (C, H, W) or vectors (D,).

`build` is the way in. Every network has `.features(x)`, the (m, d) output before the last linear layer, `.head`, that
layer, and `network(x) == network.head(network.features(x))`.
"""

from collections.abc import Callable

import torch

from marvel.errors import InvalidInput, pick
from marvel.networks.cnn2 import cnn2
from marvel.networks.cnn4 import cnn4, cnn4_bn, cnn4_conv4
from marvel.networks.mlp import mlp
from marvel.networks.network import Network
from marvel.networks.resnet import resnet18, resnet34, resnet50
from marvel.networks.resnet_cifar import resnet32
from marvel.networks.weights import load_weights

__all__ = ["NETWORKS", "Network", "build", "load_weights"]

NETWORKS: dict[str, Callable[[int, tuple[int, ...]], Network]] = {
    "cnn2": cnn2,
    "cnn4": cnn4,
    "cnn4-bn": cnn4_bn,
    "cnn4-conv4": cnn4_conv4,
    "mlp": mlp,
    "resnet18": resnet18,
    "resnet32": resnet32,
    "resnet34": resnet34,
    "resnet50": resnet50,
}


def build(name: str, classes: int, shape: tuple[int, ...], seed: int = 0) -> Network:
    """The network of that name for instances of `shape`, on the CPU; its weights are a function of `seed` alone."""
    builder = pick("network", name, NETWORKS)
    if classes < 1:
        raise InvalidInput(f"classes must be at least 1, given {classes}")
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise InvalidInput(
            f"shape must be (C, H, W) for images or (D,) for vectors, all positive, given {shape}; "
            "grey images are (1, H, W)"
        )
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed: it would reseed the GPUs' generators too, and nothing here restores those.
        torch.default_generator.manual_seed(seed)
        return builder(classes, tuple(shape))
