"""The warm-up, read off curves whose knee and peak are known."""

import numpy as np
import pytest
import torch

from marvel.errors import InvalidInput
from marvel.method import Seen
from marvel.methods.marvel import Marvel
from marvel.report.cells import Cell
from marvel.report.warmups import row
from marvel.warmup import automatic, knee, peak, smoothed
from paper_records import paper_record


def broken(at: int, epochs: int, slow: float = 0.001) -> list[float]:
    """Fast up to an epoch, slow after it."""
    return [0.1 + 0.5 * min(e, at) / at + slow * max(0, e - at) for e in range(1, epochs + 1)]


@pytest.mark.parametrize("at", [10, 25, 40])
def test_the_knee_is_where_the_curve_bends(at: int) -> None:
    assert abs(knee(broken(at, 100)) - at) <= 2


def test_only_the_epochs_before_a_drop_are_looked_at() -> None:
    curve = broken(20, 60) + [0.95] * 60
    assert abs(knee(curve, 60) - 20) <= 2
    assert peak([0.5] * 30 + [0.7] * 10 + [0.9] * 10, 40) in range(31, 35)


def test_the_peak_is_the_first_near_it() -> None:
    curve = np.concatenate([np.linspace(0.2, 0.8, 30), np.full(20, 0.803), np.linspace(0.8, 0.5, 50)])
    assert 28 <= peak(curve.tolist()) <= 32


@pytest.mark.parametrize("seed", range(4))
def test_knee_and_peak_to_the_epoch(seed: int) -> None:
    """By a dict from an epoch to the mean of it and the two on either side; near is within one percent of the top."""
    rng = np.random.default_rng(seed)
    curve = (0.8 * (1 - np.exp(-np.arange(60) / 12)) + 0.02 * rng.standard_normal(60)).tolist()
    mean = {e: sum(curve[k - 1] for k in range(e - 2, e + 3)) / 5 for e in range(3, 59)}
    chord = {e: mean[3] + (mean[58] - mean[3]) * (e - 3) / 55 for e in mean}
    assert knee(curve) == max(mean, key=lambda e: mean[e] - chord[e])
    assert peak(curve) == min(e for e in mean if mean[e] >= max(mean.values()) - 0.01)


def test_near_the_peak_is_within_one_percent_of_it() -> None:
    assert peak([0.6] * 20 + [0.785] * 20 + [0.8] * 20) == 40  # where two of five are at the top, 0.791 on average
    assert peak([0.6] * 20 + [0.795] * 20 + [0.8] * 20) == 23


def test_smoothing_by_hand() -> None:
    assert smoothed([1, 2, 3, 4, 5, 16]) == pytest.approx([3, 6])
    with pytest.raises(InvalidInput, match="at least 5 epochs, got 4"):
        smoothed([1, 2, 3, 4])


def test_the_table_holds_what_the_functions_give() -> None:
    """Two seeds of a run of 100 epochs whose learning rate falls after 75: their means, beside the paper's 20."""
    cell = Cell("cat-dog", "symmetric", (0.2,), "ce")
    lines = [broken(at, 75) + [0.9] * 25 for at in (10, 20)]
    records = [
        paper_record(cell, k, curves={"train_accuracy": line, "test_accuracy": line}) for k, line in enumerate(lines)
    ]
    read = [(automatic(line, 100, 1000), knee(line, 75), peak(line, 75)) for line in lines]
    means = [f"{sum(values) / 2:.0f}" for values in zip(*read)]  # type: ignore[arg-type]
    assert row(records) == ["cat-dog", "20 % symmetric", "2", *means, "20"]


@pytest.mark.parametrize("curve", [broken(6, 48), broken(13, 48), [0.95] * 48], ids=["6", "13", "flat"])
def test_the_automatic_rule_is_that_of_the_method(curve: list[float]) -> None:
    """The method is shown margins whose share of positive ones is the curve."""
    n, epochs = 1000, 48
    curve = [round(n * value) / n for value in curve]
    method = Marvel(n, 2, epochs)
    for accuracy in curve:
        margin = torch.where(torch.arange(n) < round(accuracy * n), 1.0, -1.0)
        if method.warmup is None:
            method.look_for_plateau(Seen(margin, torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.int16)))
            method.epoch += 1
    assert method.warmup is not None
    assert automatic(curve, epochs, n) == method.warmup
    assert automatic(curve[: method.warmup - 1], epochs, n) is None
