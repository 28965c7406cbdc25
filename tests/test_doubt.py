"""What the network doubts beside what the canaries say: simulated labels whose wrong ones are harder than canaries."""

import numpy as np
import pytest

from marvel.clean.doubt import beyond, doubted
from marvel.clean.estimate import HEDGE, Estimate, Scores, estimate
from marvel.clean.judgement import Judgement


def simulated(wrong: float, harder: float, n: int = 20_000, seed: int = 0) -> tuple[Scores, np.ndarray]:
    """As measured on CIFAR-10N: bells, and a tenth of the right labels hard to tell."""
    rng = np.random.default_rng(seed)
    truth, canary = rng.integers(0, 10, n), np.zeros(n, dtype=bool)
    canary[rng.choice(n, n // 50, replace=False)] = True
    bad = rng.random(n) < wrong
    given = np.where(bad, (truth + rng.integers(1, 10, n)) % 10, truth)
    label = np.where(canary, (given + rng.integers(1, 10, n)) % 10, given)
    hard = rng.random(n) < 0.1
    score = np.where(hard, rng.normal(-0.5, 1.2, n), rng.normal(2.5, 1.2, n))
    score = np.where(bad, rng.normal(-4 + harder, 1.6, n), score)
    score = np.where(canary, rng.normal(-4, 1.6, n), score)
    told = Scores(score, label, given, np.where(label == truth, (truth + 1) % 10, truth), score < -1, canary, 10)
    return told, truth


def test_doubted_is_what_was_held_for_less_than_a_quarter() -> None:
    score = np.log(np.array([0.24, 0.26, 0.01, 0.9]) / (1 - np.array([0.24, 0.26, 0.01, 0.9])))
    zeros = np.zeros(4, dtype=np.int64)
    told = Scores(score, zeros, zeros, zeros + 1, zeros > 0, np.array([False, False, True, False]), 2)
    assert doubted(told).tolist() == [True, False, False, False]


def test_canaries_that_account_for_all_doubts_are_left_alone() -> None:
    told, truth = simulated(0.3, 0.0)
    found = estimate(told, np.random.default_rng(0))
    assert found is not None and beyond(found, told) is found
    assert found.low <= (told.given != truth).sum() <= found.high


@pytest.mark.parametrize("seed", range(3))
def test_harder_mistakes_than_canaries_are_within_the_interval_and_in_the_list(seed: int) -> None:
    told, truth = simulated(0.09, 1.6, seed=seed)
    alone = estimate(told, np.random.default_rng(seed))
    wrong = told.given != truth
    assert alone is not None and alone.high < wrong.sum()  # or this test shows nothing
    judgement = Judgement(told, told.score.astype(np.float32), seed)
    found = judgement.estimate
    assert found is not None and found.low <= wrong.sum() <= found.high
    assert found.high == pytest.approx((1 + HEDGE) * doubted(told)[~told.canary].mean() * len(wrong))
    assert np.nansum(found.chance[~told.canary]) == pytest.approx(found.value * (~told.canary).mean(), rel=0.1)
    said = judgement.beside(truth)
    assert said["detection_f1"] > said["detection_best_f1"] - 0.05


def test_both_opinions_count_half() -> None:
    told, _ = simulated(0.0, 0.0)
    found = Estimate(np.where(told.canary, np.nan, 0.1), 10.0, 5.0, 20.0, np.zeros((10, 10), dtype=bool))
    both = beyond(found, told)
    number = doubted(told)[~told.canary].mean() * len(told.score)
    assert both.value == pytest.approx((10 + number) / 2) and both.low == 5.0
    assert f"doubts about {number:,.0f} labels" in both.model and both.model.startswith(found.model)
    assert set(both.chance[~told.canary].round(6)) == {0.05, 0.55} and np.isnan(both.chance[told.canary]).all()
