"""A small classification problem with wrong labels in it, and a network that learns it in seconds."""

import torch
from torch import Tensor, nn

FEATURES = 8


def problem(n: int, classes: int, noise: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian blobs around far-apart centres: `x` (n, FEATURES), given labels `y` (n,), and the mask `clean` (n,).

    Exactly `round(noise * n)` labels are wrong, each moved to another class.
    """
    g = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(classes, FEATURES, generator=g)
    truth = torch.arange(n) % classes
    x = centres[truth] + torch.randn(n, FEATURES, generator=g)
    clean = torch.ones(n, dtype=torch.bool)
    clean[torch.randperm(n, generator=g)[: round(noise * n)]] = False
    other = (truth + torch.randint(1, classes, (n,), generator=g)) % classes
    return x, torch.where(clean, truth, other), clean


def network(seed: int, classes: int = 3, width: int = 16) -> nn.Module:
    """Two layers; the same seed gives the same parameters, and the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, classes))
