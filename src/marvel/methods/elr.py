"""Early-learning regularisation (Liu et al., NeurIPS 2020, arXiv 2007.00151).

    t_i <- b t_i + (1 - b) p_i                        a memory of what was predicted for i, from t_i = 0 on
    L = CE + lam mean log(1 - <t_i, p_i>)             the gradient flows through p_i in the product only

t is updated before it is used, with p clamped to [1e-4, 1 - 1e-4] and made to sum to 1 again. Defaults: the paper's
(b, lam) = (0.7, 3) of CIFAR-10 with symmetric noise; (0.9, 1) with asymmetric noise, (0.9, 7) for CIFAR-100.

Departures: none. As in the authors' code, the p of the product is clamped too.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Outputs


def clamped(logits: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1.  (m, classes) -> (m, classes)"""
    return logits.softmax(1).clamp(1e-4, 1 - 1e-4)


def elr(logits: Tensor, y: Tensor, target: Tensor, lam: float = 3.0) -> Tensor:
    """(m, classes), (m,), (m, classes) -> (m,)"""
    ce = F.cross_entropy(logits, y, reduction="none")
    return ce + lam * (1 - (target * clamped(logits)).sum(1)).log()


class ELR(Method):
    """`b`: how slowly the memory follows; `lam`: how much it counts."""

    target: Tensor  # (n, classes) what was predicted of each instance so far

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, b: float = 0.7, lam: float = 3.0) -> None:
        super().__init__(n, classes, epochs)
        if not 0 <= b < 1 or lam < 0:
            raise InvalidInput(f"ELR wants b in [0, 1) and lam >= 0, got {b} and {lam}")
        self.b, self.lam = b, lam
        self.remember("target", torch.zeros(n, classes))

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        if index is None:
            return super().cost(logits, y, index)
        p = clamped(logits.detach())
        target = self.b * self.target[index] + (1 - self.b) * p / p.sum(1, keepdim=True)
        self.target[index] = target
        return elr(logits, y, target, self.lam)

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        """Of the global batch, so that every process remembers the same."""
        return super().loss(outputs, y, index)

    @property
    def of_costs(self) -> bool:
        return True
