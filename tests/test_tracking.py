"""Tracking: JSON lines, TensorBoard and Weights & Biases. Stand-ins show how these are called; what they write is read
back where they are installed."""

import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from marvel import InvalidInput, Marvel, MissingExtra
from marvel.cli import main
from marvel.config import Config
from marvel.integrations.tracking import (
    JsonLines,
    TensorBoard,
    WeightsAndBiases,
    numbers,
    summary,
    tracker,
    watching,
)
from marvel.run import train
from marvel.runs import RunFolder

SHORT = Config(data="digits", noise="symmetric", rate=0.4, method="marvel", epochs=2)


class Said(list[Any]):
    """What a stand-in was told, in order."""


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> Said:
    said = Said()

    class SummaryWriter:
        def __init__(self, log_dir: str, purge_step: int) -> None:
            said.append(("open", log_dir, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            said.append((name, value, step))

        def flush(self) -> None:
            pass

        def close(self) -> None:
            said.append("closed")

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return said


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Said:
    said = Said()

    class Run:
        def log(self, numbers: dict[str, float]) -> None:
            said.append((numbers.pop("epoch"), numbers))

        def finish(self) -> None:
            said.append("finished")

    def init(**settings: Any) -> Run:
        said.append(settings)
        return Run()

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return said


def test_numbers_are_what_can_be_drawn() -> None:
    metrics = {"a": 1, "b": 0.5, "no": None, "yes": True, "t": {"x": 2, "u": {"y": 3}}, "many": [1, 2]}
    assert numbers(metrics) == {"a": 1, "b": 0.5, "t/x": 2, "t/u/y": 3}


def test_what_a_loop_measures_is_logged_whatever_its_type(tmp_path: Path) -> None:
    """A loss is a tensor, an accuracy is numpy's, and a diverged loss is NaN: none of it may end the training."""
    metrics = {"loss": torch.tensor(0.5), "test": {"accuracy": np.float32(0.25), "n": np.int64(3)}}
    assert numbers(metrics) == {"loss": 0.5, "test/accuracy": 0.25, "test/n": 3}
    diverged = {"nan": float("nan"), "many": [1.0, torch.tensor(float("inf"))]}
    JsonLines(tmp_path / "log").log({**metrics, **diverged}, 1)
    expected = {"epoch": 1, "loss": 0.5, "test": {"accuracy": 0.25, "n": 3}, "nan": None, "many": [1.0, None]}
    assert json.loads((tmp_path / "log").read_text()) == expected


def test_json_lines_in_a_loop_of_ones_own(tmp_path: Path) -> None:
    criterion = Marvel(4, 2, warmup=0, wait=1)
    path = tmp_path / "new" / "metrics.jsonl"
    for epoch in (1, 2):
        criterion(torch.tensor([[2.0, 1], [1, 2], [2, 1], [2, 1]]), torch.tensor([0, 0, 0, 1]), torch.arange(4))
        with JsonLines(path) as log:
            log.log(summary(criterion, criterion.step()), epoch)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"epoch": epoch, "removed": 2, "train_accuracy": 0.5} for epoch in (1, 2)]


def test_a_run_in_both(tmp_path: Path, tensorboard: Said, wandb: Said) -> None:
    trackers = (TensorBoard(tmp_path / "board"), WeightsAndBiases(tmp_path / "mine", config={"seed": 0}))
    train(SHORT, tmp_path / "run", watch=watching(*trackers))
    for each in trackers:
        each.close()
    kept = RunFolder(tmp_path / "run").metrics()

    assert tensorboard[0] == ("open", str(tmp_path / "board"), 1) and tensorboard[-1] == "closed"
    drawn = {(name, step): value for name, value, step in tensorboard[1:-1]}
    assert wandb[0] == {
        "project": "marvel", "name": "mine", "config": {"seed": 0}, "mode": "offline", "dir": str(tmp_path / "mine"),
    }  # fmt: skip
    assert wandb[-1] == "finished" and [step for step, _ in wandb[1:-1]] == [1, 2]
    for line, (step, logged) in zip(kept, wandb[1:-1], strict=True):
        for name in ("train_loss", "train_accuracy", "removed", "memorisation_ratio", "label_precision"):
            assert logged[name] == drawn[name, step] == line[name]


def test_stages_have_their_names(tmp_path: Path) -> None:
    train(SHORT.but(method="aum"), watch=watching(JsonLines(tmp_path / "all.jsonl")))
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert any(isinstance(value, dict) and "train_loss" in value for line in lines for value in line.values())
    assert [line["epoch"] for line in lines if "train_loss" in line] == [1, 2]


def test_on_the_command_line(
    tmp_path: Path, tensorboard: Said, wandb: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--epochs", "2", "--quiet", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--track", "tensorboard", "--track", "wandb"])
    assert not stopped.value.code
    assert tensorboard[0][1] == str(tmp_path / "run" / "tensorboard") and tensorboard[-1] == "closed"
    assert wandb[0]["config"]["epochs"] == 2 and wandb[-1] == "finished"


def test_the_real_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path / "board")
    train(SHORT, tmp_path / "run", watch=watching(board))
    board.close()
    written = reader.EventAccumulator(str(tmp_path / "board")).Reload()
    for line in RunFolder(tmp_path / "run").metrics():
        for name, value in numbers(line).items():
            if name != "epoch":
                drawn = {event.step: event.value for event in written.Scalars(name)}
                assert drawn[line["epoch"]] == pytest.approx(value, rel=1e-5), name
    # A run that goes on from its first epoch draws over what was written after it.
    board = TensorBoard(tmp_path / "board")
    board.log({"train_loss": 0.125}, 2)
    board.close()
    again = reader.EventAccumulator(str(tmp_path / "board")).Reload()
    assert [event.step for event in again.Scalars("train_loss")] == [1, 2]
    assert again.Scalars("train_loss")[-1].value == 0.125


@pytest.mark.slow
def test_the_real_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own code
        with WeightsAndBiases(tmp_path / "mine", config={"seed": 0}) as run:
            run.log({"train_loss": 0.5, "margin": {"median": 1.5}, "quantiles": [1, 2]}, 1)
            run.log({"train_loss": 0.25}, 2)
    (file,) = (tmp_path / "mine").glob("wandb/offline-run-*/*.wandb")
    written = file.read_bytes()  # records one after the other, not compressed
    assert written.count(b"train_loss") >= 2 and b"margin/median" in written and b"quantiles" not in written
    assert b"0.25" in written and b"1.5" in written and b"seed" in written


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    for name in ("tensorboard", "wandb"):
        with pytest.raises(MissingExtra, match=r"pip install 'marvel-learn\[tracking\]'"):
            tracker(name, tmp_path, {})
    with pytest.raises(InvalidInput, match="did you mean 'wandb'"):
        tracker("wandbb", tmp_path, {})
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--epochs", "2", "--track", "wandb", "--out", str(tmp_path / "run")])
    assert stopped.value.code == 2 and "marvel-learn[tracking]" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
