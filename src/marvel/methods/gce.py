"""Generalised cross entropy (Zhang & Sabuncu, NeurIPS 2018, arXiv 1805.07836).

    L_q(f(x), y) = (1 - p_y^q) / q                     cross entropy as q -> 0, mean absolute error at q = 1

Truncated (their section 3.3): every `every` epochs from `prune_from` on, instances with p_y <= k in evaluation mode
get weight 0 until the next time.

Departures: the published code prunes with the checkpoint of the best validation accuracy; here the network as it is
prunes, so that no validation set is needed. There the truncated loss is a mean over the whole batch, here over those
kept, as for every method that removes: pruning does not lower the learning rate.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Steps

if TYPE_CHECKING:
    from marvel.trainer import Trainer


def gce(logits: Tensor, y: Tensor, q: float = 0.7) -> Tensor:
    """(m, classes), (m,) -> (m,). Of log p, whose gradient times p^q stays finite where that of p^q itself explodes."""
    ce = F.cross_entropy(logits, y, reduction="none")
    return ce if q == 0 else -torch.expm1(-q * ce) / q


class GCE(Method):
    """`q` in [0, 1]; `truncate` is the paper's k, 0: plain; `prune_from` is the last epoch without pruning."""

    trainer_where = "truncate > 0"

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        q: float = 0.7,
        truncate: float = 0.0,
        prune_from: int = 40,
        every: int = 10,
    ) -> None:
        super().__init__(n, classes, epochs)
        if not 0 <= q <= 1 or not 0 <= truncate < 1 or every < 1:
            raise InvalidInput(
                f"GCE wants q in [0, 1], truncate in [0, 1) and every >= 1, got {q}, {truncate} and {every}"
            )
        self.q, self.truncate, self.prune_from, self.every = q, truncate, prune_from, every

    def left_out(self) -> list[str]:
        return super().left_out() if self.truncate > 0 else []

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return gce(logits, y, self.q)

    def start(self, trainer: "Trainer") -> Steps | None:
        passed = self.epoch - 1 - self.prune_from
        return self.prune(trainer) if self.truncate > 0 and passed >= 0 and passed % self.every == 0 else None

    def prune(self, trainer: "Trainer") -> Steps:
        logits = yield from trainer.logits(self)
        p = logits.softmax(1).gather(1, trainer.y[:, None]).squeeze(1)
        self.weight = (p > self.truncate).float()
