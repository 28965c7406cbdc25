"""Checkpoints in the midst of an epoch: a run that goes on from one is the run that nothing disturbed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marvel import Method
from marvel.config import Config
from marvel.data import Data
from marvel.engines import Job, steps
from marvel.errors import FolderError, Interrupted
from marvel.fast import pack
from marvel.methods import CE
from marvel.run import Run, train
from marvel.runs import FORMAT, RunFolder
from test_trainer import (
    add_method,
    alone,
    assert_same,
    every_method,
    everything,
    files,
    finish,
    images,
    results,
    settings,
    state,
)

__all__ = ["add_method", "everything"]  # fixtures

GAPS = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
"""Steps between stops. An epoch has three: the first two stops are in the midst of the first and of the second."""


def in_steps(method: str = "ce", every: int = 1000, **changes: Any) -> Config:
    return settings(method, checkpoint_every_steps=every, **changes)


def stopped(run: Run, after: int) -> bool:
    """Run it, asking it to stop so many steps from now; False where it ended before."""
    asked = count(1)
    run.trainer.stop = lambda: next(asked) >= after
    try:
        finish(run)
    except Interrupted:
        return True
    return False


def place(folder: Path) -> tuple[int, int]:
    """Of the newest checkpoint: finished epochs, and steps since."""
    found = RunFolder(folder).load_checkpoint()
    assert found is not None
    return found[0], found[2].get("step", 0)


def kept(folder: Path) -> dict[str, Any]:
    """What a run left on disk, less its checkpoints, of which those in mid-epoch are others."""
    found = {name: content for name, content in files(folder).items() if "checkpoint/" not in name}
    del found["record"]["config"]["checkpoint_every_steps"]
    return found


@every_method
def test_a_run_stopped_in_the_midst_of_its_epochs_is_the_same_run(method: str, tmp_path: Path, everything: str) -> None:
    """In its stages and after them."""
    config, folder = in_steps(method, ledger=True), tmp_path / "parts"
    whole = finish(Run(config.but(checkpoint_every_steps=0), tmp_path / "whole", data=images()))
    midst = 0
    for gap in GAPS:
        run = Run(config, folder, resume=True, data=images())
        if not stopped(run, gap):
            break
        midst += any("-" in path.name for path in folder.rglob("checkpoint/*.json"))
    assert midst >= 2
    assert_same(state(run), state(whole))
    assert_same(kept(folder), kept(tmp_path / "whole"))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_streamed_run_goes_on_with_the_random_transforms_of_its_step(workers: int, tmp_path: Path) -> None:
    """What a dataset of one's own draws from the global generators follows from the step, counted from the epoch's
    beginning."""
    config = in_steps("marvel", source="streamed", workers=workers, epochs=2)
    runs = [Run(config, tmp_path / str(k), resume=True, data=images()) for k in (0, 1, 1)]
    for run in runs:
        items = run.trainer.source.items  # type: ignore[attr-defined]
        items.pick = jittered
    finish(runs[0])
    assert stopped(runs[1], 5)
    assert place(tmp_path / "1") == (1, 2)
    # The first of these was made before there was a checkpoint, so it is read where the training begins.
    assert_same(state(finish(runs[2])), state(runs[0]))


def jittered(item: Tensor) -> Tensor:
    return item // 2 + int(np.random.randint(0, 100))  # as users' transforms do


@pytest.mark.parametrize("every", [1, 2])
def test_a_run_killed_between_checkpoints_goes_on_from_the_last(every: int, tmp_path: Path) -> None:
    """Dropped without a word after every fourth step or look at the test set, it comes to the same."""
    config = in_steps("marvel+", every)
    whole, places = alone("marvel+"), []
    for _ in range(20):
        run = Run(config, tmp_path, resume=True, data=images())
        generator = run.steps()
        for shown, _ in enumerate(generator, 1):
            if shown == 4:
                break
        else:
            break
        generator.close()  # type: ignore[attr-defined]
        places.append(place(tmp_path))
    assert 2 in {step for _, step in places}
    assert places == sorted(set(places))
    assert_same(state(run), whole[0])
    assert len(RunFolder(tmp_path).metrics()) == 3


def test_a_stop_at_the_last_step_of_an_epoch_is_judged_when_it_goes_on(tmp_path: Path) -> None:
    config = in_steps("marvel")
    assert stopped(Run(config, tmp_path, data=images()), 6)
    assert place(tmp_path) == (1, 3) and len(RunFolder(tmp_path).metrics()) == 1
    run = finish(Run(config, tmp_path, resume=True, data=images()))
    assert_same(state(run), alone("marvel")[0])
    record = results(run.record)
    del record["config"]["checkpoint_every_steps"]
    assert record == {**alone("marvel")[1], "config": record["config"]}


def test_without_the_setting_nothing_is_asked_or_saved_in_mid_epoch(tmp_path: Path) -> None:
    run = Run(settings("ce"), tmp_path, data=images())

    def asked() -> bool:
        raise AssertionError("asked")

    run.trainer.stop = asked
    finish(run)
    assert not list(tmp_path.rglob("checkpoint/*-*"))


def test_time_is_counted_on_both_sides_of_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("marvel.trainer.time.perf_counter", lambda: float(next(ticks)))
    assert stopped(Run(in_steps(epochs=1), tmp_path, data=images()), 2)
    found = RunFolder(tmp_path).load_checkpoint()
    assert found is not None and found[2]["seconds"] == 1  # from the beginning of the epoch to the stop
    run = finish(Run(in_steps(epochs=1), tmp_path, resume=True, data=images()))
    assert run.trainer.seconds == 2


def test_packed_runs_are_stopped_and_go_on(tmp_path: Path) -> None:
    """As `marvel bench` does them: three side by side, stopped in the midst of the second epoch."""
    jobs = [Job(in_steps("marvel", every=2, seed=seed), tmp_path / str(seed)) for seed in range(3)]
    asked = count(1)
    for _ in pack([steps(job, lambda: next(asked) > 18, images) for job in jobs]):
        pass
    assert all(place(tmp_path / str(seed))[1] for seed in range(3))
    assert not any(RunFolder(tmp_path / str(seed)).record for seed in range(3))
    ended = [shown for _, shown in pack([steps(job, lambda: False, images) for job in jobs]) if isinstance(shown, dict)]
    for record in ended:
        assert record["final"] == alone("marvel", record["config"]["seed"])[1]["final"]
        assert record["curves"] == alone("marvel", record["config"]["seed"])[1]["curves"]
    assert len(ended) == 3


def test_another_order_than_the_checkpoint_s_is_refused(
    tmp_path: Path, add_method: Callable[[type[Method]], str]
) -> None:
    """A method whose draws follow what a step changes would not be the same run."""

    class Moody(CE):
        def draws(self, generator: torch.Generator, size: int) -> Any:
            return super().draws(generator, size + int(self.visits.sum() > 0))

    config = in_steps(add_method(Moody))
    assert stopped(Run(config, tmp_path, data=images()), 2)
    with pytest.raises(FolderError, match="epoch 1 has other steps than the checkpoint in its midst"):
        finish(Run(config, tmp_path, resume=True, data=images()))


# ------------------------------------------------------------ files


def test_the_newest_checkpoint_is_by_epoch_then_by_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for epoch, step in ((9, 0), (9, 20), (9, 100), (10, 0), (10, 3)):
        folder.save_checkpoint(epoch, {"t": torch.tensor(step)}, {"step": step} if step else {})
        assert place(tmp_path) == (epoch, step)
    assert sorted(path.name for path in (tmp_path / "checkpoint").glob("*.json")) == ["0010-00000003.json", "0010.json"]
    newest = tmp_path / "checkpoint" / "0010-00000003.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    assert place(tmp_path) == (10, 0)


def test_checkpoints_of_before_are_read_and_those_of_later_refused(tmp_path: Path) -> None:
    """Format 1 said no number."""
    from marvel.runs import _digest, as_json

    folder = RunFolder(tmp_path)
    folder.save_checkpoint(3, {"t": torch.arange(4)}, {"seconds": 1.0})
    note = tmp_path / "checkpoint" / "0003.json"
    content = note.with_suffix(".safetensors").read_bytes()
    old = {"epoch": 3, "facts": {"seconds": 1.0}}
    note.write_bytes(as_json({"sha256": _digest(content, old), **old}))
    found = folder.load_checkpoint()
    assert found is not None and found[0] == 3 and found[2] == {"seconds": 1.0}
    new = {"format": FORMAT + 1, **old}
    note.write_bytes(as_json({"sha256": _digest(content, new), **new}))
    with pytest.raises(FolderError, match="was written by a newer Marvel"):
        folder.load_checkpoint()


# ------------------------------------------------------------ signals


def long_epochs(folder: Path) -> Path:
    data = images(3000)
    assert isinstance(data.x, Tensor)
    np.savez(folder / "long.npz", x=data.x, y=data.y)
    return folder / "long.npz"


def begun(folder: Path, verb: list[str], *words: str) -> subprocess.Popen[str]:
    """A command that is well into its first epoch: two checkpoints in its midst are there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "marvel", *verb, "--checkpoint-every-steps", "20", "--out", str(folder), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while len(list(folder.glob("checkpoint/*-*.json"))) < 2:
        assert time.monotonic() < end and process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    return process


