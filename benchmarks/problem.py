"""CIFAR-sized images and labels without meaning, and the settings that runs on them share."""

from typing import Any

import torch

from marvel.config import Config
from marvel.data.core import Data


def synthetic(n: int, test: int = 0) -> Data:
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n + test, 3, 32, 32), dtype=torch.uint8, generator=g)
    y = torch.randint(0, 10, (n + test,), generator=g)
    return Data(
        "synthetic",
        x[:n],
        y[:n],
        tuple(map(str, range(10))),
        x[n:] if test else None,
        y[n:] if test else None,
        augment="crop-flip",
        mean=(0.49, 0.48, 0.45),
        std=(0.25, 0.24, 0.26),
    )


def settings(method: str, network: str, device: torch.device, **changes: Any) -> Config:
    """A run that goes on for as long as one looks, and removes nothing in its first 127 epochs."""
    options = {"warmup": 0, "wait": 127} if method.startswith("marvel") else {}
    config = Config(data="synthetic", network=network, method=method, epochs=10_000, lr=0.01, drops=(), options=options)
    return config.but(device=device.type, **changes)
