"""What several processes cost a step, in microseconds: what `gather` sends, and what the gradients take.

    python -m benchmarks.gather --worlds 2,4 --out results/gather-cpu.json

Each number is the median over the rounds, of the slowest process. The global batch has `--batch` instances.

costs       five columns: cost, weight, margin, rival, index. What a method needs that overrides `cost` or `update`
asked       the same where the processes do not know how many rows the others have (a user's own loop)
outputs     the logits, label and index. What a method needs that overrides `loss` (NPCL)
gradients   the average of all gradients of ResNet-18, after the backward pass, in one collective
alone       a training step of ResNet-18 on 8 images a process, with nothing sent
trainer     the same with the average of the gradients
ddp         the same with DistributedDataParallel, which sends while the backward pass still runs
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from marvel.distributed import average_over_processes, gather, shares
from marvel.networks import build
from marvel.run import environment

CLASSES = (10, 100, 1000)
HEAVY_ROWS = 8
"""Of each process, in a whole training step: few, so that what is sent shows beside what is computed."""

Row = dict[str, object]


def measure(acts: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each: quartiles over the rounds, of the slowest process. They take turns, back and forth."""
    took: dict[str, list[float]] = {what: [] for what in acts}
    for k in range(rounds + 1):
        for what in list(acts)[:: 1 if k % 2 else -1]:
            dist.barrier()
            began = time.perf_counter()
            acts[what]()
            passed = torch.tensor([time.perf_counter() - began])
            dist.all_reduce(passed, dist.ReduceOp.MAX)
            if k:  # the first round warms up
                took[what].append(1e6 * float(passed))
    return {what: [round(q) for q in statistics.quantiles(times, n=4)] for what, times in took.items()}


def step_of(network: nn.Module, x: torch.Tensor, after: Callable[[], object]) -> Callable[[], None]:
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step() -> None:
        network(x).logsumexp(1).mean().backward()
        after()
        optimizer.step()
        optimizer.zero_grad()

    return step


def resnet18() -> nn.Module:
    return build("resnet18", 10, (3, 32, 32), 0)


def average_gradients(network: nn.Module) -> None:
    average_over_processes([p.grad for p in network.parameters() if p.grad is not None])


def rows(rank: int, world: int, batch: int, steps: int, heavy_steps: int) -> list[Row]:
    sizes = shares(batch)
    m, g = sizes[rank], torch.Generator().manual_seed(rank)
    index = torch.arange(m)
    cost, weight, margin = (torch.randn(m, generator=g, requires_grad=k == 0) for k in range(3))
    columns = (cost, weight, margin, index, index)
    logits = {f"outputs, {k} classes": torch.randn(m, k, generator=g, requires_grad=True) for k in CLASSES}
    gradients = [torch.randn(p.shape, generator=g) for p in resnet18().parameters()]
    small: dict[str, Callable[[], object]] = {"costs": partial(gather, *columns, sizes=sizes)}
    small["asked"] = partial(gather, *columns)
    small |= {what: partial(gather, z, index, index, sizes=sizes) for what, z in logits.items()}
    found = measure(small, steps) | measure({"gradients": partial(average_over_processes, gradients)}, steps // 5)
    if heavy_steps:
        x = torch.randn(HEAVY_ROWS, 3, 32, 32, generator=g)
        alone, shared, wrapped = resnet18(), resnet18(), DistributedDataParallel(resnet18())
        heavy: dict[str, Callable[[], object]] = {"alone": step_of(alone, x, lambda: None)}
        heavy["trainer"] = step_of(shared, x, partial(average_gradients, shared))
        heavy["ddp"] = step_of(wrapped, x, lambda: None)
        found |= measure(heavy, heavy_steps)
    return [
        {"processes": world, "what": what, "microseconds": median, "quartiles": [low, high]}
        for what, (low, median, high) in found.items()
    ]


def worker(rank: int, world: int, folder: str, args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = rows(rank, world, args.batch, args.steps, args.heavy_steps)
    if rank == 0:
        with open(f"{folder}/rows.json", "w") as file:
            json.dump(found, file)
    gc.collect()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="2,4")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--heavy-steps", type=int, default=20, help="rounds of whole training steps; 0: leave them out")
    parser.add_argument("--out", default="results/gather-cpu.json")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    found: list[Row] = []
    for world in map(int, args.worlds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(worker, args=(world, folder, args), nprocs=world)
            with open(f"{folder}/rows.json") as file:
                here = json.load(file)
        for row in here:
            print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        found += here
    about = {**environment(torch.device("cpu")), "cores": os.cpu_count(), "backend": "gloo", "load": load}
    with open(args.out, "w") as file:
        json.dump({"batch": args.batch, "rows": found, "environment": about}, file, indent=1)


if __name__ == "__main__":
    main()
