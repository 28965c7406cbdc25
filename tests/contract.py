"""What the contract tests need to train any method by its name alone."""

from typing import Any

import torch
from torch import Tensor

from marvel import METHODS, Batch, Method

BRISK: dict[str, dict[str, Any]] = {
    "incv": {"rounds": 2, "stage_epochs": 2, "ramp": 2, "candidates_from": 2},
    "mentornet": {"percentile": 0.5},
    "confident-learning": {"folds": 2, "fold_epochs": 2},
    "aum": {"pass_epochs": 2, "percentile": 80.0},
    "co-teaching": {"ramp": 2},
    "d2l": {"window": 2, "first": 0},
    "dy-bootstrap": {"burn_in": 1},
    "l_dmi": {"pretrain": 1, "dmi_lr": 0.01},
    "marvel": {"warmup": 1, "wait": 1},
    "marvel+": {"warmup": 1, "wait": 2},
    "marvel-semi": {"warmup": 1, "wait": 1, "back": 1, "ramp": 2},
    "npcl": {"burn_in": 1},
    "sat": {"burn_in": 1},
}
"""Settings under which a method does within three epochs what it usually does within a hundred."""


def make(name: str, n: int, classes: int, epochs: int, clean: Tensor | None = None) -> Method:
    """A method of that name, told what it says it needs."""
    known = {"noise_rate": 0.3, "clean": torch.ones(n, dtype=torch.bool) if clean is None else clean}
    told = {need: known[need] for need in METHODS[name].needed(BRISK.get(name, {}))}
    return METHODS[name](n, classes, epochs, **told, **BRISK.get(name, {}))


class Plain:
    """Views that change nothing."""

    weak_uniforms = 0
    strong_uniforms = 0

    def weak(self, x: Tensor, u: Tensor) -> Tensor:
        return x

    def strong(self, x: Tensor, u: Tensor, strength: float) -> Tensor:
        return x


def batch(index: Tensor, x: Tensor, y: Tensor, seed: int) -> Batch:
    """These instances as they are, with random numbers that depend on the seed alone."""
    return Batch(
        index, y, x, Plain(), lambda k: torch.rand(len(index), k, generator=torch.Generator().manual_seed(seed))
    )
