"""mixup (Zhang et al., ICLR 2018, arXiv 1710.09412).

    x~ = l x_i + (1 - l) x_j,    L = l CE(f(x~), y_i) + (1 - l) CE(f(x~), y_j),    l ~ Beta(alpha, alpha)

with one l for each batch and j a permutation of it, as in the authors' code. More noise wants a larger alpha (they go
up to 32).

Departures: l is taken at least 1/2. Exchanging i and j turns l into 1 - l, so the loss has the same distribution; but
then what comes out for x~ belongs to i more than to j, and its margin says something about i.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Batch, Method, Networks, Outputs, weighted_mean


def symmetric_beta(u: Tensor, alpha: float) -> Tensor:
    """The quantiles of Beta(alpha, alpha) at u: uniform numbers become draws from it. (m,) -> (m,)

    In t = logit(x) the density is (x (1 - x))^alpha, smooth for every alpha: it is summed up, and looked up in reverse.
    Beta(1, 1) is uniform.
    """
    if alpha == 1:
        return u
    end = 40 / alpha + 13 / alpha**0.5  # beyond this lies less than a float can tell
    t = torch.linspace(-end, end, 4097, dtype=torch.float64, device=u.device)
    density = (alpha * (F.logsigmoid(t) + F.logsigmoid(-t) + math.log(4))).exp()  # 1 at its peak
    below = F.pad((density[1:] + density[:-1]).cumsum(0), (1, 0))
    sought = u.double() * below[-1]
    right = torch.searchsorted(below, sought).clamp(1, len(t) - 1)
    part = (sought - below[right - 1]) / (below[right] - below[right - 1]).clamp(min=1e-300)
    return torch.lerp(t[right - 1], t[right], part).sigmoid().to(u.dtype)


class Mixed(NamedTuple):
    """A batch, each row mixed with another: `x = share x_i + (1 - share) x_j`."""

    x: Tensor
    y: Tensor  # (m,) the given label of j
    share: Tensor  # (m,) how much of the row itself is in it, the same for all; at least 1/2


def pair(batch: Batch, alpha: float) -> tuple[Tensor, Tensor]:
    """The partners and the shares of a batch: a permutation of the global batch, and one draw for all of it."""
    (u,) = batch.everyone(batch.uniform(2))
    share = symmetric_beta(u[:1, 1], alpha)
    return u[:, 0].argsort()[batch.mine], torch.maximum(share, 1 - share).expand(len(batch.index))


def blend(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """`share x_i + (1 - share) x_j`, row by row.  (m, ...), (m, ...), (m,) -> (m, ...)"""
    of_rows = share.reshape(-1, *[1] * (x.ndim - 1))
    return of_rows * x + (1 - of_rows) * other


def mix(batch: Batch, alpha: float) -> Mixed:
    """Mix a batch with a permutation of itself."""
    partner, share = pair(batch, alpha)
    x, y = (column[partner] for column in batch.everyone(batch.x, batch.y))
    return Mixed(blend(batch.x, x, share), y, share)


class Mixup(Method):
    """`alpha`: how evenly instances are mixed; 1 is any share alike, 32 nearly half and half."""

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, alpha: float = 1.0) -> None:
        super().__init__(n, classes, epochs)
        if not 0.01 <= alpha <= 10_000:
            raise InvalidInput(f"alpha must lie in [0.01, 10000], got {alpha}")
        self.alpha = alpha

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        (batch,) = batches
        mixed = mix(batch, self.alpha)
        return networks[0](mixed.x), mixed.y, mixed.share

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        logits, other, share = outputs
        costs = share * self.cost(logits, y, index) + (1 - share) * self.cost(logits, other, index)
        return weighted_mean(costs, self.weight[index])
