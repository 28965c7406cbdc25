"""A million small images with wrong labels among them, cleaned on one machine, and interrupted on the way.

`marvel clean` in a process of its own is told to stop in the midst of an epoch (SIGTERM), goes on, is killed in the
midst of a later one (SIGKILL), goes on, and ranks the labels. The most memory that any of these processes took is held
against what docs/scale.md promises (`benchmarks.promise`), and the ranking against the labels that were made wrong.

    python -m benchmarks --only million --instances 20000 --out some.json     small: to see that it works
"""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import promise
from benchmarks.rows import Row
from benchmarks.state import memory
from marvel import metrics
from marvel.runs import RunFolder

INSTANCES, QUICK = 1_000_000, 6_000
CLASSES, SIDE, CHUNK, WRONG = 10, 8, 100_000, 0.1
EPOCHS, BATCH, EVERY = 5, 500, 400
NETWORK = "mlp"
STOPPED, KILLED = 2, 3
"""The epochs that do not end undisturbed."""


def rows(device: torch.device, quick: bool = False, instances: int | None = None) -> Iterator[Row]:
    n = instances or (QUICK if quick else INSTANCES)
    with tempfile.TemporaryDirectory() as name:
        yield from measured(Path(name), n, device)


def measured(folder: Path, n: int, device: torch.device) -> Iterator[Row]:
    began = time.perf_counter()
    clean = write(folder, n)
    yield Row(f"{n:,} images written, {WRONG:.0%} of labels wrong", time.perf_counter() - began, "s")
    every = min(EVERY, max(1, n // BATCH // 4))
    run, done = folder / "run", []
    for epoch, number in ((STOPPED, signal.SIGTERM), (KILLED, signal.SIGKILL), (None, None)):
        done.append(stretch(folder, run, device, every, epoch, number))
        if number is not None:
            at = RunFolder(run).load_checkpoint()
            if at is None or not at[2].get("step"):
                raise RuntimeError("it was not stopped in the midst of an epoch")
            where = f"goes on at step {at[2]['step']:,} of epoch {at[0] + 1}"
            yield Row(f"{n:,}, until {number.name}", done[-1].seconds, "s", note=where)
    folder_of_run = RunFolder(run)
    record, found = folder_of_run.record or {}, folder_of_run.found or {}
    yield Row(f"{n:,}, to the end, ranked, issues.csv written", done[-1].seconds, "s")
    yield Row(f"{n:,}, training alone", record["seconds"] / EPOCHS, "s an epoch", note=f"{EPOCHS} epochs, {NETWORK}")
    yield from memory_of(n, done)
    yield from judged(folder_of_run, n, clean, found)


@dataclass(frozen=True)
class Stretch:
    seconds: float
    peak: int | None
    """The most memory it took, in bytes."""


def stretch(
    folder: Path, run: Path, device: torch.device, every: int, epoch: int | None, number: signal.Signals | None
) -> Stretch:
    """One process of `marvel clean`, which is sent a signal in the midst of an epoch."""
    words = ["clean", str(folder / "x.npy"), "--labels", str(folder / "y.npy"), "--out", str(run), "--quiet"]
    words += ["--network", NETWORK, "--epochs", str(EPOCHS), "--batch", str(BATCH), "--lr", "0.05"]
    words += ["--checkpoint-every-steps", str(every), "--device", device.type, "--seed", "0", "--resume"]
    words += ["--warmup", "2", "--wait", "2"]
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "marvel", *words], stderr=subprocess.PIPE, text=True)
    peaks: list[int] = []
    watching = threading.Thread(target=watch, args=(process, peaks))
    watching.start()
    if number is not None:
        until(process, lambda: midst_of(run, epoch or 0, every))
        process.send_signal(number)
    _, said = process.communicate()
    watching.join()
    expected = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL, None: 0}[number]
    if process.returncode != expected:
        raise RuntimeError(f"marvel clean ended with {process.returncode}, expected {expected}: {said[-2000:]}")
    return Stretch(time.perf_counter() - began, max(peaks, default=None))


def watch(process: "subprocess.Popen[str]", peaks: list[int]) -> None:
    """Linux keeps the most that a process ever held, so it is enough to ask again and again until it ends."""
    while process.poll() is None:
        try:
            found = memory("VmHWM", f"/proc/{process.pid}/status")
        except (OSError, StopIteration):  # it has ended: what is left of it has no memory
            found = None
        peaks.extend([] if found is None else [found])
        time.sleep(0.05)


def until(process: "subprocess.Popen[str]", come: Callable[[], bool]) -> None:
    while not come():
        if process.poll() is not None:
            raise RuntimeError(f"marvel clean ended too early: {process.communicate()[1][-2000:]}")
        time.sleep(0.02)


def midst_of(run: Path, epoch: int, every: int) -> bool:
    """Whether two checkpoints in the midst of that epoch were written."""
    return (run / "checkpoint" / f"{epoch - 1:04d}-{2 * every:08d}.json").exists()


def write(folder: Path, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """x.npy and y.npy, made in chunks; returns the clean labels. A class is a pattern, an instance it and noise."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(0, 1, (CLASSES, 1, SIDE, SIDE))
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.uint8, (n, 1, SIDE, SIDE))
    clean = rng.integers(0, CLASSES, n)
    for start in range(0, n, CHUNK):
        rows = slice(start, min(start + CHUNK, n))
        noisy = 128 + 24 * patterns[clean[rows]] + rng.normal(0, 64, (len(clean[rows]), 1, SIDE, SIDE))
        x[rows] = noisy.clip(0, 255)
    x.flush()
    wrong = rng.random(n) < WRONG
    np.save(folder / "y.npy", np.where(wrong, (clean + rng.integers(1, CLASSES, n)) % CLASSES, clean))
    return clean


def memory_of(n: int, done: list[Stretch]) -> Iterator[Row]:
    """Beside the promise; a process without data tells what Python and torch take by themselves."""
    peaks = [one.peak for one in done if one.peak is not None]
    if not peaks:
        return
    promised = promise.clean(n, SIDE * SIDE)
    yield Row(
        f"{n:,}, most memory of any of the three processes",
        max(peaks) / 2**20,
        "MiB",
        target=f"at most {promised / 2**20:,.0f} MiB",
        met=max(peaks) <= promised,
        note="promised in docs/scale.md",
    )


def judged(run: RunFolder, n: int, clean: np.ndarray[Any, np.dtype[np.int64]], found: dict[str, Any]) -> Iterator[Row]:
    """The ranking against the labels that were made wrong; canaries, which were not judged, left out."""
    columns = run.instances(("given", "canary", "wrong_probability", "label_quality", "flagged"))
    others = ~columns["canary"]
    wrong = (columns["given"] != clean)[others]
    ranking = metrics.ranking(columns["label_quality"][others], wrong)
    detection = metrics.detection(columns["flagged"][others], wrong)
    issues = len((run.path / "issues.csv").read_text(encoding="utf-8").splitlines()) - 1
    yield Row(f"{n:,}, detection AUROC", ranking["detection_auroc"], "")
    yield Row(f"{n:,}, labels listed", float(issues), "", note=f"{int(wrong.sum()):,} are wrong")
    yield Row(f"{n:,}, detection precision of the list", detection["detection_precision"], "")
    yield Row(f"{n:,}, detection recall of the list", detection["detection_recall"], "")
    estimate = found["estimate"]
    if estimate is not None:
        told = estimate["wrong"]
        note = f"90% interval {told['low']:,.0f} to {told['high']:,.0f}"
        yield Row(f"{n:,}, wrong labels by the estimate", told["value"], "", note=note)
