"""What several processes cost a step, in microseconds: what `gather` sends, and what the gradients take.

    python -m benchmarks.gather --worlds 2,4 --out results/gather-cpu.json

Each number is the median over the steps, of the slowest process. A step's global batch is `--batch` instances.

costs       five columns: cost, weight, margin, rival, index. What a method needs that overrides `cost` or `update`
outputs     the logits, label and index. What a method needs that overrides `loss` (NPCL)
asked       costs, where the processes do not know how many rows the others have (a user's own loop)
gradients   the average of all gradients of ResNet-18, after the backward pass, in one collective
trainer     a whole training step of ResNet-18 with that average
ddp         the same step with DistributedDataParallel, which sends while the backward pass still runs
alone       the same step of one process's rows, with nothing sent
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
Row = dict[str, object]


def measure(act: Callable[[], object], steps: int) -> float:
    """Microseconds: the median step, of the slowest process."""
    took = []
    for step in range(steps + 1):
        dist.barrier()
        began = time.perf_counter()
        act()
        if step >= 1:
            took.append(time.perf_counter() - began)
    median = torch.tensor([statistics.median(took) * 1e6])
    dist.all_reduce(median, dist.ReduceOp.MAX)
    return round(float(median))


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
    found: list[Row] = []

    def add(what: str, microseconds: float, **more: object) -> None:
        found.append({"processes": world, "what": what, **more, "microseconds": microseconds})

    cost, weight, margin = (torch.randn(m, generator=g, requires_grad=k == 0) for k in range(3))
    columns = (cost, weight, margin, index, index)
    add("costs", measure(lambda: gather(*columns, sizes=sizes), steps))
    add("asked", measure(lambda: gather(*columns), steps))
    for classes in CLASSES:
        logits = torch.randn(m, classes, generator=g, requires_grad=True)
        add("outputs", measure(lambda z=logits: gather(z, index, index, sizes=sizes), steps), classes=classes)

    gradients = [torch.randn(p.shape, generator=g) for p in resnet18().parameters()]
    add("gradients", measure(lambda: average_over_processes(gradients), steps // 5))
    if heavy_steps:
        x = torch.randn(m, 3, 32, 32, generator=g)
        network = resnet18()
        add("alone", measure(step_of(network, x, lambda: None), heavy_steps))
        average = partial(average_gradients, network)
        add("trainer", measure(step_of(network, x, average), heavy_steps))
        wrapped = DistributedDataParallel(resnet18())
        add("ddp", measure(step_of(wrapped, x, lambda: None), heavy_steps))
    return found


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
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--heavy-steps", type=int, default=3, help="of a whole training step; 0: leave these out")
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
