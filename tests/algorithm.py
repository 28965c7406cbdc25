"""Algorithms 1, 2 and 3 of the paper, written down line by line in numpy: slow, and with nothing of Marvel's in it.

H and W are the paper's n x (E + 1) matrices. Where the pseudo-code is open, these are the readings taken:
- Line 22 saves the margins before line 19 tests them: the test covers the WAIT newest margins, epoch e's included.
- Removal is permanent, in Algorithm 3 as well. It has a matrix of its own, R, since a weight may underflow to 0.
- The median and variance of Algorithm 3 are those of the batch's instances not removed on entry to the epoch;
  `among="all"` takes the whole batch, which is the letter of it. Population variance, at least 1e-12; lower median.
- A batch whose weights sum to 0 has loss 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Batch = tuple[NDArray[np.int64], Array]  # the index set M, and the logits of its instances
UpdateWeights = Callable[[Array, Array, Mask], Array]


@dataclass
class Epoch:
    """What one epoch left behind."""

    losses: list[float]  # of each batch
    weight: Array  # W[:, e]
    removed: Mask  # R[:, e]


def cross_entropy(logits: Array, y: NDArray[np.int64]) -> Array:
    z = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]


def classification_margins(logits: Array, y: NDArray[np.int64]) -> Array:
    return np.array([z[k] - max(z[j] for j in range(len(z)) if j != k) for z, k in zip(logits, y)])


def update_weights(w: Array, margins: Array, removed: Mask) -> Array:
    """Algorithm 2."""
    w = w.copy()
    w[~removed] = 1
    return w


def adaptive_weights(among: str) -> UpdateWeights:
    """Algorithm 3."""

    def update(w: Array, margins: Array, removed: Mask) -> Array:
        w = w.copy()
        chosen = margins if among == "all" else margins[~removed]
        if len(chosen) == 0:
            return w
        median = np.sort(chosen)[(len(chosen) - 1) // 2]
        var = max(np.mean((chosen - chosen.mean()) ** 2), 1e-12)
        w[margins <= median] = np.exp(-((margins - median) ** 2) / (2 * var))[margins <= median]
        w[margins > median] = np.exp(-1 / 2)
        return w

    return update


def algorithm(
    epochs: Sequence[Sequence[Batch]], y: NDArray[np.int64], WARM: int, WAIT: int, update: UpdateWeights
) -> list[Epoch]:
    """Algorithm 1, with Algorithm 2 or 3 as `update`. Every instance is in exactly one batch of each epoch."""
    n, E = len(y), len(epochs)
    W, H = np.full((n, E + 1), np.nan), np.full((n, E + 1), np.nan)
    R = np.zeros((n, E + 1), dtype=bool)
    W[:, 0] = 1
    H[:, 0] = np.inf
    history = []
    for e in range(1, E + 1):
        losses = []
        for M, logits in epochs[e - 1]:
            w, removed = W[M, e - 1], R[M, e - 1]
            costs = cross_entropy(logits, y[M])
            if e <= WARM:
                loss = np.mean(costs)
                H[M, e] = H[M, e - 1]
            else:
                w = w / sum(w) if sum(w) > 0 else w
                loss = sum(w * costs)
                margins = classification_margins(logits, y[M])
                w = update(w, margins, removed)
                H[M, e] = margins
                removed = removed | (H[M, max(e - WAIT + 1, 0) : e + 1].max(axis=1) < 0)
                w[removed] = 0
            W[M, e], R[M, e] = w, removed
            losses.append(float(loss))
        history.append(Epoch(losses, W[:, e].copy(), R[:, e].copy()))
    return history
