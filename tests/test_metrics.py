"""The numbers a run is judged by, against scikit-learn and against loops."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
)

from marvel import metrics

Case = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def cases(values: st.SearchStrategy[float]) -> st.SearchStrategy[Case]:
    """Qualities and the mask of the wrong labels, of one length."""
    pairs = st.lists(st.tuples(values, st.booleans()), min_size=1, max_size=30)
    return pairs.map(lambda rows: (np.array([r[0] for r in rows]), np.array([r[1] for r in rows])))


tied = cases(st.integers(-2, 2).map(float))
spread = cases(st.floats(-1e6, 1e6, width=32))
masks = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30).map(
    lambda rows: np.array(rows, bool).reshape(-1, 2).T
)


@given(st.one_of(tied, spread))
def test_ranking_is_scikit_learns(case: Case) -> None:
    quality, wrong = case
    found = metrics.ranking(quality, wrong)
    if wrong.all() or not wrong.any():
        assert set(found.values()) == {None}
        return
    precision, recall, _ = precision_recall_curve(wrong, -quality)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    assert found == pytest.approx(
        {
            "detection_auroc": roc_auc_score(wrong, -quality),
            "detection_ap": average_precision_score(wrong, -quality),
            "detection_best_f1": f1.max(),
        }
    )


@given(tied)
def test_ranking_is_what_loops_say(case: Case) -> None:
    quality, wrong = case
    if wrong.all() or not wrong.any():
        return
    pairs = [(a, b) for a in quality[wrong] for b in quality[~wrong]]
    auroc = sum(1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)
    ap, best = 0.0, 0.0
    for cut in sorted(set(quality)):
        taken, gained = quality <= cut, (quality == cut) & wrong
        hits = (taken & wrong).sum()
        ap += gained.sum() / wrong.sum() * hits / taken.sum()
        best = max(best, 2 * hits / (taken.sum() + wrong.sum()))
    found = metrics.ranking(quality, wrong)
    assert found == pytest.approx({"detection_auroc": auroc, "detection_ap": ap, "detection_best_f1": best})


@given(tied, st.randoms())
def test_ranking_does_not_depend_on_the_order_of_the_instances(case: Case, chance: Any) -> None:
    quality, wrong = case
    order = list(range(len(quality)))
    chance.shuffle(order)
    assert metrics.ranking(quality[order], wrong[order]) == pytest.approx(metrics.ranking(quality, wrong), nan_ok=False)


def test_ties_of_infinities_are_not_split() -> None:
    inf = np.inf
    found = metrics.ranking(np.array([-inf, -inf, 0.0, inf, inf]), np.array([True, False, True, False, True]))
    # By hand: of the 3 x 2 pairs, -inf gives a half and one, 0 gives none and one, inf gives none and a half.
    assert found["detection_auroc"] == pytest.approx((0.5 + 1 + 0 + 1 + 0 + 0.5) / 6)
    assert found["detection_ap"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 3)


def test_ranking_of_the_best_and_of_the_worst() -> None:
    wrong = np.array([True, True, False, False])
    assert metrics.ranking(np.arange(4.0), wrong) == {
        "detection_auroc": 1.0,
        "detection_ap": 1.0,
        "detection_best_f1": 1.0,
    }
    assert metrics.ranking(-np.arange(4.0), wrong)["detection_auroc"] == 0.0
    assert metrics.ranking(np.zeros(4), wrong)["detection_auroc"] == 0.5


@given(masks)
def test_detection_is_scikit_learns(pair: np.ndarray[Any, Any]) -> None:
    found, wrong = pair
    ours = metrics.detection(found, wrong)
    if not wrong.size:
        assert set(ours.values()) == {None}
        return
    precision, recall, f1, _ = precision_recall_fscore_support(
        wrong, found, labels=[True], average=None, zero_division=np.nan
    )
    expected = [None if math.isnan(value[0]) else value[0] for value in (precision, recall, f1)]
    assert list(ours.values()) == [value if value is None else pytest.approx(value) for value in expected]
    assert list(ours) == ["detection_precision", "detection_recall", "detection_f1"]


@given(masks)
def test_the_papers_precision_and_recall_are_of_the_kept(pair: np.ndarray[Any, Any]) -> None:
    removed, clean = pair
    kept = [c for r, c in zip(removed, clean) if not r]
    right = [r for r, c in zip(removed, clean) if c]
    precision = sum(kept) / len(kept) if kept else None
    recall = sum(not r for r in right) / len(right) if right else None
    assert metrics.label_precision(removed, clean) == (precision if precision is None else pytest.approx(precision))
    assert metrics.label_recall(removed, clean) == (recall if recall is None else pytest.approx(recall))


def test_the_memorisation_ratio_by_hand() -> None:
    """Four are wrong; two of them are predicted as their wrong label. A margin of exactly 0 is no prediction of it."""
    margin = np.array([5.0, 0.1, -1.0, 0.0, 2.0, -3.0])
    clean = np.array([True, False, False, False, False, True])
    assert metrics.memorisation_ratio(margin, clean) == 0.5
    assert metrics.memorisation_ratio(margin, np.ones(6, bool)) is None


def test_the_share_of_nothing_is_none() -> None:
    assert metrics.share(np.array([], dtype=bool)) is None
    assert metrics.share(np.array([True, False, True, True])) == 0.75


@given(st.lists(st.floats(-50, 50, width=32), max_size=40))
def test_quantiles_interpolate_between_neighbours(values: list[float]) -> None:
    found = metrics.quantiles(np.array(values, dtype=np.float32))
    if not values:
        assert found is None
        return
    ordered = sorted(values)
    for share, quantile in zip((0.05, 0.25, 0.5, 0.75, 0.95), found, strict=True):  # type: ignore[arg-type]
        place = share * (len(values) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        assert quantile == pytest.approx(low + (high - low) * (place - math.floor(place)), abs=1e-4)
        assert type(quantile) is float


margins = st.lists(st.one_of(st.floats(-40, 40, width=32), st.integers(-40, 40).map(lambda k: k / 2)), max_size=40)


@given(margins, st.integers(-40, 39), st.integers(1, 40))
def test_the_histogram_counts_each_margin_once(values: list[float], low: int, width: int) -> None:
    """Forty-eight equal bins; a margin on an edge belongs to the bin above it, those beyond to the outermost."""
    found = metrics.histogram(np.array(values, dtype=np.float64), low, low + width)
    edges = np.linspace(low, low + width, 49).tolist()
    expected = [0] * 48
    for value in values:
        expected[min(max(sum(value >= edge for edge in edges) - 1, 0), 47)] += 1
    assert found == expected
    assert all(type(count) is int for count in found)


@given(margins)
def test_a_histogram_reaches_to_all_but_the_outermost_thousandths(values: list[float]) -> None:
    low, high = metrics.reach(np.array(values))
    assert low < high
    if values and max(values) - min(values) > 0.1:
        inside = [value for value in values if low - 0.005 <= value <= high + 0.005]
        assert len(inside) >= len(values) - 2 and set(values) - set(inside) <= {min(values), max(values)}


def test_of_a_thousand_margins_the_outermost_on_either_side_is_beyond_the_histogram() -> None:
    assert metrics.reach(np.arange(1001.0)) == (1.0, 999.0)
    assert metrics.reach(np.array([3.0, 3.0])) == (2.5, 3.5) and metrics.reach(np.array([])) == (0.0, 1.0)


@given(margins)
def test_moments(values: list[float]) -> None:
    found = metrics.moments(np.array(values, dtype=np.float32))
    if not values:
        assert found is None
        return
    assert found == [
        pytest.approx(statistics.fmean(values), abs=1e-3),
        pytest.approx(statistics.pstdev(values), abs=1e-3),
    ]


def test_mean_by_class_by_hand() -> None:
    """The third class has no instance, and so no mean."""
    found = metrics.mean_by_class(np.array([1.0, 0.0, 0.5]), np.array([0, 0, 1]), 3)
    assert found == [0.5, 0.5, None]