SMALL = ("--network", "cnn2", "--device", "cpu", "--epochs", "2", "--batch", "4", "--lr", "0.01", "--quiet")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "number", "code", "word"),
    [("train", signal.SIGINT, 130, "interrupted"), ("clean", signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_saves_the_step_and_says_how_to_go_on(
    verb: str, number: signal.Signals, code: int, word: str, tmp_path: Path
) -> None:
    file, folder = long_epochs(tmp_path), tmp_path / "run"
    words = [verb, "--data", str(file)] if verb == "train" else [verb, str(file)]
    process = begun(folder, words, *SMALL)
    before = place(folder)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in said, said
    assert "stopping when the step is done, and saving it; once more to stop at once" in said
    assert f"{word}; go on with: marvel" in said and "--resume" in said
    assert place(folder) > before and place(folder)[0] == 0
    assert RunFolder(folder).metrics() == [] and json.loads((folder / "config.json").read_bytes())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_handlers_are_put_back(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    data: Data = images()

    def watch(epoch: Any) -> None:
        assert signal.getsignal(signal.SIGTERM) is not before
        if epoch.epoch == 1:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        train(in_steps(), tmp_path, watch=watch, data=data)
    assert signal.getsignal(signal.SIGTERM) is before
    assert place(tmp_path) == (1, 1)
