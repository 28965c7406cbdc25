"""The numbers a run is judged by: functions of arrays.

`label_precision` and `label_recall` are the paper's, of the *kept* set; `detection_*` are of finding the *wrong*
labels.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.floating[Any]]


def share(mask: Mask) -> float | None:
    """The share of True; None of nothing."""
    return float(mask.mean()) if mask.size else None


def memorisation_ratio(margin: Numbers, clean: Mask) -> float | None:
    """Among the wrongly labelled, the share predicted as their wrong label: those of positive margin."""
    return share(margin[~clean] > 0)


def label_precision(removed: Mask, clean: Mask) -> float | None:
    """Among those kept, the share rightly labelled."""
    return share(clean[~removed])


def label_recall(removed: Mask, clean: Mask) -> float | None:
    """Among the rightly labelled, the share kept."""
    return share(~removed[clean])


def detection(found: Mask, wrong: Mask) -> dict[str, float | None]:
    """Precision, recall and F1 of the set `found` against the set `wrong`."""
    hits = int((found & wrong).sum())
    both = int(found.sum()) + int(wrong.sum())
    return {
        "detection_precision": share(wrong[found]),
        "detection_recall": share(found[wrong]),
        "detection_f1": 2 * hits / both if both else None,
    }


def ranking(quality: Numbers, wrong: Mask) -> dict[str, float | None]:
    """How well low quality ranks the wrong labels first: AUROC (ties count half), average precision, and the best F1
    of any cut-off. Instances of equal quality are never split.
    """
    positives = int(wrong.sum())
    if not 0 < positives < wrong.size:
        return {"detection_auroc": None, "detection_ap": None, "detection_best_f1": None}
    order = np.argsort(quality, kind="stable")
    ascending = quality[order]
    ends = np.flatnonzero(np.append(ascending[1:] != ascending[:-1], True))  # the last instance of each tie
    hits = np.cumsum(wrong[order])[ends]
    taken = ends + 1
    gained = np.diff(hits, prepend=0)
    negatives_before = taken - hits - np.diff(taken - hits, prepend=0) / 2
    pairs = float(positives) * (wrong.size - positives)
    return {
        "detection_auroc": float(1 - (gained * negatives_before).sum() / pairs),
        "detection_ap": float((gained * hits / taken).sum() / positives),
        "detection_best_f1": float((2 * hits / (taken + positives)).max()),
    }


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 48
"""Of the margin histograms."""


def quantiles(margin: Numbers) -> list[float] | None:
    """The quantiles of `QUANTILES`; None of nothing."""
    return [round(float(q), 4) for q in np.quantile(margin, QUANTILES)] if margin.size else None


def moments(margin: Numbers) -> list[float] | None:
    """Mean and standard deviation; None of nothing."""
    if not margin.size:
        return None
    return [round(float(margin.mean(dtype=np.float64)), 4), round(float(margin.std(dtype=np.float64)), 4)]


def reach(margin: Numbers) -> tuple[float, float]:
    """Where a histogram of these margins begins and ends: all but the outermost thousandth on either side."""
    if not margin.size:
        return 0.0, 1.0
    low, high = (round(float(q), 2) for q in np.quantile(margin, (0.001, 0.999)))
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def histogram(margin: Numbers, low: float, high: float) -> list[int]:
    """How many margins lie in each of `BINS` equal bins between `low` and `high`; those beyond are in the outermost."""
    counts: list[int] = np.histogram(np.clip(margin, low, high), BINS, (low, high))[0].tolist()
    return counts


def mean_by_class(values: Numbers, labels: npt.NDArray[np.integer[Any]], classes: int) -> list[float | None]:
    """The mean of the values of each class; None of a class without instances."""
    counts = np.bincount(labels, minlength=classes)
    sums = np.bincount(labels, weights=values, minlength=classes)
    return [round(float(total / count), 4) if count else None for total, count in zip(sums, counts, strict=True)]
