"""Dimensionality-driven learning, D2L (Ma et al., ICML 2018, arXiv 1806.02612).

The local intrinsic dimensionality of what the last layer sees falls while a network learns, and rises when it begins to
memorise. Before every epoch e it is estimated from 10 random batches of 128, r_i being the distance to the i-th nearest
of the batch:

    LID = -k / sum_{i <= k} log(r_i / r_k),    k = 20

The turning point is the first epoch at which `LID_e - mean > 2 std` of the last `window` values, more than
`first + window` of them being there. The network goes back to where it was one epoch before, and from then on

    alpha_e = exp( -(e / E) LID_e / min LID ),    target = alpha e_y + (1 - alpha) e_argmax p

Departures: `window` is 12 as in the paper; every version of the published code has 5. That code overwrites the network
it would go back to, so that it never does, and before the turning point trains reverse cross entropy (of 2018) or
symmetric cross entropy (since 2019): `base="sce"` with `window=5` is the latter, with SCE's 0.1, 1 and A = -9.21. In
the two epochs after a fall of the learning rate, which makes the LID jump, no turning point is looked for (ours;
`after_drop=0` looks). The optimizer's momentum stays as it is at the turning point.

Published numbers: the row of the MARVEL paper is Pleiss et al.'s, presumably of the published code, so of SCE rather
than of cross entropy before the turning point: `base="sce"` is what to hold against it. With the learning rate falling
just when the test begins, that code may take the fall for the turning point.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Steps
from marvel.methods.bootstrap import bootstrap
from marvel.methods.sce import sce

if TYPE_CHECKING:
    from marvel.trainer import Trainer

BATCHES, SIZE = 10, 128


def lid(features: Tensor, k: int = 20) -> Tensor:
    """The local intrinsic dimensionality at each of m points, among the others.  (m, d) -> (m,)"""
    points = features.double()
    # Not by matrix products, whose rounding tells a point from its own copy.
    distance = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    k = min(k, len(points) - 1)
    r = distance.topk(k, largest=False).values
    return -k / (r / r[:, -1:].clamp(min=1e-30) + 1e-8).log().sum(1)


def turns(values: Tensor, window: int) -> bool:
    """Whether the last value lies more than two standard deviations above the mean of the `window` before it."""
    before = values[-window - 1 : -1]
    return bool(values[-1] - before.mean() > 2 * before.std(correction=0))


class D2L(Method):
    """`window`, `first`: see above (`first` 10 for CIFAR-10, 20 for CIFAR-100); `after_drop`: epochs without a test
    after the learning rate fell; `base`: the loss before the turning point, "ce" or "sce"."""

    averaged = 1
    decay = 1.0  # not an average: the network as it was when the epoch before began

    lids: Tensor  # (epochs,) the LID before each epoch; NaN: still to come
    alpha: Tensor  # 0-d, how far the given labels are believed
    turned: Tensor  # 0-d, the epoch of the turning point; 0: not yet
    last_lr: Tensor  # (2,) the learning rate, and how many epochs ago it fell by more than half

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        window: int = 12,
        first: int = 10,
        after_drop: int = 2,
        base: str = "ce",
    ) -> None:
        super().__init__(n, classes, epochs)
        if epochs is None:
            raise InvalidInput("D2L must know the number of epochs")
        if window < 2 or first < 0 or after_drop < 0:
            raise InvalidInput(
                f"D2L wants window >= 2, first >= 0 and after_drop >= 0, got {window}, {first} and {after_drop}"
            )
        if base not in ("ce", "sce"):
            raise InvalidInput(f"base is 'ce' or 'sce', got {base!r}")
        self.window, self.first, self.after_drop, self.base = window, first, after_drop, base
        self.remember("lids", torch.full((epochs,), torch.nan, dtype=torch.float64))
        self.remember("alpha", torch.ones(()))
        self.remember("turned", torch.tensor(0))
        self.remember("last_lr", torch.tensor([0.0, after_drop], dtype=torch.float64))

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        costs = bootstrap(logits, y, self.alpha)
        return costs if self.base == "ce" else torch.where(self.turned > 0, costs, sce(logits, y, A=-9.21))

    def start(self, trainer: "Trainer") -> Steps:
        features = yield from trainer.features(trainer.permutation(f"lid {self.epoch}")[: BATCHES * SIZE])
        if len(features) < 3:
            raise InvalidInput(f"D2L compares each instance with two others at least, given {len(features)} in all")
        now = torch.cat([lid(batch) for batch in features.split(SIZE) if len(batch) > 2]).mean()
        if not now > 0 and self.epoch > 1:
            now = self.lids[self.epoch - 2]
        self.lids[self.epoch - 1] = now
        self.note_lr(trainer.lr())
        if self.turned == 0:
            self.look(trainer)
        if self.turned > 0:
            known = self.lids[: self.epoch]
            self.alpha = torch.exp(-(self.epoch / len(self.lids)) * known[-1] / known.min())

    def look(self, trainer: "Trainer") -> None:
        """Go back by one epoch where this is the turning point, else keep the network to go back to."""
        (network,), (before,) = trainer.networks, trainer.averages
        enough = self.epoch > self.first + self.window and self.last_lr[1] >= self.after_drop
        if enough and turns(self.lids[: self.epoch], self.window):
            self.turned.fill_(self.epoch)
            network.load_state_dict(before.state_dict())
        else:
            before.load_state_dict(network.state_dict())

    def note_lr(self, lr: float) -> None:
        known, since = self.last_lr.tolist()
        self.last_lr = torch.tensor([lr, 0 if lr < known / 2 else since + 1], dtype=torch.float64)

    @property
    def chosen(self) -> dict[str, float]:
        return {"turning_epoch": int(self.turned)} if self.turned > 0 else {}
