"""Golden runs: a change that should move no numbers moves none. `tests/golden.py` writes what is compared here."""

import json
from typing import Any

import pytest

import golden
from marvel import METHODS

GOLDEN: dict[str, Any] = json.loads(golden.FILE.read_text())
RUNS = golden.runs()


def test_every_method_has_its_golden_run() -> None:
    assert set(GOLDEN) == set(RUNS)
    assert {method for method, _ in RUNS.values()} == set(METHODS)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_moved(name: str) -> None:
    method, options = RUNS[name]
    if method == "confident-learning":
        pytest.importorskip("cleanlab")
    assert golden.differences(golden.outcome(method, options), GOLDEN[name]) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gce", {"q": 0.707}),
        ("sce A=-9.21", {"A": -9.3}),
        ("elr", {"lam": 3.03}),
        ("label-smoothing", {"s": 0.101}),
        ("npcl burn_in=1", {"burn_in": 2}),
        ("marvel warmup=1 wait=1", {"wait": 2}),
        ("data-parameters", {"instance_lr": 0.202}),
        ("mixup", {"alpha": 1.01}),
    ],
)
def test_a_small_change_shows(name: str, change: dict[str, Any]) -> None:
    """A hundredth of a parameter, or one epoch, is more than the tolerance."""
    method, options = RUNS[name]
    assert golden.differences(golden.outcome(method, options | change), GOLDEN[name]) != []


def test_differences_by_hand() -> None:
    was = {"loss": [1.0, 2.0], "removed": 3}
    assert golden.differences({"loss": [1.00009, 2.0], "removed": 3}, was) == []
    assert golden.differences({"loss": [1.001, 2.0], "removed": 3}, was) == ["loss[0]: 1.001, was 1.0"]
    assert golden.differences({"loss": [1.0, 2.0], "removed": 4}, was) == ["removed: 4, was 3"]
    for other in ({"loss": [1.0, 2.0]}, {"loss": [1.0], "removed": 3}, {"loss": [float("nan"), 2.0], "removed": 3}):
        assert golden.differences(other, was) != []
