"""The grid of all methods on one budget: what it holds, and that each of its runs can be built and trained."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from marvel.config import Config
from marvel.data.core import Data
from marvel.methods import METHODS
from marvel.paper import beside, paper_number
from marvel.run import Run

GRID = Path(__file__).parents[1] / "experiments" / "baselines.py"
grid: dict[str, Any] = runpy.run_path(str(GRID))


def stand_in(n: int = 40) -> Data:
    """A few images of noise with CIFAR-10's shape and classes."""
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), generator=g, dtype=torch.uint8)
    y = torch.arange(n) % 10
    return Data("cifar10", x, y, tuple("0123456789"), x[:10], y[:10], augment="crop-flip")


DATA = stand_in()


def runs(noise: str) -> list[Config]:
    return [grid["config_of"](entry, noise) for entry in grid["entries"](noise)]


@pytest.mark.parametrize("noise", ["symmetric", "circular"])
def test_every_method_is_there_and_every_run_can_be_built(noise: str) -> None:
    configs = runs(noise)
    assert {config.method for config in configs} == set(METHODS)
    for config in configs:
        run = Run(config.but(device="cpu"), data=DATA)
        found = run.config
        assert (found.network, found.lr, found.weight_decay, found.rate) == ("resnet32", 0.1, 2e-4, 0.4)
        if found.method == "l_dmi":
            assert (found.epochs, found.batch) == (40, 256)
            o = found.options
            assert (o["pretrain"], o["pretrain_drops"], o["pretrain_batch"]) == (120, (40, 80), 128)
        else:
            longer = found.method.startswith("marvel") or config.drops is not None
            assert (found.epochs, found.batch, found.drops) == (120, 128, (80, 100) if longer else (40, 80))


def test_runs_stand_beside_the_papers_numbers() -> None:
    """All but those of another learning rate than the paper's."""
    for config in runs("symmetric"):
        number = paper_number("cifar-symmetric", "CIFAR-10", "40%", config.method)
        found = beside(Run(config.but(device="cpu"), data=DATA).config.facts())
        assert found == (None if config.method == "ce" and config.drops else number)


def test_marvel_waits_as_long_as_in_the_paper() -> None:
    for noise, table in (("symmetric", "cifar-symmetric-waits"), ("circular", "cifar-asymmetric-waits")):
        for config in runs(noise):
            if config.method.startswith("marvel"):
                wait = paper_number(table, "CIFAR-10", "40%", config.method)
                assert wait is not None and config.options["wait"] == wait.mean


def test_the_docstring_has_the_papers_numbers() -> None:
    lines = {line.split()[0]: line for line in (grid["__doc__"] or "").splitlines() if line.startswith("    ")}
    for method in METHODS:
        for table in ("cifar-symmetric", "cifar-asymmetric"):
            number = paper_number(table, "CIFAR-10", "40%", method)
            if number is not None:
                assert f"{number.mean:.1f}" in lines[method], (method, table)


def test_methods_are_chosen_by_name_and_long_runs_begin_first() -> None:
    found = grid["chosen"]("symmetric", None, "ce,aum,incv", "ce")
    assert [entry.method for entry in found] == ["incv", "aum"]
    costs = [entry.cost for entry in grid["chosen"]("symmetric", None, None, "incv")]
    assert costs == sorted(costs, reverse=True) and costs[0] < 4


def test_a_method_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        grid["main"](["--only", "nonesuch"])
    assert stopped.value.code == 2 and "no method 'nonesuch'" in capsys.readouterr().err


def test_the_command_records_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "baselines.jsonl"
    common = ["--data", "digits", "--epochs", "3", "--results", str(results)]
    grid["main"]([*common, "--only", "gce,l_dmi"])
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert {record["asked"]["method"] for record in records} == {"gce", "l_dmi"}
    assert "l_dmi" in capsys.readouterr().out
    grid["main"]([*common, "--only", "mae", "--max-seconds", "0"])
    assert "0 seconds are over; not done: mae" in capsys.readouterr().err
    assert len(results.read_text().splitlines()) == 2


def test_without_cleanlab_confident_learning_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    grid["main"](["--show"])
    shown = capsys.readouterr()
    assert "confident-learning is left out: it needs the package cleanlab" in shown.err
    assert "confident-learning" not in shown.out and "sce" in shown.out
