"""How many labels are wrong, and which: from the scores of canaries and of all others.

The model, in a sentence: real wrong labels have scores like canaries that were given the same kind of wrong label. Two
kinds are told apart. A pair (given label, strongest competitor) that turns up among the suspect far more often than
others is *favoured*: there a label goes wrong systematically, and wrong labels are harder to see. Favoured pairs and
the rest are estimated each from its own canaries; what is in doubt about these is in `marvel.clean.recapture`. The two
models of `marvel.clean.densities` are asked: the number is the median of what both say, and the interval holds that of
either. It is widened by `HEDGE` on both sides: real wrong labels are never quite like canaries.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.clean.canaries import CLAIM
from marvel.clean.densities import ratio, shape
from marvel.clean.recapture import Sample

Numbers = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MODELS = (ratio, shape)
LEVEL, HEDGE, DRAWS = 0.9, 0.08, 200
OFTEN, FEWEST, LIKE = 3.0, 4, 0.5
"""A favoured pair has this many times the mean count of a pair, and at least so many; or it stands out from the rest
alone, and has this share of the mean count of favoured pairs."""
ENOUGH = 5
"""Canaries that a kind of its own must have; with fewer there is one kind only."""
ROUNDS = 3
"""How often the models are asked: how many canaries had a wrong label before is known only from their answers."""
HIDDEN, DOUBT = 0.5, 0.5
"""The largest share of canaries taken to be wrong twice; and the chance that the rest is as hard to see as favoured
pairs, where all that is suspect is in these."""
APART = 2.0
"""How many times the number of wrong labels the chances may add up to before the number decides between the models."""
SUREST = 0.9
"""The most that is said of a canary's own label."""
MODEL = (
    "Real wrong labels have scores like canaries with the same kind of wrong label; right labels have higher ones. "
    "The interval allows for canaries that are found or missed together, for their own labels having been wrong, "
    f"and {HEDGE:.0%} for canaries that are easier or harder."
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
    model: str = MODEL
    """In words."""


@dataclass(frozen=True)
class Scores:
    """What a run showed of n instances.

    score    low: suspect; NaN where nothing was shown of it
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

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Those of the instances, to be kept in a file."""
        return {name: value for name, value in vars(self).items() if name != "classes"}

    @property
    def suspect(self) -> Mask:
        """Removed, or contradicted on average: a method may remove few, or none."""
        return self.removed | (self.score < 0)

    def of(self, which: Mask) -> "Scores":
        """Those of some instances."""
        return Scores(**{name: value[which] for name, value in self.arrays().items()}, classes=self.classes)


def estimate(told: Scores, rng: np.random.Generator, draws: int = DRAWS) -> Estimate | None:
    """None where there are too few canaries to claim anything."""
    m, others = int(told.canary.sum()), int((~told.canary).sum())
    if min(m, others) < CLAIM:
        return None
    often = kinds_apart(told)
    right, hidden = np.zeros(len(told.score)), 0.0
    for _ in range(ROUNDS):
        chances, totals = asked(told, often, right, hidden, draws // len(MODELS), rng)
        chance = pooled(chances, float(np.median(totals)))
        right = by_accident(told, chance)
        hidden = min(float(np.quantile(totals, (1 + LEVEL) / 2, axis=1).max()) / others, HIDDEN)
    totals += rng.binomial(m, np.clip(totals / others, 0, 1))  # of the canaries' own labels some were wrong already
    value, ends = np.median(totals), np.quantile(totals, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    low, high = ends[0].min(), ends[1].max()
    chance[told.canary] = of_canaries(told, value / (others + m))
    return Estimate(chance, float(value), float(low * (1 - HEDGE)), min(float(high * (1 + HEDGE)), others + m), often)


def kinds_apart(told: Scores) -> Mask:
    """(classes, classes): the favoured pairs; none where these, or the rest, have too few canaries to be judged by."""
    often = favoured(told)
    kind = often[told.label, told.rival]
    fewest = min((kind & told.canary).sum(), (~kind & told.canary).sum())
    return often if fewest >= ENOUGH and (kind & ~told.canary).any() else np.zeros_like(often)


def asked(
    told: Scores, often: Mask, right: Numbers, hidden: float, draws: int, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """What the models say of each kind: (models, n) the chance that a label is wrong, (models, draws) how many are.

    `often` are the favoured pairs; `right` (n,) and `hidden` are what stands in the way of counting canaries, as far as
    it is known.
    """
    kind = often[told.label, told.rival]
    harder = sample(told, kind, right) if kind.any() else None
    doubt = DOUBT * float(kind[told.suspect & ~told.canary].mean()) if kind.any() else 0.0
    chances, totals = np.full((len(MODELS), len(kind)), np.nan), np.zeros((len(MODELS), draws))
    for which, doubtful in ((kind, {"hidden": hidden}), (~kind, {"harder": harder, "doubt": doubt})):
        theirs = which & ~told.canary
        if theirs.any():
            mine = sample(told, which, right, **doubtful)
            fits = [model(mine, told.score[theirs], draws, rng) for model in MODELS]
            chances[:, theirs] = [fit.chance for fit in fits]
            totals += np.stack([rng.permutation(fit.wrong) for fit in fits])
    return chances, totals


def pooled(chances: Numbers, number: float) -> Numbers:
    """(models, n) -> (n,): the mean of what the models say of each label.

    Where that adds up to more than `APART` times the number of wrong labels, the models are worlds apart: the higher
    one was misled, as `ratio` is where the few canaries of a kind are right by accident. The two are then weighed so
    that they add up to the number, or half of the labels would be listed for a tenth that is wrong.
    """
    mean: Numbers = chances.mean(axis=0)
    if np.nansum(mean) <= APART * number:
        return mean
    totals = np.nansum(chances, axis=1)
    lower, higher = chances[np.argsort(totals)]
    share = np.clip((number - totals.min()) / max(float(np.ptp(totals)), 1.0), 0, 1)
    weighed: Numbers = (1 - share) * lower + share * higher
    return weighed


def sample(told: Scores, which: Mask, right: Numbers, **doubtful: Any) -> Sample:
    """The canaries of a kind."""
    mine = which & told.canary
    _, group = np.unique(told.label[mine] * told.classes + told.rival[mine], return_inverse=True)
    return Sample(told.score[mine], group, float(right[mine].mean()), **doubtful)


def favoured(told: Scores) -> Mask:
    """The pairs (given label, competitor) that are far more frequent among the suspect than a pair is on average."""
    which = told.suspect & ~told.canary
    table = np.zeros((told.classes, told.classes))
    np.add.at(table, (told.label[which], told.rival[which]), 1)
    pairs = ~np.eye(told.classes, dtype=bool)
    often = table >= frequent(table[pairs].mean())
    if often.any() and (pairs & ~often).any():  # favoured pairs raise the mean, and hide others behind it
        often |= table >= max(frequent(table[pairs & ~often].mean()), LIKE * table[often].mean())
    return often & pairs


def frequent(mean: float) -> float:
    """A count far above the mean."""
    return max(OFTEN * mean, mean + 4 * math.sqrt(mean), FEWEST)


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


def share_listed(hits: float, wrong: float) -> float | None:
    """How much of all wrong labels is on a list that so many are expected on.

    Of the number that is said, not of what the chances add up to: whoever has the numbers in front of them calculates.
    Of one that is shown as 0 there is no share.
    """
    return min(1.0, hits / wrong) if round(wrong) else None


def curve(chance: Numbers, wrong: float, points: int = 60) -> list[dict[str, Any]]:
    """Expected detection precision and recall by how many are listed, thinned, where so many are wrong in all."""
    known = np.sort(chance[np.isfinite(chance)])[::-1]
    hits = known.cumsum()
    if not len(known) or hits[-1] <= 0:
        return []
    taken = np.unique(np.geomspace(1, len(known), min(points, len(known))).round().astype(int)).tolist()
    found = [(k, float(hits[k - 1])) for k in taken]
    return [{"flagged": k, "precision": hit / k, "recall": share_listed(hit, wrong)} for k, hit in found]
