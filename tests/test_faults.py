"""What a command cannot help: a full disk, a read-only folder, signals, numbers that explode, data that changed."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marvel.cli import main
from marvel.config import Config
from marvel.errors import FolderError
from marvel.export import export
from marvel.report.page import write_page
from marvel.results import add, records
from marvel.review.decisions import Change, Decisions, read_decisions
from marvel.run import Run, train
from marvel.runs import RunFolder
from soaking import NOTES, note, seed, times
from test_damage import FORMATS

pytestmark = pytest.mark.timeout(300 if NOTES is None else 7200)
DISK = "A full disk or a read-only folder leaves what was there, and says which file"
N = 60


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = np.arange(N) % 3
    x = (3 * rng.standard_normal((3, 5))[kind] + rng.standard_normal((N, 5))).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=np.array(["ash", "birch", "cedar"])[kind])
    return tmp_path / "mine.npz"


def settings(**changes: Any) -> Config:
    return Config(**{"data": "mine.npz", "epochs": 3, "batch": 32, "device": "cpu", "ledger": True, **changes})


# ------------------------------------------------------------ the disk


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what is written then fails as on a full disk, half-done."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def small_disk(place: Path, *options: str) -> Iterator[Path]:
    place.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    told = ["mount", "-t", "tmpfs", *options, "tmpfs", str(place)]
    if subprocess.run(told, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


BIG = {"a": torch.arange(50_000.0)}
COLUMNS = {"index": np.arange(20_000), "quality": np.random.default_rng(0).random(20_000)}
WRITES: dict[str, Callable[[RunFolder, bool], Any]] = {
    "config": lambda folder, big: setattr(folder, "config", {"a": "x" * (100_000 if big else 1)}),
    "record": lambda folder, big: setattr(folder, "record", {"a": "x" * (100_000 if big else 1)}),
    "metrics": lambda folder, big: folder.append({"epoch": 2 if big else 1, "a": "x" * (100_000 if big else 1)}),
    "instances": lambda folder, big: folder.write_instances(COLUMNS if big else {"index": [1]}),
    "checkpoint": lambda folder, big: folder.save_checkpoint(2 if big else 1, BIG if big else {"a": torch.ones(1)}, {}),
    "ledger": lambda folder, big: folder.write_ledger(1, *3 * [torch.ones(50_000 if big else 1, dtype=torch.bool)]),
    "issues": lambda folder, big: folder.write_issues("x" * (100_000 if big else 1)),
    "results": lambda folder, big: add(folder.path / "all.jsonl", record(100_000 if big else 1)),
}


def record(size: int) -> dict[str, Any]:
    return {"noise": {"realised_rate": 0.0}, "curves": {}, "histograms": {}, "config": {"a": "x" * size}}


def told(folder: RunFolder, kind: str) -> Any:
    """What is read back of a kind of file."""
    reads: dict[str, Callable[[], Any]] = {
        "metrics": folder.metrics,
        "instances": lambda: folder.instances()["index"].tolist(),
        "checkpoint": lambda: (folder.load_checkpoint() or (None,))[0],
        "ledger": lambda: [kept["margin"].tolist() for _, kept in folder.ledger()],
        "issues": (folder.path / "issues.csv").read_bytes,
        "results": lambda: records(folder.path / "all.jsonl"),
    }
    return reads.get(kind, lambda: getattr(folder, kind))()


@pytest.mark.parametrize("how", ["limit", "small disk"])
def test_a_full_disk_leaves_the_old_file_at_each_kind_of_write(how: str, tmp_path: Path) -> None:
    tried = 0
    with small_disk(tmp_path / "disk", "-o", "size=64k") if how == "small disk" else largest_file(40_000):
        for kind, write in WRITES.items():
            place = tmp_path / "disk" / kind
            folder = RunFolder(place)
            write(folder, False)
            before = told(folder, kind)
            with pytest.raises(OSError, match=r"(?i)no space left|too large") as failed:
                write(folder, True)
            assert failed.value.filename or kind == "results", kind
            assert told(folder, kind) == before, kind
            assert not list(place.rglob(".*.tmp")), kind
            shutil.rmtree(place)
            tried += 1
    note(DISK, writes_to_a_full_disk=tried)


def test_a_training_that_fills_the_disk_goes_on_when_there_is_room(arrays: Path) -> None:
    whole = train(settings(), "whole")
    expected = (RunFolder("whole").metrics(), RunFolder("whole").instances())
    started = seed()
    rng, failures = random.Random(started), 0
    for limit in [1_500, 400_000, *(int(10 ** rng.uniform(3, 5.8)) for _ in range(times(0, 40)))]:
        shutil.rmtree("run", ignore_errors=True)
        try:
            with largest_file(limit):
                train(settings(), "run")
        except OSError:
            failures += 1
        train(settings(), "run", resume=True)
        found = RunFolder("run")
        how = f"at {limit} bytes of MARVEL_SEED={started}"
        assert found.metrics() == expected[0], how
        assert all((found.instances()[name] == column).all() for name, column in expected[1].items()), how
    assert failures >= 2 and whole.record is not None
    note(DISK, trainings_that_filled_the_disk=failures, seed=started)


def test_the_command_names_the_file_that_could_not_be_written(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with largest_file(3_000), pytest.raises(SystemExit) as ended:
        main(["train", "--data", "mine.npz", "--epochs", "1", "--device", "cpu", "--out", "run", "--quiet"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1, said
    assert "run/checkpoint/0000.safetensors: File too large" in said


def test_an_export_that_fills_the_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path, monkeypatch)
    with largest_file(1_000), pytest.raises(OSError, match="too large"):
        export("run", "new", accept_all=True)
    assert not Path("new").exists() and not list(Path().glob(".new*"))
    before = content(Path("run"))
    with largest_file(1_000), pytest.raises(OSError, match="too large"):
        write_page(RunFolder("run"))
    assert content(Path("run")) == before
    export("run", "new", accept_all=True)


def test_a_decision_that_cannot_be_written_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "decisions.sqlite"
    with Decisions(path) as decisions:
        decisions.decide([Change(1, "keep")], "me")
        with largest_file(path.stat().st_size + 1_000), pytest.raises(sqlite3.OperationalError):
            decisions.decide([Change(k, "choose", k) for k in range(2, 3000)], "me")
        assert [entry.index for entry in decisions.since(0)] == [1]
        decisions.decide([Change(2, "keep")], "me")
    assert read_decisions(path).keys() == {1, 2}


def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of `marvel clean` and decisions on it, in the working folder."""
    from marvel.clean import clean

    shutil.copytree(FORMATS / "1", tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    how: dict[str, Any] = {"epochs": 4, "batch": 32, "ledger": True, "device": "cpu", "network": "cnn2"}
    clean("mine.npz", "run", resume=True, **how)


def test_a_folder_that_cannot_be_written_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path, monkeypatch)
    with small_disk(tmp_path / "disk"):
        shutil.copytree("run", tmp_path / "disk" / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        there = str(tmp_path / "disk" / "run")
        capsys.readouterr()
        for words in (
            ["train", "--data", "mine.npz", "--out", f"{there}-2"],
            ["clean", "mine.npz", "--out", there, "--resume", "--device", "cpu"],
            ["report", there],
            ["review", there, "--no-open"],
            ["export", there, "--out", f"{there}-new", "--accept-all"],
        ):
            with pytest.raises(SystemExit) as ended:
                main(words)
            said = capsys.readouterr().err
            assert ended.value.code == 2, (words, said)
            last = said.splitlines()[-1]
            assert "Traceback" not in said and "read-only" in last.lower().replace("readonly", "read-only"), (
                words,
                said,
            )
        # What only reads still does.
        assert len(RunFolder(there).instances()["index"]) == N and read_decisions(RunFolder(there).decisions_file)
    note(DISK, commands_in_a_read_only_folder=5)


# ------------------------------------------------------------ signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_training_in_good_order(
    number: signal.Signals, code: int, arrays: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--data", "mine.npz", "--epochs", "3", "--batch", "32", "--device", "cpu", "--out", "run"]
    steps = Run.steps

    def interrupted(self: Run) -> Iterator[Any]:
        for shown in steps(self):
            yield shown
            if shown is not None and shown.epoch == 2:
                os.kill(os.getpid(), number)
                time.sleep(5)

    # A shell that starts its commands in the background has them ignore Ctrl-C, and these tests with them.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Run, "steps", interrupted)
            with pytest.raises(SystemExit) as ended:
                main(words)
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().err
    assert ended.value.code == code and "Traceback" not in said
    assert said.splitlines()[-1].endswith("--out run --resume")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(SystemExit) as ended:
        main([*words, "--resume"])
    assert not ended.value.code and len(RunFolder("run").metrics()) == 3


# ------------------------------------------------------------ numbers


def test_a_loss_that_explodes_is_said_in_one_line(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        "--data",
        "mine.npz",
        "--epochs",
        "9",
        "--batch",
        "32",
        "--device",
        "cpu",
        "--out",
        "run",
        "--quiet",
    ]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--lr", "1e30"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1 and "lower the learning rate" in said, said
    assert RunFolder("run").load_checkpoint() is not None


@pytest.mark.parametrize("gone", ["a class", "everything"])
@pytest.mark.parametrize("method", ["marvel", "marvel+"])
def test_a_run_whose_instances_are_removed_ends_and_says_so(gone: str, method: str, arrays: Path) -> None:
    run = Run(settings(method=method, epochs=4), "run")
    for shown in run.steps():
        if shown is not None and shown.epoch == 1:
            chosen = torch.ones(N, dtype=torch.bool) if gone == "everything" else run.trainer.y == 0
            run.method.removed_at.masked_fill_(chosen, 1)
            run.method.weight.masked_fill_(chosen, 0.0)
    assert run.record is not None
    lines = RunFolder("run").metrics()
    assert len(lines) == 4 and all(np.isfinite(line["train_loss"]) for line in lines)
    used = run.record["used_by_class"]["given"]
    assert used[0] == 0 and (gone == "a class" or sum(used) == 0)
    assert run.record["final"]["removed"] >= int(chosen.sum())
    for network in run.trainer.networks:
        assert all(bool(p.isfinite().all()) for p in network.parameters())


# ------------------------------------------------------------ other data


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, y: (x[::-1], y[::-1]), "other instances, labels or order"),
        (lambda x, y: (x[:-1], y[:-1]), "60 instances, not 59"),
        (lambda x, y: (np.concatenate([x, x[:1]]), np.concatenate([y, y[:1]])), "60 instances, not 61"),
        (lambda x, y: (x, np.where(np.arange(N) == 7, "ash", y)), "other instances, labels or order"),
        (lambda x, y: (x + (np.arange(N) == 7)[:, None], y), "other instances, labels or order"),
    ],
    ids=["reordered", "one less", "one more", "a label changed", "an instance changed"],
)
def test_data_that_changed_is_not_gone_on_with(change: Callable[..., Any], said: str, arrays: Path) -> None:
    train(settings(epochs=1, ledger=False), "run")
    before = content(Path("run"))
    held = np.load("mine.npz")
    x, y = change(held["x"], held["y"])
    np.savez("mine.npz", x=x.astype(np.float32), y=y)
    with pytest.raises(FolderError, match=f"other data .*{said}"):
        train(settings(epochs=1, ledger=False), "run", resume=True)
    assert content(Path("run")) == before
