"""Label smoothing (Szegedy et al., CVPR 2016, arXiv 1512.00567; for noisy labels Lukasik et al., ICML 2020).

    L = -sum_k t_k log p_k,    t = (1 - s) e_y + s / K

Departures: none.
"""

import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


def label_smoothing(logits: Tensor, y: Tensor, s: float = 0.1) -> Tensor:
    """(m, classes), (m,) -> (m,)"""
    return F.cross_entropy(logits, y, reduction="none", label_smoothing=s)


class LabelSmoothing(Method):
    """`s` in [0, 1]: how much of the target is spread over all classes."""

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, s: float = 0.1) -> None:
        super().__init__(n, classes, epochs)
        if not 0 <= s <= 1:
            raise InvalidInput(f"s must lie in [0, 1], got {s}")
        self.s = s

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return label_smoothing(logits, y, self.s)
