"""Images a second of training: as written, captured, compiled; alone and packed.

The peer is the loop people write: a dataset that crops and flips on the CPU in worker processes, `.cuda()`, autocast to
bfloat16, cross entropy, nothing captured. Times exclude building and capture. On a CPU the two take turns on one
thread, without workers, and the seconds are the processor's.
"""

import os
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.problem import settings, synthetic
from benchmarks.rows import Row, compared, measured
from benchmarks.timing import in_turns, quartiles
from marvel import networks
from marvel.data.core import Data
from marvel.fast import pack
from marvel.run import Run

ORDINARY = "DataLoader loop"
WAYS = {"plain": (1,), "captured": (1, 8), "compiled": (1, 2, 4, 8)}
"""How the step is run, and how many runs side by side."""
AT_LEAST = {
    ("resnet32", "compiled", 1): 50_000,
    ("resnet32", "compiled", 8): 95_000,
    ("resnet18", "compiled", 1): 50_000,
    ("resnet18", "compiled", 8): 70_000,
}


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    if device.type == "cuda" and not quick:
        for network in ("resnet32", "resnet18"):
            yield from on_gpu(device, network, 128, 1.5)
    else:
        yield on_one_thread(device, *(("cnn2", 8, 1) if quick else ("resnet32", 32, 40)))


def on_one_thread(device: torch.device, network: str, batch: int, rounds: int) -> Row:
    data = synthetic(64 * batch)
    loops = {
        "marvel": trainings(several(data, network, "plain", 1, batch, device), batch),
        ORDINARY: ordinary(data, network, batch, 0, device),
    }
    for loop in loops.values():
        next(loop), next(loop)
    speeds = in_turns({name: partial(speed, loop, time.process_time) for name, loop in loops.items()}, rounds)
    return compared(f"marvel, plain, {network}", speeds["marvel"], ORDINARY, speeds[ORDINARY], "images/s")


def on_gpu(device: torch.device, network: str, batch: int, seconds: float) -> Iterator[Row]:
    data = synthetic(100 * batch + 80)
    workers = min(8, os.cpu_count() or 1)
    peer = steady(ordinary(data, network, batch, workers, device), len(data) // batch, seconds)
    yield measured(f"{ORDINARY}, {workers} workers, {network}", peer, "images/s")
    theirs = statistics.median(peer)
    for way, packs in WAYS.items():
        for packed in packs:
            began = time.perf_counter()
            runs = several(data, network, way, packed, batch, device)
            loop = trainings(runs, batch)
            # An epoch each, past the capture and the last batch, whose size is another.
            while any(run.trainer.epoch < 1 for run in runs):
                next(loop)
            torch.cuda.synchronize()
            build = time.perf_counter() - began
            speeds = steady(loop, 0, seconds, 50 * packed)
            value = statistics.median(speeds)
            least = AT_LEAST.get((network, way, packed))
            yield Row(
                f"marvel, {way}, {network}" + (f", {packed} packed" if packed > 1 else ""),
                value,
                "images/s",
                *quartiles(speeds),
                ORDINARY,
                theirs,
                value / theirs,
                target="" if least is None else f"at least {least:,}",
                met=None if least is None else value >= least,
                note=f"after {build:.1f} s of building and a first epoch",
            )


def speed(loop: Iterator[int], clock: Callable[[], float], steps: int = 1) -> float:
    """Images a second of the loop's next steps."""
    began = clock()
    images = sum(islice(loop, steps))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return images / (clock() - began)


def steady(loop: Iterator[int], first: int, seconds: float, steps: int = 50) -> list[float]:
    """Images a second, block by block, after so many first steps and for so many seconds."""
    sum(islice(loop, first))
    torch.cuda.synchronize()
    end = time.perf_counter() + seconds
    speeds = []
    while time.perf_counter() < end:
        speeds.append(speed(loop, time.perf_counter, steps))
    return speeds


def several(
    data: Data, network: str, way: str, packed: int, batch: int, device: torch.device, workers: int | None = None
) -> list[Run]:
    """Marvel's runs, to be trained side by side."""
    config = settings("marvel", network, device, batch=batch, fast=way != "plain", compile=way == "compiled")
    return [Run(config.but(workers=workers, seed=k), data=data) for k in range(packed)]


def trainings(runs: Sequence[Run], batch: int) -> Generator[int, None, None]:
    """The images of each step, whichever run takes it."""
    taken = dict.fromkeys(range(len(runs)), (0, -1))
    for which, shown in pack(run.steps() for run in runs):
        if isinstance(shown, Exception):
            raise shown
        place = (runs[which].trainer.epoch, runs[which].trainer.place)
        if shown is None and place > taken[which]:  # and not where it waits for the GPU at the end of an epoch
            taken[which] = place
            yield batch


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


def ordinary(data: Data, network: str, batch: int, workers: int, device: torch.device) -> Generator[int, None, None]:
    """The peer: the images of each step."""
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
    while True:
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield len(x)
