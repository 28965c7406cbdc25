"""Costs by name: what MARVEL weights. "A plug-in substitute for any loss function", says the paper, and any callable
that gives one cost per instance, `(logits (m, classes), y (m,)) -> (m,)`, will do.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor

from marvel.errors import pick
from marvel.methods.bootstrap import bootstrap
from marvel.methods.gce import gce
from marvel.methods.label_smoothing import label_smoothing
from marvel.methods.mae import mae
from marvel.methods.sce import sce

Cost: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """`-log p_y`"""
    return F.cross_entropy(logits, y, reduction="none")


def focal(logits: Tensor, y: Tensor, gamma: float = 2.0) -> Tensor:
    """`-(1 - p_y)^gamma log p_y` (Lin et al., ICCV 2017)."""
    ce = F.cross_entropy(logits, y, reduction="none")
    # Below gamma = 1 the power's gradient is infinite at 0, which 1 - p_y is once p_y rounds to 1.
    return (1 - (-ce).exp()).clamp(min=1e-7) ** gamma * ce


COSTS: dict[str, Cost] = {
    "bootstrap": bootstrap,
    "ce": cross_entropy,
    "focal": focal,
    "gce": gce,
    "label-smoothing": label_smoothing,
    "mae": mae,
    "sce": sce,
}


def as_cost(cost: str | Cost) -> Cost:
    """The cost of that name, or the callable itself."""
    return pick("cost", cost, COSTS) if isinstance(cost, str) else cost
