"""Noise pruned curriculum loss (Lyu & Tsang, ICLR 2020, arXiv 1905.10045).

    min over v in {0, 1}^B of max( sum_i v_i h_i,  C - sum_i v_i ),     h_i = max(0, 1 - m_i)     the hard hinge

Its exact solution keeps the instances of smallest h, in ascending order, while S_i <= C + 1 - i, where S_i is the sum
of the i smallest. The loss is the mean *soft* hinge of those kept: max(0, 1 - m) where the instance is classified
rightly, else max(0, 1 - z_y + logsumexp(z)).

    C = (1 - eps) B                                        threshold = "rate", as the MARVEL paper has it
    C = (1 - eps)^2 B + (1 - eps) #misclassified           threshold = "batch", as the NPCL paper and code have it

The first `burn_in` epochs use the mean soft hinge of the whole batch. It must be told the noise rate eps.

Departures: none. A batch in which nothing is kept gives zero loss.

Published numbers: the MARVEL paper has NPCL on two classes only. On CIFAR-10 with 40 % symmetric noise and the paper's
learning rate it loses whole classes. Where the burn-in ends the test accuracy nearly halves: while losses are large
about C/2 of a batch are kept, those of the classes learnt best. In our run (results/baselines.jsonl) no label of three
of the ten was kept any more at the end (`used_by_class`), and nothing in the loss calls them back: they are what is
missing to the other methods. Its own paper trains with Adam at 0.001, where the classes are more alike when the
selection begins. The MARVEL paper sees the same of two classes with unequal noise.
"""

import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Outputs, margins


def soft_hinge(logits: Tensor, y: Tensor) -> Tensor:
    """(m, classes), (m,) -> (m,)"""
    margin = margins(logits, y)[0]
    own = logits.gather(1, y[:, None]).squeeze(1)
    wrong = 1 - own + logits.logsumexp(1)
    return torch.where(margin > 0, 1 - margin, wrong).clamp(min=0)


def selection(h: Tensor, C: Tensor | float) -> Tensor:
    """The exact minimiser v of the objective, as a mask (m,)."""
    ascending, order = h.sort(stable=True)
    place = torch.arange(1, len(h) + 1, device=h.device)
    # The bound falls and the sums rise with the place, so those kept are the first ones.
    kept = ascending.cumsum(0) <= C + 1 - place
    return torch.empty_like(kept).scatter_(0, order, kept)


class NPCL(Method):
    """`noise_rate` is eps; `burn_in` epochs without selection; `threshold` "rate" or "batch"."""

    needs = ("noise_rate",)
    kept: Tensor  # (n,) 1 where its last batch kept the instance, else 0: a note for the record

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        noise_rate: float,
        burn_in: int = 10,
        threshold: str = "rate",
    ) -> None:
        super().__init__(n, classes, epochs)
        if not 0 <= noise_rate < 1:
            raise InvalidInput(f"noise_rate must lie in [0, 1), got {noise_rate}")
        if threshold not in ("rate", "batch"):
            raise InvalidInput(f"threshold is 'rate' or 'batch', got {threshold!r}")
        self.noise_rate, self.burn_in, self.threshold = noise_rate, burn_in, threshold
        self.remember("kept", torch.ones(n))

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return soft_hinge(logits, y)

    @property
    def used(self) -> Tensor:
        return self.kept

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        margin = margins(outputs.detach(), y)[0]
        keep = 1 - self.noise_rate
        C: Tensor | float = keep * len(y)
        if self.threshold == "batch":
            C = keep**2 * len(y) + keep * (margin <= 0).sum()
        kept = selection((1 - margin).clamp(min=0), C) | (self.clock <= self.burn_in)
        self.idle += ~kept.any()
        self.kept.index_copy_(0, index, kept.float())
        costs = self.cost(outputs, y, index)
        return torch.where(kept, costs, 0).sum() / kept.sum().clamp(min=1)
