"""MARVEL and MARVEL+ (Lin & Bradic, "Learning to Combat Noisy Labels via Classification Margins", arXiv 2102.00751).

    m_i = z_y - max over j != y of z_j          the margin, from the training forward pass

After `warmup` epochs, an instance whose last `wait` margins are all negative is removed for good (Algorithms 1 and 2).
MARVEL+ also weights the survivors by their margin (Algorithm 3): with mu the median and s2 the variance of the margins
of a batch,

    g(m) = exp(-(m - mu)^2 / (2 s2))  if m <= mu,  else exp(-1/2)

The weights of epoch e multiply the costs in epoch e + 1: `loss = sum(w c) / sum(w)`. The paper keeps all margins and
weights in matrices H and W; but epoch e reads only the column e - 1 of W, and "the last `wait` margins are all
negative" is a counter, so O(n) memory is enough and one update an epoch *is* Algorithm 1.

Readings, where the paper is open:
- The removal test includes the margin of the epoch itself (line 19 reads H before line 22 writes it; the text does
not).
- Margins of the warm-up do not count (Algorithm 1); `count_warmup=True` for the equation's reading.
- A removal takes effect in the next epoch (Algorithm 1); `immediate=True` for the equation's, which is one epoch
earlier.
- Removal is permanent, also in MARVEL+ (the text), where Algorithm 3 to the letter would revive instances.
- A margin of exactly 0 is not negative. The variance is the population's; the median of an even number is the lower
one.

Departures: the median and variance of MARVEL+ are those of the batch's survivors, the instances not removed when the
epoch began; Algorithm 3 to the letter takes all of the batch (`among="all"`). `statistics="epoch"` takes them over the
whole epoch.

`warmup="auto"` and `wait="auto"` are ours: see `Marvel`.
"""

import math
from typing import Any

import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.handed import is_whole
from marvel.method import Method, Outputs, Seen, margins
from marvel.methods.costs import Cost, as_cost

NEVER = 2**31 - 1
LONGEST = 127
"""The longest wait: a streak is a byte an instance."""


