"""What is said of every label when the training is over: how likely it is wrong, in which order, and what is listed."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from marvel import metrics
from marvel.clean import cut
from marvel.clean.doubt import beyond, doubted
from marvel.clean.estimate import LEVEL, Estimate, Scores, estimate, share_listed
from marvel.clean.findings import suspects
from marvel.clean.order import agreed
from marvel.runs import Facts

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Judgement:
    """`told` is what the training showed, `quality` (n,) the mean margins, of which a canary and what was never trained
    on have none; `precision` and `top` say how many labels are listed. What nothing was shown of is not judged."""

    told: Scores
    quality: npt.NDArray[np.float32]
    seed: int
    precision: float | None = None
    top: int | None = None

    @cached_property
    def estimate(self) -> Estimate | None:
        """None where there are too few canaries to claim anything."""
        told = self.told.of(self.shown)
        found = estimate(told, np.random.default_rng(self.seed))
        if found is None:
            return None
        found = beyond(found, told)
        others, chance = ~told.canary, found.chance.copy()
        chance[others] = agreed(chance[others], self.by_quality[self.shown][others])
        of_all = np.full(len(self.shown), np.nan)
        of_all[self.shown] = chance
        value, low, high = (number * self.more for number in (found.value, found.low, found.high))
        return replace(found, chance=of_all, value=value, low=low, high=min(high, float(len(of_all))))

    @property
    def more(self) -> float:
        """How many labels there are for each that was judged: the others are taken to be wrong as often."""
        return len(self.shown) / max(1, int(self.shown.sum()))

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """(n,) of which instances anything was shown."""
        return np.isfinite(self.told.score)

    @property
    def by_quality(self) -> npt.NDArray[np.float32]:
        """(n,) the mean margins to rank by: what was removed before it was ever trained on comes first."""
        return np.where(np.isnan(self.quality) & ~self.told.canary, np.float32(-np.inf), self.quality)

    @cached_property
    def ranked(self) -> Labels:
        """All instances that were judged, the most suspect first."""
        chance = np.zeros(len(self.quality)) if self.estimate is None else self.estimate.chance
        judged = self.shown & ~self.told.canary if self.estimate is None else np.isfinite(chance)
        order = np.lexsort((self.by_quality, -np.nan_to_num(chance)))
        found: Labels = order[judged[order]]
        return found

    @cached_property
    def listed(self) -> Labels:
        """Those of issues.csv."""
        if self.estimate is not None:
            chance, doubts = self.estimate.chance[self.ranked], int(doubted(self.told).sum())
            return self.ranked[: cut.listed(chance, self.precision, self.top, doubts)]
        if self.top is not None:
            return self.ranked[: self.top]
        suspect = suspects(self.told.removed & ~self.told.canary, self.quality)
        return self.ranked[suspect[self.ranked]]

    @property
    def flagged(self) -> npt.NDArray[np.bool_]:
        return np.isin(np.arange(len(self.quality)), self.listed)

    def claimed(self) -> Facts | None:
        """What is claimed about how many labels are wrong."""
        if self.estimate is None:
            return None
        hits, value = float(np.sum(self.estimate.chance[self.listed])), round(self.estimate.value, 1)
        last = self.listed[~self.told.canary[self.listed]][-1:]
        return {
            "wrong": {
                "value": value,
                "low": round(self.estimate.low, 1),
                "high": round(self.estimate.high, 1),
                "level": LEVEL,
            },
            "precision": hits / len(self.listed) if len(self.listed) else None,
            "recall": share_listed(hits, value),
            "cut_off": float(self.quality[last[0]]) if len(last) and np.isfinite(self.quality[last[0]]) else None,
            "model": self.estimate.model,
        }

    def beside(self, truth: Labels, suggested: Labels | None = None) -> Facts:
        """How good ranking, list and suggestions are, where the right labels are known; canaries are left out.

        What is suggested is the competitor, unless `suggested` (n,) says otherwise.
        """
        suggested = self.told.rival if suggested is None else suggested
        others, wrong = ~self.told.canary, self.told.given != truth
        place = np.full(len(wrong), np.inf)
        place[self.ranked] = np.arange(len(self.ranked))
        found = self.flagged & wrong & others
        return {
            **metrics.detection(self.flagged[others], wrong[others]),
            **metrics.ranking(place[others], wrong[others]),
            "suggestion_accuracy": metrics.share((suggested == truth)[found]),
            "wrong_labels": int(wrong.sum()),
        }
