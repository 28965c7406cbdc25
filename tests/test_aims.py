"""Floors, aims and costs beside what was measured, from records a test makes up."""

from pathlib import Path
from typing import Any

import pytest

from marvel.config import Config, as_plain
from marvel.experiment import Aim, Cell, Experiment
from marvel.experiment.finding import load
from marvel.report.aims import aims, verdict
from marvel.report.times import times

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("ours", "floor", "aim", "said"),
    [
        ([90.0], None, None, "–"),  # what it must not be below was not run
        ([83.9], 84.0, 90.0, "below the floor"),
        ([84.0], 84.0, 90.0, "above the floor"),
        ([83.9, 84.1], 84.0, 90.0, "above the floor"),  # by the mean
        ([89.9], 84.0, 90.0, "above the floor"),
        ([90.0], 84.0, 90.0, "reached"),
        ([89.9, 90.0, 90.1], 84.0, 90.0, "reached"),
        ([84.0], 84.0, None, "reached"),
        ([83.9], 84.0, None, "below the floor"),
    ],
)
def test_verdict(ours: list[float], floor: float | None, aim: float | None, said: str) -> None:
    assert verdict(ours, floor, aim) == said


def cell(column: str, row: str, rate: float, **options: Any) -> Cell:
    return Cell("blobs", column, row, Config(noise="symmetric", rate=rate, method="marvel-semi", options=options))


def record(of: Cell, seed: int, **final: float) -> dict[str, Any]:
    asked, config = as_plain(of.config.but(seed=seed).facts()), as_plain(of.resolved.but(seed=seed).facts())
    return {"asked": asked, "config": config, "final": {"test_accuracy": 0.5, **final}}


def test_the_table_of_floors_and_aims() -> None:
    little, much, never = cell("20%", "ours", 0.2), cell("80%", "ours", 0.8), cell("90%", "ours", 0.9)
    control = cell("20%", "control", 0.2, removal=False)
    found = Experiment(
        "mine",
        "Mine",
        (little, much, never, control),
        measures=("test_accuracy", "detection_ap"),
        aims=(
            Aim("blobs", "80%", "ours", 84.0, 90.0),
            Aim("blobs", "80%", "ours", 97.6, 98.5, "detection_ap"),
            Aim("blobs", "20%", "ours", "control"),
            Aim("blobs", "90%", "ours", 10.0, 20.0),
        ),
    )
    runs = [record(much, seed, test_accuracy=0.85 + 0.02 * seed, detection_ap=0.9) for seed in range(3)]
    runs += [record(little, 0, test_accuracy=0.93), record(control, 0, test_accuracy=0.94)]
    assert aims(found, runs).splitlines()[2:] == [
        "| blobs | 80% | ours | test accuracy | 84 | 90 | 87.0 (2.0, 3) | above the floor |",
        "| blobs | 80% | ours | detection AP | 97.6 | 98.5 | 90.0 (0.0, 3) | below the floor |",
        "| blobs | 20% | ours | test accuracy | control: 94.0 (–, 1) | – | 93.0 (–, 1) | below the floor |",
        "",
        "blobs, ours, not run: 90%.",
    ]
    assert aims(found, runs[-1:]) == "blobs, ours, not run: 80%, 20%, 90%."
    alone = aims(found, runs[:-1]).splitlines()[4]
    assert alone == "| blobs | 20% | ours | test accuracy | control: not run | – | 93.0 (–, 1) | – |"


def test_the_aims_of_marvel_semi_are_of_its_cells() -> None:
    found = load(ROOT / "experiments" / "semi.py")
    places = {(one.group, one.column, one.row) for one in found.cells}
    for one in found.aims:
        assert (one.group, one.column, one.row) in places and one.measure in found.measures
        if isinstance(one.floor, str):
            assert (one.group, one.column, one.floor) in places
        else:
            assert one.aim is not None and 0 < one.floor < one.aim < 100
    assert len(found.aims) == len(set(found.aims)) == 21


def timed(method: str, seconds: float, device: str = "cpu", **config: Any) -> dict[str, Any]:
    usual = {"data": "cifar10", "network": "resnet18", "epochs": 115, "batch": 128, "precision": "bf16", "options": {}}
    return {"config": {"method": method, **usual, **config}, "environment": {"device": device}, "seconds": seconds}


def test_seconds_are_beside_those_of_cross_entropy_in_the_same_place() -> None:
    runs = [
        *(timed("ce", seconds) for seconds in (90.0, 110.0)),
        *(timed("marvel-semi", seconds, options={"warmup": "auto"}) for seconds in (140.0, 150.0)),
        timed("marvel-semi", 1000.0, options={"removal": False}),  # a control
        timed("marvel-semi", 1000.0, epochs=300),
        timed("marvel-semi", 1000.0, device="H200"),  # runs share a GPU
        timed("ce", 1000.0, device="H200"),
        timed("marvel", 1000.0),
    ]
    assert times(runs).splitlines()[2:] == [
        "| cifar10, resnet18 | 115 | cpu, bf16 | 100.0 (14.1, 2) | 145.0 (7.1, 2) | 1.45 |"
    ]
    assert times(runs[2:]) == "Not run yet."
