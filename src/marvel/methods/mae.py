"""Mean absolute error (Ghosh et al., AAAI 2017, arXiv 1712.09482).

    L = |e_y - p|_1 = 2 (1 - p_y)                     robust to symmetric noise, and slow to learn many classes

Departures: none. GCE with q = 1 is half of it; only `scale` times the learning rate matters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


def mae(logits: Tensor, y: Tensor, scale: float = 2.0) -> Tensor:
    """(m, classes), (m,) -> (m,). Of log p, so that 1 - p_y keeps its digits where p_y is near 1."""
    return -scale * torch.expm1(-F.cross_entropy(logits, y, reduction="none"))


class MAE(Method):
    """`scale`: 2 is the absolute error, 1 the error probability 1 - p_y."""

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, scale: float = 2.0) -> None:
        super().__init__(n, classes, epochs)
        if scale <= 0:
            raise InvalidInput(f"scale must be positive, got {scale}")
        self.scale = scale

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return mae(logits, y, self.scale)
