"""Bootstrapping (Reed et al., ICLR 2015 workshop, arXiv 1412.6596).

    soft:  -sum_k [b y_k + (1 - b) p_k] log p_k  =  b CE + (1 - b) H(p)         b = 0.95
    hard:  -sum_k [b y_k + (1 - b) z_k] log p_k  =  b CE - (1 - b) max_k log p_k    b = 0.8,  z = argmax p

The gradient flows through both factors of the soft form.

Departures: none by default. Some published re-implementations *subtract* the entropy, a confidence penalty, the
opposite of Reed's minimum-entropy term; `penalty=True` gives that.

Published numbers: the row of the MARVEL paper is Pleiss et al.'s, and lies below cross entropy at 20 % to 60 % noise.
Their soft form is the one with the penalty, their hard form is Reed's; which of the two the row is of is not said. No
form here should fall below cross entropy by that much.
"""

import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


def bootstrap(logits: Tensor, y: Tensor, b: float | Tensor = 0.8, soft: bool = False, penalty: bool = False) -> Tensor:
    """(m, classes), (m,) -> (m,)"""
    ce = F.cross_entropy(logits, y, reduction="none")
    log_p = logits.log_softmax(1)
    belief = -(log_p.exp() * log_p).sum(1) if soft else -log_p.max(1).values
    return b * ce + (1 - b) * (-belief if penalty else belief)


class Bootstrap(Method):
    """`kind` is "hard" or "soft"; `b` is how far the given label is believed: 0.8 hard, 0.95 soft by default."""

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        kind: str = "hard",
        b: float | None = None,
        penalty: bool = False,
    ) -> None:
        super().__init__(n, classes, epochs)
        if kind not in ("hard", "soft"):
            raise InvalidInput(f"kind is 'hard' or 'soft', got {kind!r}")
        self.soft = kind == "soft"
        self.b = b if b is not None else 0.95 if self.soft else 0.8
        if not 0 <= self.b <= 1:
            raise InvalidInput(f"b must lie in [0, 1], got {b}")
        self.penalty = penalty

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return bootstrap(logits, y, self.b, self.soft, self.penalty)
