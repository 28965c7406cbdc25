"""Self-adaptive training (Huang et al., NeurIPS 2020, arXiv 2002.10319).

After E_s epochs of cross entropy, the target of each instance drifts from its given label to what is predicted:

    t_i <- a t_i + (1 - a) p_i,    w_i = max_k t_ik        from t_i = e_y on;  a = 0.9
    L = - sum_i w_i <t_i, log p_i> / sum_i w_i

t is updated before it is used, and no gradient flows through it.

Departures: none. E_s is the share 60 / 200 of the epochs, as for CIFAR-10 in the paper, unless `burn_in` says it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Outputs, weighted_mean


def sat(logits: Tensor, target: Tensor) -> Tensor:
    """(m, classes), (m, classes) -> ()"""
    costs = -(target * logits.log_softmax(1)).sum(1)
    return weighted_mean(costs, target.amax(1))


class SAT(Method):
    """`a`: how slowly targets drift; `burn_in`: E_s, the epochs of plain cross entropy (None: 0.3 of all, else 60)."""

    target: Tensor  # (n, classes) the drifting targets; 0: not begun

    def __init__(
        self, n: int, classes: int, epochs: int | None = None, *, a: float = 0.9, burn_in: int | None = None
    ) -> None:
        super().__init__(n, classes, epochs)
        if not 0 <= a <= 1:
            raise InvalidInput(f"a must lie in [0, 1], got {a}")
        self.a = a
        self.burn_in = burn_in if burn_in is not None else round(0.3 * epochs) if epochs else 60
        self.remember("target", torch.zeros(n, classes))

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        label, known = F.one_hot(y, self.classes).to(outputs.dtype), self.target[index]
        before = torch.where(known.sum(1, keepdim=True) > 0, known, label)
        drifted = self.a * before + (1 - self.a) * outputs.detach().softmax(1)
        burning = self.clock <= self.burn_in
        self.target[index] = torch.where(burning, known, drifted)
        return sat(outputs, torch.where(burning, label, drifted))
