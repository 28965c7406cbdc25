"""Co-teaching (Han et al., NeurIPS 2018, arXiv 1804.06872).

Two networks see the same batch. Each ranks it by its own cross entropy, and hands its R(e) B instances of smallest loss
to the *other*, which learns from their mean:

    R(e) = 1 - tau min(e / T_k, 1)                        tau: the noise rate, which it must be told

Departures: the published code divides the mean by the number kept once more, which SGD would feel as a learning rate a
hundred times smaller; not here. The margins followed are the first network's. By `judge` the accuracy is that of the
"first" network, the "mean" of both networks' accuracies, or that of both "together", the mean of their probabilities,
which is another, stronger classifier than the paper's.

Published numbers: the row of the MARVEL paper is Pleiss et al.'s. The authors' own are of a 9-layer network without
augmentation, and lower. Whether the division above was copied is not known.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Batch, Method, Networks, Outputs


def small_loss(costs: Tensor, keep: Tensor | float) -> Tensor:
    """The mask of the `floor(keep m)` smallest of m costs; of equal ones the first.  (m,) -> (m,)"""
    order = costs.detach().argsort(stable=True)
    place = torch.arange(len(costs), device=costs.device)
    kept = place + 1 <= keep * len(costs) + 1e-3  # rounding must not lose one: 0.7 x 10 may be a little less than 7
    return torch.empty_like(kept).scatter_(0, order, kept)


def mean_of(costs: Tensor, kept: Tensor) -> Tensor:
    """The mean of the costs kept; 0 where none is."""
    return torch.where(kept, costs, 0).sum() / kept.sum().clamp(min=1)


def exchange(first: Tensor, second: Tensor, y: Tensor, keep: Tensor | float) -> Tensor:
    """The loss of both networks, each on what the other selects.  (m, classes) twice, (m,) -> ()"""
    costs = F.cross_entropy(first, y, reduction="none"), F.cross_entropy(second, y, reduction="none")
    return mean_of(costs[0], small_loss(costs[1], keep)) + mean_of(costs[1], small_loss(costs[0], keep))


class CoTeaching(Method):
    """`noise_rate` is tau; `ramp` is T_k, the epochs over which the share kept falls to 1 - tau; `judge`: whose
    accuracy counts, "first", "mean" or "together"."""

    networks = 2
    needs: tuple[str, ...] = ("noise_rate",)

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        noise_rate: float,
        ramp: int = 10,
        judge: str = "first",
    ) -> None:
        super().__init__(n, classes, epochs)
        if judge not in ("first", "mean", "together"):
            raise InvalidInput(f"judge is 'first', 'mean' or 'together', got {judge!r}")
        if not 0 <= noise_rate < 1 or ramp < 1:
            raise InvalidInput(f"Co-teaching wants noise_rate in [0, 1) and ramp >= 1, got {noise_rate} and {ramp}")
        self.noise_rate, self.ramp, self.judge = noise_rate, ramp, judge

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        return networks[0](batches[0].x), networks[1](batches[0].x)

    def predict(self, networks: Networks, x: Tensor) -> Tensor:
        if self.judge != "together":
            return super().predict(networks, x)
        log_p = torch.stack([network(x).float().log_softmax(1) for network in networks[:2]])
        return log_p.logsumexp(0)

    def judged(self, networks: Networks, x: Tensor) -> Tensor:
        if self.judge != "mean":
            return super().judged(networks, x)
        return torch.stack([network(x) for network in networks[:2]], 1)

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        keep = 1 - self.noise_rate * (self.clock / self.ramp).clamp(max=1)
        first, second = outputs
        return exchange(first, second, y, keep)
