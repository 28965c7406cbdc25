"""How many labels are wrong, and which: from the scores of canaries and of all others.

The model, in a sentence: real wrong labels have scores like canaries that were given the same kind of wrong label. Two
kinds are told apart. A pair (given label, strongest competitor) that turns up among the removed far more often than
others is *favoured*: there a label goes wrong systematically, and wrong labels are harder to see. Favoured pairs and
the rest are estimated each from its own canaries. The two models of `marvel.clean.densities` are asked, half of the
draws each, and the interval is widened by `HEDGE` on both sides: real wrong labels are never quite like canaries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.clean.canaries import CLAIM
from marvel.clean.densities import ratio, shape

Numbers = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LEVEL, HEDGE, DRAWS = 0.9, 0.08, 200
OFTEN, FEWEST = 3.0, 4
"""A favoured pair has this many times the mean count of a pair, and at least so many."""
ENOUGH = 10
"""Canaries that a kind of its own must have; with fewer there is one kind only."""
SUREST = 0.9
"""The most that is said of a canary's own label."""
MODEL = (
    "Real wrong labels have scores like canaries with the same kind of wrong label; right labels have higher ones. "
    "The interval allows 8% for canaries that are easier or harder."
)


@dataclass(frozen=True)
class Estimate:
    """What the canaries say. `chance` (n,): that a label is wrong; NaN where nothing can be said."""

    chance: Numbers
    value: float
    low: float
    high: float
    favoured: Mask
    """(classes, classes): the pairs (given, competitor) of a kind of their own."""


@dataclass(frozen=True)
class Scores:
    """What a run showed of n instances.

    score    low: suspect
    label    what it was trained with: the false label, for a canary
    given    as the data has it
    rival    the strongest competitor of `label`
    removed  by the method
    """

    score: Numbers
    label: Labels
    given: Labels
    rival: Labels
    removed: Mask
    canary: Mask
    classes: int


def estimate(told: Scores, rng: np.random.Generator, draws: int = DRAWS) -> Estimate | None:
    """None where there are too few canaries to claim anything."""
    if told.canary.sum() < CLAIM or (~told.canary).sum() < CLAIM:
        return None
    often = favoured(told)
    kind = often[told.label, told.rival]
    if min((kind & told.canary).sum(), (~kind & told.canary).sum()) < ENOUGH or not (kind & ~told.canary).any():
        kind, often = np.zeros_like(kind), np.zeros_like(often)
    kinds = [which for which in (kind, ~kind) if which.any()]
    right = np.zeros(len(kind))
    for _ in range(2):  # once more, knowing how many canaries are right by accident
        chance = np.full(len(kind), np.nan)
        totals = np.zeros(2 * (draws // 2))
        for which in kinds:
            mine, theirs = which & told.canary, which & ~told.canary
            if not theirs.any():
                continue
            accident = float(right[mine].mean())
            fits = [model(told.score[mine], told.score[theirs], accident, draws // 2, rng) for model in (ratio, shape)]
            chance[theirs] = (fits[0].chance + fits[1].chance) / 2
            totals += np.concatenate([rng.permutation(fit.wrong) for fit in fits])
        right = by_accident(told, chance)
    others, m = int((~told.canary).sum()), int(told.canary.sum())
    totals += rng.binomial(m, np.clip(totals / others, 0, 1))  # of the canaries' own labels some were wrong already
    low, value, high = np.quantile(totals, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    chance[told.canary] = of_canaries(told, value / (others + m))
    return Estimate(chance, float(value), float(low * (1 - HEDGE)), min(float(high * (1 + HEDGE)), others + m), often)


def favoured(told: Scores) -> Mask:
    """The pairs (given label, competitor) that are far more frequent among the removed than a pair is on average."""
    which = told.removed & ~told.canary
    table = np.zeros((told.classes, told.classes))
    np.add.at(table, (told.label[which], told.rival[which]), 1)
    mean = table.sum() / (told.classes * (told.classes - 1))
    often: Mask = table >= max(OFTEN * mean, mean + 4 * np.sqrt(mean), FEWEST)
    return often


def by_accident(told: Scores, chance: Numbers) -> Numbers:
    """(n,) for canaries: the chance that the label was wrong before, and the false one is the right one."""
    wrong = np.zeros((told.classes, told.classes))
    others = ~told.canary
    np.add.at(wrong, (told.given[others], told.rival[others]), chance[others])
    share = wrong / np.maximum(np.bincount(told.given[others], minlength=told.classes), 1)[:, None]
    return np.where(told.canary, np.minimum(share[told.given, told.label], 0.5), 0.0)


def of_canaries(told: Scores, share: float) -> Numbers:
    """For canaries, the chance that their own label, put back, is wrong.

    They were trained with a false label, so their score says nothing of their own. But the network may compete for yet
    another class: among m canaries a share of `share` is wrong, and nearly all of those are among these.
    """
    others = told.rival[told.canary] != told.given[told.canary]
    if told.classes == 2 or not others.any():
        return np.full(len(others), np.nan if told.classes == 2 else 0.0)
    return np.where(others, min(SUREST, share * len(others) / others.sum()), 0.0)


def curve(chance: Numbers, points: int = 60) -> list[dict[str, Any]]:
    """Expected detection precision and recall by how many are listed, thinned."""
    known = np.sort(chance[np.isfinite(chance)])[::-1]
    hits = known.cumsum()
    if not len(known) or hits[-1] <= 0:
        return []
    taken = np.unique(np.geomspace(1, len(known), min(points, len(known))).round().astype(int))
    return [
        {"flagged": int(k), "precision": float(hits[k - 1] / k), "recall": float(hits[k - 1] / hits[-1])} for k in taken
    ]
