"""Canaries: a few labels made wrong on purpose before training, so that what happens to them can be counted.

Which instances: drawn at random, of each class as many as it can spare. Which wrong label: a first guess at how the
data's own labels go wrong says what each class is mistaken for (`confusions`); a fifth is drawn from all classes alike.
Uniform flips alone would be too easy a test: where one class is systematically labelled as another, a network takes
these labels for the truth far sooner than labels strewn at random.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.errors import InvalidInput, amount

SHARE, LEAST, MOST = 0.02, 60, 0.05
"""By default a fiftieth of the labels, but at least 60, and never more than a twentieth."""
CLAIM = 50
"""With fewer canaries nothing is claimed."""
UTMOST = 0.2
"""The largest share that can be asked for, of all labels and of those of a class: more would be another dataset."""
SPARE = 10
"""A class of fewer instances gives no canary."""
ANYWHERE = 0.2
"""The share of canaries whose false label is drawn from all classes alike."""
FEATURES, RIDGE = 600, 0.3

Labels = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Canaries:
    """`index` (m,) ascending, and the false label of each."""

    index: Labels
    label: Labels

    def __len__(self) -> int:
        return len(self.index)

    def planted(self, given: Labels) -> Labels:
        """The labels with the false ones in place."""
        labels = given.copy()
        labels[self.index] = self.label
        return labels

    def mask(self, n: int) -> npt.NDArray[np.bool_]:
        mask = np.zeros(n, dtype=bool)
        mask[self.index] = True
        return mask


def how_many(n: int, wanted: float | None = None) -> int:
    """How many of `n` labels: a number, a share below 1, or None for the default, which is none where it is too few."""
    if wanted is None:
        number = min(max(LEAST, math.ceil(SHARE * n)), int(MOST * n))
        return number if number >= CLAIM else 0
    if not 0 <= wanted < math.inf or (wanted >= 1 and wanted != int(wanted)):
        raise InvalidInput(f"canaries is a number of labels, a share below 1, or 0 for none; got {wanted:g}")
    number = int(wanted) if wanted >= 1 else math.ceil(wanted * n)
    if number > UTMOST * n:
        raise InvalidInput(
            f"{amount(number, 'canary', 'canaries')} among {n} labels are too many: name at most {int(UTMOST * n)}"
        )
    return number


def plant(
    given: Labels,
    classes: int,
    number: int,
    rng: np.random.Generator,
    features: Numbers | None,
    rows: Labels | None = None,
) -> Canaries:
    """Choose `number` instances, or as many as can be spared, and false labels; `features` are for the first guess,
    where there are any: of all instances, or of those in `rows`."""
    there = np.unique(given)
    if number == 0 or len(there) < 2:
        return Canaries(np.empty(0, np.int64), np.empty(0, np.int64))
    index = np.sort(chosen(given, number, rng))
    chance = np.zeros((classes, classes))
    chance[:, there] = 1.0
    np.fill_diagonal(chance, 0)
    chance /= chance.sum(axis=1, keepdims=True)
    if features is not None:
        guessed = confusions(features, given if rows is None else given[rows], classes)
        known = guessed.sum(axis=1) > 0
        chance[known] = (1 - ANYWHERE) * guessed[known] + ANYWHERE * chance[known]
    bounds = np.cumsum(chance[given[index]], axis=1)
    bounds /= bounds[:, -1:]
    label = (rng.random(len(index))[:, None] > bounds).sum(axis=1)
    return Canaries(index, label.astype(np.int64))


def to_spare(given: Labels) -> Labels:
    """How many labels of each class can be made wrong: a fifth, and none of a small class."""
    counts = np.bincount(given)
    return np.where(counts >= SPARE, (UTMOST * counts).astype(np.int64), 0)


def chosen(given: Labels, number: int, rng: np.random.Generator) -> Labels:
    """`number` instances at random, or as many as can be spared. Those that a class cannot spare are drawn again."""
    room, index = to_spare(given), np.empty(0, np.int64)
    while missing := min(number - len(index), room.sum()):
        left = np.setdiff1d(np.flatnonzero(room[given] > 0), index)
        drawn = rng.choice(left, missing, replace=False)
        drawn = drawn[place_in_class(given[drawn]) < room[given[drawn]]]
        room -= np.bincount(given[drawn], minlength=len(room))
        index = np.concatenate([index, drawn])
    return index


def place_in_class(labels: Labels) -> Labels:
    """The how-manieth of its class each is, from 0."""
    order = np.argsort(labels, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - np.searchsorted(labels[order], labels[order])
    return place


def confusions(features: Numbers, given: Labels, classes: int) -> npt.NDArray[np.float64]:
    """P[t, g]: of what looks like class t and is labelled otherwise, the share labelled g; a row of 0: nothing is.

    "Looks like" is said by ridge regression on random features, for every instance by a fit that leaves it out; of
    those that look like a class and are labelled otherwise, the surer half is taken.
    """
    scores = left_out(features, given, classes)
    ordered = np.sort(scores, axis=1)
    sure, looks = ordered[:, -1] - ordered[:, -2], scores.argmax(axis=1)
    table = np.zeros((classes, classes))
    for t in range(classes):
        members = np.flatnonzero((looks == t) & (given != t))
        if len(members):
            table[t] = np.bincount(given[members[sure[members] >= np.median(sure[members])]], minlength=classes)
    shares: npt.NDArray[np.float64] = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return shares


def left_out(features: Numbers, given: Labels, classes: int) -> npt.NDArray[np.float64]:
    """(n, classes): what a ridge regression says of each instance that was fitted on all the others.

    The formula for leaving one out is exact: (f_i - h_i y_i) / (1 - h_i), h the diagonal of the hat matrix.
    """
    n = len(features)
    x = features.reshape(n, -1).astype(np.float64)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
    rng = np.random.default_rng(0)  # part of the method, not of the run
    width = max(2, min(FEATURES, n // 3))
    directions = rng.standard_normal((x.shape[1], width)) / math.sqrt(x.shape[1])
    z = np.maximum(x @ directions + 0.5 * rng.standard_normal(width), 0)
    z = np.column_stack([z - z.mean(axis=0), np.ones(n)])
    gram = z.T @ z
    gram[np.diag_indices_from(gram)] += RIDGE * n * z.var(axis=0).mean() + 1e-9
    solved = np.linalg.solve(gram, z.T)
    target = np.eye(classes)[given]
    leverage = np.minimum((z * solved.T).sum(axis=1), 1 - 1e-6)[:, None]
    fitted: npt.NDArray[np.float64] = (z @ (solved @ target) - leverage * target) / (1 - leverage)
    return fitted
