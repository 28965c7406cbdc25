"""How many of the wrong labels a cut-off finds: as many of a hundred as of a hundred canaries.

That would be a matter of counting, but for four things, all of which widen the interval:

    groups   Canaries with the same label and the same competitor are found or missed together, since a network learns
             a confusion or does not. So groups of canaries are drawn, not canaries.
    right    Of a canary whose label was wrong before, the false label may be the right one: it is missed, rightly.
    hidden   Or it is wrong twice: it has a label that is neither right nor the systematic mistake, and is found more
             easily than those that count. Up to the share of wrong labels of all canaries are of this sort; how many
             is not known, so any share up to that is drawn.
    harder   Where much of the noise is systematic, some of the rest may be as well, and be found as rarely.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

LEAST = 0.02
"""The least share of wrong labels that is ever taken to be found."""


@dataclass(frozen=True)
class Sample:
    """Canaries of one kind, and what stands in the way of counting them.

    `harder` are those of another kind, and `doubt` is the chance that they are to be asked too.
    """

    score: Numbers
    group: Labels
    right: float = 0.0
    hidden: float = 0.0
    harder: Self | None = None
    doubt: float = 0.0

    def __len__(self) -> int:
        return len(self.score)

    def found(self, cut: float, draws: int, rng: np.random.Generator) -> Numbers:
        """(draws,): the share of wrong labels with scores below `cut`."""
        weight = rng.standard_exponential((draws, self.group.max() + 1))[:, self.group]
        below = self.score < cut
        hit, miss = rng.standard_gamma(0.5, (2, draws)) + np.stack([weight @ below, weight @ ~below])
        both = hit + miss
        hit = np.maximum(hit - self.hidden * rng.random(draws) * both, LEAST * both)
        miss = np.maximum(miss - self.right * both, 0)
        share: Numbers = hit / (hit + miss)
        if self.harder is None:
            return share
        asked = rng.random(draws) < self.doubt
        return np.where(asked, np.minimum(share, self.harder.found(cut, draws, rng)), share)


def missed(x: Numbers, seen: Numbers, held: Numbers, wrong: float) -> Numbers:
    """The chance that a label is wrong which was not found, on a grid `x` of scores: it falls off as canaries do.

    `seen` canaries and `held` others were not found, and `wrong` of these are wrong. The chance is proportional to the
    smoothed ratio of the two, and half a canary more may be anywhere.
    """
    k = max(float(seen.sum()), 1.0)
    mean = (seen * x).sum() / k
    spread = np.sqrt((seen * (x - mean) ** 2).sum() / k)
    width = max(1.06 * spread * k**-0.2, 2 * (x[1] - x[0]))  # Silverman's rule
    kernel = np.exp(-0.5 * ((x[:, None] - x) / width) ** 2)
    kernel /= kernel.sum(axis=0)
    odds = (kernel @ seen) / (kernel @ held + 1e-9) + 0.5 / max(held.sum(), 1.0)
    low, high = 0.0, max(wrong, 1.0) / odds.min()
    for _ in range(60):
        middle = (low + high) / 2
        if (held * np.minimum(middle * odds, 1)).sum() < wrong:
            low = middle
        else:
            high = middle
    chance: Numbers = np.minimum(low * odds, 1)
    return chance
