"""The arithmetic of docs/scale.md, and the same quantities measured at sizes that fit here.

`rows` measures: the size of a checkpoint and the seconds it takes, the bytes that two processes send each other in an
epoch. `markdown` computes them for a million, a hundred million and a thousand million instances
(`benchmarks.promise`).
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks import promise
from benchmarks.rows import Row
from benchmarks.timing import quartiles
from marvel import networks
from marvel.config import Config
from marvel.data.core import Data
from marvel.run import Run

SIZES = (1_000_000, 100_000_000, 1_000_000_000)
CLASSES, FEATURES = 10, 4
PROCESSES, GLOBAL_BATCH = 8, 1024
RESNET50 = 25_557_032
IMAGE = 224 * 224 * 3


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    for n in (2_000,) if quick else (100_000, 1_000_000):
        yield from of_a_checkpoint(n, 1 if quick else 5)
    yield from of_the_traffic(2_000 if quick else 20_000)


# ------------------------------------------------------------ measured


def vectors(n: int) -> Data:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(n, FEATURES, generator=g), torch.randint(CLASSES, (n,), generator=g)
    return Data("vectors", x, y, tuple(map(str, range(CLASSES))))


def settings(n: int, **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": "vectors", "network": "mlp", "method": "marvel", "epochs": 2, "lr": 0.01}
    return Config(**(usual | {"batch": n // 4, "device": "cpu", "options": {"warmup": 1, "wait": 2}} | changes))


def of_a_checkpoint(n: int, times: int) -> Iterator[Row]:
    """One in mid-epoch, after two of four steps."""
    with tempfile.TemporaryDirectory() as name:
        run = Run(settings(n, checkpoint_every_steps=2), name, data=vectors(n))
        for _, _ in zip(range(3), run.steps(), strict=False):
            pass
        (file,) = Path(name).glob("checkpoint/0000-*.safetensors")
        computed = promise.checkpoint(n, parameters("mlp"))
        found = file.stat().st_size
        yield Row(
            f"n={n:,}: a checkpoint in mid-epoch",
            found / 2**20,
            "MiB",
            peer="computed",
            peer_value=computed / 2**20,
            ratio=found / computed,
        )
        took = []
        for _ in range(times):
            began = time.perf_counter()
            run.trainer.save(run.method)
            took.append(time.perf_counter() - began)
        low, high = quartiles(took)
        yield Row(f"n={n:,}: writing it, synced", sorted(took)[len(took) // 2], "s", low, high)


def parameters(network: str) -> int:
    return sum(p.numel() for p in networks.build(network, CLASSES, (FEATURES,), 0).parameters())


def of_the_traffic(n: int) -> Iterator[Row]:
    """Of an epoch of two processes, by what is handed to the collectives."""
    with tempfile.TemporaryDirectory() as name:
        mp.spawn(one_of_two, args=(name, n), nprocs=2)  # type: ignore[attr-defined,no-untyped-call]
        gathered, averaged = (int(word) for word in (Path(name) / "bytes").read_text().split())
    for what, found, computed in (
        ("gathered from both", gathered, n * promise.GATHERED),
        ("gradients, averaged", averaged, STEPS * 4 * parameters("mlp")),
    ):
        yield Row(
            f"n={n:,}, 2 processes: {what}",
            found / 2**20,
            "MiB an epoch",
            peer="computed",
            peer_value=computed / 2**20,
            ratio=found / computed,
        )


STEPS = 4


def one_of_two(rank: int, folder: str, n: int) -> None:
    """Count the bytes of all gathers and sums of an epoch's steps; a gather's are those of all processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    counted = {"gather": 0, "sum": 0}
    gather, add = dist.all_gather, dist.all_reduce

    def all_gather(into: list[torch.Tensor], mine: torch.Tensor) -> Any:
        counted["gather"] += len(into) * mine.nbytes
        return gather(into, mine)

    def all_reduce(tensor: torch.Tensor) -> Any:
        counted["sum"] += tensor.nbytes
        return add(tensor)

    run = Run(settings(n), data=vectors(n))
    steps = run.steps()
    dist.all_gather, dist.all_reduce = all_gather, all_reduce  # type: ignore[assignment]
    for _ in range(STEPS):
        next(steps)
    dist.all_gather, dist.all_reduce = gather, add
    if rank == 0:
        (Path(folder) / "bytes").write_text(f"{counted['gather']} {counted['sum']}")
    dist.destroy_process_group()


# ------------------------------------------------------------ computed


def markdown(found: dict[str, Any]) -> str:
    """Nothing here is measured but the seconds of `step()`, those of the largest size in the file."""
    values = {row["what"]: row["value"] for row in found["state"]["rows"] if "value" in row}
    at = max(n for n in (10**6, 10**7, 10**8) if f"marvel, n={n:,}: step()" in values)
    second = values[f"marvel, n={at:,}: step()"] / at
    state, ledger = promise.state(), promise.ledger()
    computed = {
        f"state: {state:g} bytes an instance": lambda n: size(n * state),
        f"ledger: {ledger:g} bytes an instance": lambda n: size(n * ledger),
        f"order and labels: {promise.ORDER + promise.LABELS} bytes an instance": lambda n: size(
            n * (promise.ORDER + promise.LABELS)
        ),
        "a checkpoint, with ResNet-50": lambda n: size(promise.checkpoint(n, RESNET50)),
        "memory of a process, images streamed": lambda n: size(promise.training(n, 0, parameters=RESNET50)),
        "memory of `marvel clean`, 8 x 8 grey images resident": lambda n: size(promise.clean(n, 64)),
        f"gathered by each of {PROCESSES} processes, an epoch": lambda n: size(
            n * promise.GATHERED * (PROCESSES - 1) / PROCESSES
        ),
        f"gradients of ResNet-50 averaged, batch {GLOBAL_BATCH:,}, an epoch": lambda n: size(
            2 * (PROCESSES - 1) / PROCESSES * 4 * RESNET50 * n / GLOBAL_BATCH
        ),
        f"pixels read, {IMAGE:,} bytes an image, an epoch": lambda n: size(n * IMAGE),
        "`step()`, one thread": lambda n: duration(n * second),
        "an epoch at 10,000 images/s": lambda n: duration(n / 10_000),
    }
    lines = ["| | " + " | ".join(f"{n // 10**6:,} million" for n in SIZES) + " |", "| --- |" + " ---: |" * len(SIZES)]
    lines += [f"| {what} | " + " | ".join(of(n) for n in SIZES) + " |" for what, of in computed.items()]
    return "\n".join(lines) + "\n"


def size(value: float) -> str:
    for unit, least in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if value >= least:
            return f"{value / least:.3g} {unit}"
    return f"{value / 1e6:.3g} MB"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
