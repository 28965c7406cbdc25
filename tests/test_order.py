"""The order of suspicion, and the chances along it."""

from itertools import pairwise

import numpy as np
import pytest

from marvel.clean import cut
from marvel.clean.order import agreed


def places(key: list[float], then: list[float]) -> list[int]:
    """Naively: how many come before."""
    both = list(zip(key, then, strict=True))
    return [sum(other < mine for other in both) for mine in both]


@pytest.mark.parametrize("seed", range(5))
def test_chances_fall_along_the_mean_of_both_places_and_keep_their_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chance, quality = rng.random(60), rng.normal(size=60)
    found = agreed(chance, quality)
    first, second = places((-chance).tolist(), quality.tolist()), places(quality.tolist(), (-chance).tolist())
    order = sorted(range(60), key=lambda i: (first[i] + second[i], i))
    assert all(found[a] >= found[b] - 1e-12 for a, b in pairwise(order))
    assert found.sum() == pytest.approx(chance.sum())
    means = {(a, b): chance[order][a:b].mean() for a in range(60) for b in range(a + 1, 61)}
    for i in range(60):  # the nearest falling sequence, by brute force
        best = min(max(means[a, b] for b in range(i + 1, 61)) for a in range(i + 1))
        assert found[order[i]] == pytest.approx(best)


def test_two_opinions_that_agree_change_nothing() -> None:
    chance = np.array([0.1, 0.9, 0.5, 0.5])
    assert agreed(chance, np.array([2.0, -3.0, -1.0, -2.0])) == pytest.approx(chance)


def test_what_the_network_doubts_is_listed_whatever_the_model_expects() -> None:
    chance = np.array([0.9, 0.2, 0.1, 0.0, 0.0])
    assert cut.listed(chance) == 1
    assert cut.listed(chance, doubted=3) == 3
    assert cut.listed(np.zeros(5), doubted=2) == 2
    assert cut.listed(chance, precision=0.8, doubted=3) == 1 == cut.listed(chance, top=1, doubted=3)
