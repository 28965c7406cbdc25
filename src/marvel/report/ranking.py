"""In which order labels are suspect: that of issues.csv."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = Mapping[str, Any]
"""What instances.parquet holds."""


def ranked(columns: Columns) -> Indices:
    """The instances that something is known of, the most suspect first.

    By the probability that the label is wrong, and then by quality. Without probabilities by quality alone; labels
    that were flipped on purpose are left out then, since what was measured is not about their own.
    """
    chance = columns.get("wrong_probability", np.empty(0)).astype(np.float64)
    if np.isfinite(chance).any():
        judged = np.isfinite(chance)
        order = np.lexsort((columns["quality"], -np.nan_to_num(chance)))
    else:
        judged = np.isfinite(columns["quality"])
        if "canary" in columns:
            judged &= ~columns["canary"]
        order = np.argsort(columns["quality"], kind="stable")
    found: Indices = order[judged[order]]
    return found


def suspects(columns: Columns, order: Indices) -> Indices:
    """Of that order: what `clean` listed; without a list what was removed; all, where nothing was."""
    if "flagged" in columns:
        which = columns["flagged"]
    else:
        which = columns["removed_at"] > 0
        if not which.any():
            return order
    found: Indices = order[which[order]]
    return found
