"""Images a second of training: as written, captured, compiled; alone and packed.

The peer is the loop people write: a dataset that crops and flips on the CPU in worker processes, `.cuda()`, autocast to
bfloat16, cross entropy, nothing captured. Times exclude building and capture.
"""

import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.problem import settings, synthetic
from benchmarks.rows import Row
from benchmarks.timing import quartiles, synchronize
from marvel import networks
from marvel.data.core import Data
from marvel.fast import pack
from marvel.run import Run

ORDINARY = "DataLoader loop"


@dataclass(frozen=True)
class Way:
    """How the step is run, and how many runs side by side."""

    name: str
    packs: tuple[int, ...]


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    if quick:
        names, ways, batch, n, seconds = ["cnn2"], [Way("plain", (1,))], 8, 64, 0.0
    elif device.type == "cuda":
        ways = [Way("plain", (1,)), Way("captured", (1, 2, 4, 8)), Way("compiled", (1, 4))]
        names, batch, n, seconds = ["resnet32", "resnet18"], 128, 12_800 + 80, 3.0
    else:
        names, ways, batch, n, seconds = ["resnet32"], [Way("plain", (1,))], 32, 1_280, 20.0
    data = synthetic(n)
    for network in names:
        workers = 0 if quick else min(8, os.cpu_count() or 1)
        peer = ordinary(data, network, batch, workers, device, seconds)
        yield rate(f"{ORDINARY}, {workers} workers, {network}, batch {batch}", peer)
        for way in ways:
            for packed in way.packs:
                speeds, build = packs(data, network, way.name, packed, batch, device, seconds)
                what = f"marvel, {way.name}, {network}" + (f", {packed} packed" if packed > 1 else "")
                yield rate(what, speeds, peer, f"after {build:.1f} s of building" if not quick else "")


def rate(what: str, speeds: list[float], peer: list[float] | None = None, note: str = "") -> Row:
    value = statistics.median(speeds)
    if peer is None:
        return Row(what, value, "images/s", *quartiles(speeds))
    theirs = statistics.median(peer)
    return Row(what, value, "images/s", *quartiles(speeds), ORDINARY, theirs, value / theirs, note=note)


def packs(
    data: Data, network: str, way: str, packed: int, batch: int, device: torch.device, seconds: float
) -> tuple[list[float], float]:
    """Steady images a second of `packed` runs side by side, and the seconds before it was steady."""
    config = settings("marvel", network, device, batch=batch, fast=way != "plain", compile=way == "compiled")
    began = time.perf_counter()
    runs = [Run(config.but(seed=k), data=data) for k in range(packed)]
    turns = pack(run.steps() for run in runs)

    def forward(steps: int) -> int:
        """Take some steps; returns how many epochs ended."""
        shown = [next(turns)[1] for _ in range(steps)]
        for what in shown:
            if isinstance(what, Exception):
                raise what
        return sum(what is not None for what in shown)

    ended = 0
    while ended < packed:  # one epoch each, past the capture and the last batch, whose size is another
        ended += forward(1)
    synchronize(device)
    build = time.perf_counter() - began

    def block() -> int:
        steps = 50 * packed if device.type == "cuda" else 1
        forward(steps)
        return steps * batch

    return steady(block, device, seconds), build


def steady(block, device: torch.device, seconds: float) -> list[float]:  # type: ignore[no-untyped-def]
    """The images a second of each block, for so many seconds."""
    speeds: list[float] = []
    end = time.perf_counter() + seconds
    while not speeds or time.perf_counter() < end:
        began = time.perf_counter()
        images = block()
        synchronize(device)
        speeds.append(images / (time.perf_counter() - began))
    return speeds


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Images cropped, flipped and standardised one by one, as torchvision's transforms do it."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.mean, self.std = (torch.tensor(v).view(-1, 1, 1) for v in (data.mean, data.std))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = F.pad(self.data.x[index], (4, 4, 4, 4))
        row, column, flip = (int(torch.randint(end, ())) for end in (9, 9, 2))
        x = x[:, row : row + 32, column : column + 32]
        x = x.flip(-1) if flip else x
        return (x / 255 - self.mean) / self.std, self.data.y[index]


def ordinary(data: Data, network: str, batch: int, workers: int, device: torch.device, seconds: float) -> list[float]:
    """The peer's images a second, past its first epoch."""
    on_gpu = device.type == "cuda"
    loader = DataLoader(
        Augmented(data),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=on_gpu,
        persistent_workers=workers > 0,
    )
    net = networks.build(network, len(data.classes), data.shape).to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=2e-4)

    def forever() -> Iterator[int]:
        while True:
            for x, y in loader:
                x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
                with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                    loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                yield len(x)

    turns = forever()
    for _ in range(len(loader) if on_gpu else 2):
        next(turns)
    synchronize(device)

    def block() -> int:
        return sum(next(turns) for _ in range(50 if on_gpu else 1))

    return steady(block, device, seconds)