def adaptive_weight(margin: Tensor, among: Tensor) -> Tensor:
    """g of Algorithm 3, with the median and variance of the margins marked in `among`.  (m,), (m,) -> (m,)"""
    if not len(margin):
        return margin
    k = among.sum()
    ascending = torch.where(among, margin, torch.inf).sort().values
    median = ascending.gather(0, ((k - 1) // 2).clamp(min=0)[None])  # indexing by a tensor would wait for the device
    mean = torch.where(among, margin, 0).sum() / k
    variance = (torch.where(among, (margin - mean) ** 2, 0).sum() / k).clamp(min=1e-12)
    left = torch.exp(-((margin - median) ** 2) / (2 * variance))
    return torch.where(margin <= median, left, math.exp(-0.5))


def window_of(epochs: int | None) -> int:
    """Over how many epochs "auto" measures a gain: a twenty-fourth of the training, 5 at 120 epochs."""
    return max(2, round(epochs / 24)) if epochs else 3


def shortest_of(epochs: int | None) -> int:
    """The shortest warm-up that "auto" finds."""
    return window_of(epochs) + 2


def longest_of(epochs: int | None) -> int:
    """The longest: where the first epoch has learnt nearly all, nothing rises that could level off.

    Two fifths of the training, which no run of the paper's problems has needed.
    """
    return max(shortest_of(epochs), round(0.4 * (epochs or 120)))


def levels_off(now: Tensor, before: Tensor, first: Tensor, n: Tensor) -> Tensor:
    """Whether an accuracy on n instances has stopped rising fast.

    Its gain since `before`, a window ago, is below a tenth of that since the `first` epoch, which is no accident itself
    (three standard errors).
    """
    gain = now - first
    return (now - before < 0.1 * gain) & (gain > 1.5 / n.sqrt())


class Marvel(Method):
    """Remove instances whose margins stay negative.

    `warmup`: epochs of plain training, or "auto": the epoch where the training accuracy on the given labels stops
    rising fast (`levels_off`), before memorisation sets in; where `step` is told the accuracy on a clean validation
    set, the epoch where that has not risen three times in a row; after two fifths of the epochs at the latest.
    `wait`: how many negative margins in a row; "auto": a fifteenth of the epochs, at least 2; 8 where not known.
    `cost`: what is weighted: "ce", "gce", "sce", "bootstrap", "label-smoothing", "mae", "focal", or a callable.
    """

    streak: Tensor  # (n,) negative margins in a row
    warm: Tensor  # 0-d, the last epoch of the warm-up
    curve: Tensor  # accuracy on the given labels: of the first epoch, and of the last ones, newest first
    peak: Tensor  # (2,) best accuracy on validation so far (-1: never told), and how often it was told since

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        warmup: int | str = "auto",
        wait: int | str = "auto",
        cost: str | Cost = "ce",
        count_warmup: bool = False,
        immediate: bool = False,
        skip_removed: bool = False,
    ) -> None:
        super().__init__(n, classes, epochs)
        for name, value, least, most in (("warmup", warmup, 0, NEVER - 1), ("wait", wait, 1, LONGEST)):
            if value != "auto" and not (is_whole(value, least) and int(value) <= most):
                raise InvalidInput(f"{name} must be 'auto' or a number of epochs, {least} to {most}, got {value!r}")
        self.wait = int(wait) if wait != "auto" else min(LONGEST, max(2, round(epochs / 15))) if epochs else 8
        self.auto = warmup == "auto"
        self.instance_cost = as_cost(cost)
        self.count_warmup, self.immediate, self.skips_removed = count_warmup, immediate, skip_removed
        self.foreseen = type(self).worth is Marvel.worth and not immediate
        self.remember("streak", torch.zeros(n, dtype=torch.int8))
        self.remember("warm", torch.tensor(NEVER if warmup == "auto" else int(warmup)))
        self.remember("curve", torch.full((1 + window_of(epochs),), torch.nan))
        self.remember("peak", torch.tensor([-1.0, 0.0]))

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        return self.instance_cost(logits, y)

    def worth(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        worth = super().worth(outputs, y, index)
        if self.immediate:
            negative = margins(self.followed(outputs).detach(), y)[0] < 0
            last = self.streak[index] >= self.wait - 1
            worth = torch.where(negative & last & (self.clock > self.warm), 0, worth)
        return worth

    def update(self, seen: Seen) -> None:
        warm = self.epoch <= self.warm
        if warm and self.auto:
            self.look_for_plateau(seen)
        if warm and not self.count_warmup:
            return
        streak = torch.where(seen.margin < 0, self.streak.clamp(max=LONGEST - 1) + 1, 0)
        self.streak = torch.where(seen.mask, streak, self.streak)
        if not warm:
            self.remove(seen.mask & (self.streak >= self.wait))

    def look_for_plateau(self, seen: Seen) -> None:
        """End the warm-up with this epoch where the accuracy on the given labels, or on validation, levels off."""
        now = (seen.margin > 0)[seen.mask].float().mean()
        first = torch.where(self.curve[0].isnan(), now, self.curve[0])
        flat = levels_off(now, self.curve[-1], first, seen.mask.sum())
        self.curve = torch.cat([first[None], now[None], self.curve[1:-1]])
        if self.validation is not None:
            best, since = self.peak
            self.peak = torch.stack(
                [best.clamp(min=self.validation), torch.where(self.validation > best, 0, since + 1)]
            )
        found = (self.peak[1] >= 3) if self.peak[0] >= 0 else flat
        if found or self.epoch >= longest_of(self.epochs):
            self.warm.fill_(self.epoch)

    @property
    def soonest(self) -> int:
        return max(self.shortest + 1, self.wait) if self.count_warmup else self.shortest + self.wait

    @property
    def shortest(self) -> int:
        """The warm-up; or, while "auto" looks for its end, the shortest it can be."""
        return shortest_of(self.epochs) if self.warmup is None else self.warmup

    @property
    def warmup(self) -> int | None:
        """The last epoch of the warm-up; None while "auto" has not found it."""
        return None if int(self.warm) == NEVER else int(self.warm)

    @property
    def chosen(self) -> dict[str, float]:
        chosen: dict[str, float] = {"wait": self.wait}
        return chosen if self.warmup is None else chosen | {"warmup": self.warmup}


class MarvelPlus(Marvel):
    """MARVEL, with the survivors weighted by their margin.

    `statistics`: "batch" or "epoch"; `among`: "survivors" or "all"; the other options are MARVEL's.
    """

    factor: Tensor  # (n,) this epoch's g, summed over visits, pending until the epoch ends

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        statistics: str = "batch",
        among: str = "survivors",
        **options: Any,
    ) -> None:
        super().__init__(n, classes, epochs, **options)
        if statistics not in ("batch", "epoch") or among not in ("survivors", "all"):
            raise InvalidInput(
                f"statistics is 'batch' or 'epoch' and among 'survivors' or 'all', got {statistics!r} and {among!r}"
            )
        self.statistics, self.among = statistics, among
        self.remember("factor", torch.zeros(n), each_epoch=True)

    def record(self, index: Tensor, margin: Tensor, rival: Tensor) -> None:
        super().record(index, margin, rival)
        if self.statistics == "batch":
            among = torch.ones_like(margin, dtype=torch.bool) if self.among == "all" else self.removed_at[index] == 0
            self.factor.index_add_(0, index, adaptive_weight(margin, among))

    def update(self, seen: Seen) -> None:
        if self.statistics == "batch":
            factor = self.factor / self.visits.clamp(min=1)
        else:
            factor = adaptive_weight(seen.margin, seen.mask & (~self.removed | (self.among == "all")))
        super().update(seen)
        if self.epoch > self.warm:
            self.weight = torch.where(seen.mask & ~self.removed, factor, self.weight)
