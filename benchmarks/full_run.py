"""A whole run as the paper does it: 50,000 images, ResNet-32, 120 epochs. Training, building and evaluation apart.

Three epochs with evaluation and three without are measured, and 120 of them computed from that; `--full` trains them
all. The instances are synthetic, so the time is a real run's and the accuracy is not.
"""

import statistics
import time
from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.problem import settings, synthetic
from benchmarks.rows import Row, compared, measured, missing
from benchmarks.timing import in_turns, synchronize
from marvel.data.core import Data
from marvel.run import Run

EPOCHS = 120


def rows(device: torch.device, quick: bool = False, full: bool = False) -> Iterator[Row]:
    if device.type == "cpu" and not quick:
        yield missing(f"{EPOCHS} epochs", "s", "needs a GPU")
        return
    n, test, network = (64, 16, "cnn2") if quick else (50_000, 10_000, "resnet32")
    kinds = {"alone": synthetic(n), "evaluated": synthetic(n, test)}
    runs = {name: Timed(data, network, device) for name, data in kinds.items()}
    built = [run.epoch() for run in runs.values()]  # the first epoch of each, with the capture
    samples = in_turns({name: partial(run.epoch) for name, run in runs.items()}, 1 if quick else 3)
    alone, evaluated = (statistics.median(samples[name]) for name in kinds)
    build = min(built) - alone
    yield measured(f"an epoch of training, {network}, n={n:,}", samples["alone"], "s")
    yield compared(f"an epoch with evaluation on {test:,}", samples["evaluated"], "without", samples["alone"], "s")
    yield Row("building: compiled and captured", build, "s", note="first epoch less a later one")
    yield Row(f"{EPOCHS} epochs: training alone", EPOCHS * alone, "s", note="computed from three epochs")
    yield Row(f"{EPOCHS} epochs: evaluation after each", EPOCHS * (evaluated - alone), "s", note="computed likewise")
    if full:
        began = time.perf_counter()
        run = Timed(kinds["evaluated"], network, device, epochs=EPOCHS)
        for _ in range(EPOCHS):
            run.epoch()
        yield Row(f"{EPOCHS} epochs: all of it", time.perf_counter() - began, "s", note="measured, one run")


class Timed:
    """A run, epoch by epoch."""

    def __init__(self, data: Data, network: str, device: torch.device, epochs: int = 10_000) -> None:
        self.began = time.perf_counter()
        compiled = device.type == "cuda"
        self.run = Run(settings("marvel", network, device, compile=compiled).but(epochs=epochs), data=data)
        self.turns = self.run.steps()

    def epoch(self) -> float:
        """Seconds of the next one; building counts with the first."""
        began, self.began = self.began or time.perf_counter(), 0.0
        while next(self.turns) is None:
            pass
        synchronize(self.run.device)
        return time.perf_counter() - began
