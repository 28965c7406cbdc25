"""Data whose labels were corrected before: canaries say nothing of what was missed then, so nothing is claimed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marvel.clean import clean
from marvel.data.corrections import are_corrected
from marvel.data.origin import Origin
from marvel.export import export

QUICK: dict[str, Any] = {"epochs": 8, "options": {"warmup": 2, "wait": 2}, "device": "cpu"}
AGAIN = "labels were corrected before"


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, the run that cleaned it, and what was exported of that."""
    place = tmp_path_factory.mktemp("rounds")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1200)
    x = (3 * rng.standard_normal((4, 8))[y] + rng.standard_normal((1200, 8))).astype(np.float32)
    wrong = rng.random(1200) < 0.15
    np.save(place / "right.npy", y)
    np.savez(place / "mine.npz", x=x, y=np.where(wrong, (y + rng.integers(1, 4, 1200)) % 4, y))
    clean(place / "mine.npz", out=place / "run", **QUICK)
    export(place / "run", place / "out", accept_above=0.99)
    return place


def test_of_data_as_it_came_something_is_claimed(rounds: Path) -> None:
    found = clean(rounds / "mine.npz", **QUICK).found
    assert found["estimate"] is not None and not any(AGAIN in warning for warning in found["warnings"])


@pytest.mark.parametrize("by", ["export", "corrections"])
def test_of_corrected_data_nothing_is_claimed_unasked(rounds: Path, by: str) -> None:
    data = rounds / ("out" if by == "export" else "") / "mine.npz"
    told = QUICK if by == "export" else {**QUICK, "corrections": str(rounds / "out" / "corrections.csv")}
    again = clean(data, **told)
    left = (np.load(rounds / "out" / "mine.npz")["y"] != np.load(rounds / "right.npy")).nonzero()[0]
    assert len(left) > 10 and len({one.index for one in again.issues} & set(left.tolist())) > 0.8 * len(left)
    found = again.found
    assert found["estimate"] is None and found["canaries"] == 0
    assert [AGAIN in warning and "Nothing is claimed" in warning for warning in found["warnings"]] == [True]
    asked = clean(data, canaries=60, **told).found
    assert asked["estimate"] is not None and asked["canaries"] == 60
    assert [warning.endswith("more may be wrong than is claimed") for warning in asked["warnings"]] == [True]
    assert not clean(data, canaries=0, **told).found["warnings"]  # whoever wants none knows what that means


def test_how_corrected_data_is_known(tmp_path: Path) -> None:
    for kind in ("table", "paths", "huggingface"):
        labels = ("species", "species_corrected", "species_corrected_2", None)
        found = [are_corrected(Origin(kind, str(tmp_path / "t.csv"), label)) for label in labels]
        assert found == [False, True, True, False]
    (tmp_path / "photos").mkdir()
    arrays, folder = Origin("arrays", str(tmp_path / "a.npz")), Origin("folder", str(tmp_path / "photos"))
    assert not are_corrected(arrays) and not are_corrected(folder) and not are_corrected(None)
    (tmp_path / "corrections.csv").touch()
    assert are_corrected(arrays) and not are_corrected(folder)
    (tmp_path / "photos" / "corrections.csv").touch()
    assert are_corrected(folder)
    assert not are_corrected(Origin("table", str(tmp_path / "t.csv"), "species"))  # those corrected are in a column
