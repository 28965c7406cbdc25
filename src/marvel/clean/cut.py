"""How many of the ranked labels are listed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.errors import InvalidInput

Numbers = npt.NDArray[np.floating[Any]]


def check(precision: float | None, top: int | None) -> None:
    if precision is not None and top is not None:
        raise InvalidInput("precision and top both say how many labels are listed: give one of them")
    if precision is not None and not 0 < precision <= 1:
        raise InvalidInput(
            f"precision is the share of listed labels that are wrong, above 0 and up to 1; got {precision:g}"
        )
    if top is not None and top < 1:
        raise InvalidInput(f"top is how many labels are listed, at least 1; got {top}")


def listed(chance: Numbers, precision: float | None = None, top: int | None = None, doubted: int = 0) -> int:
    """How many of the labels with these falling chances of being wrong are listed.

    By default so many that the expected F1 is highest, 2 hits / (listed + wrong), and at least as many as the network
    itself doubts; with `precision` as many as can be expected to have that share of wrong ones; with `top` that many.
    """
    if top is not None:
        return min(top, len(chance))
    hits = np.cumsum(chance)
    counts = np.arange(1, len(hits) + 1)
    if precision is not None:
        enough = np.flatnonzero(hits / counts >= precision - 1e-12)
        return int(enough[-1]) + 1 if len(enough) else 0
    best = int(np.argmax(2 * hits / (counts + hits[-1]))) + 1 if len(hits) and hits[-1] >= 0.5 else 0
    return max(best, doubted)
