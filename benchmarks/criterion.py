"""What a call of the criterion costs: forward, and backward to the logits.

The peer of a method is `F.cross_entropy`. The peer of the bookkeeping (margins, and noting them) is what the `aum`
package does for the same purpose: `AUMCalculator.update` (Pleiss et al.), which cannot be captured in a CUDA graph,
since it reads every number back, and is timed as it is. Every call has other instances, as in an epoch.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.rows import Row, compared, missing
from benchmarks.timing import events, in_turns, processor
from marvel import CE, Marvel, MarvelPlus, Method, margins

SIZE = 128
METHODS: dict[str, Callable[[int, int], Method]] = {
    "ce": CE,
    "marvel": partial(Marvel, warmup=0, wait=127),
    "marvel+": partial(MarvelPlus, warmup=0, wait=127),
}
PLAIN, NOTES, AUM = "F.cross_entropy", "notes", "aum update"

Call = Callable[[Tensor, Tensor], object]
"""Given labels and indices."""


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    n, rounds = (4_000, 2) if quick else (50_000, 200 if device.type == "cpu" else 60)
    for classes in (10,) if quick else (10, 100, 1000):
        yield from eager(device, n, classes, rounds)
        if device.type == "cuda":
            yield from captured(device, n, classes, rounds)


def eager(device: torch.device, n: int, classes: int, rounds: int) -> Iterator[Row]:
    logits, batches = problem(device, n, classes)
    methods = {name: make(n, classes).to(device) for name, make in METHODS.items()}
    calls: dict[str, Callable[[], object]] = {
        name: over(batches, call) for name, call in calls_of(logits, methods).items()
    }
    update = aum_update(logits, batches)
    if update is not None:
        calls[AUM] = update
    timer = events if device.type == "cuda" else processor
    for call in calls.values():  # an epoch, to warm up and to have met every instance
        timer(call, len(batches))
    step(methods.values())
    samples = in_turns(
        {name: partial(timer, call, 10) for name, call in calls.items()}, rounds, lambda: step(methods.values())
    )
    where = f"K={classes}" if device.type == "cpu" else f"K={classes}, eager"
    for name in methods:
        yield compared(f"{name}, {where}", samples[name], PLAIN, samples[PLAIN], "µs", 1e6)
    if update is None:
        yield missing(f"notes, {where}", "µs", "peer aum is not installed")
    elif device.type == "cpu":
        yield compared(
            f"notes, {where}", samples[NOTES], AUM, samples[AUM], "µs", 1e6, most=1 / 10, target="10x less at least"
        )
    else:
        yield compared(f"notes, {where}", samples[NOTES], AUM, samples[AUM], "µs", 1e6)


def captured(device: torch.device, n: int, classes: int, rounds: int) -> Iterator[Row]:
    """Calls as they are inside a captured step: many in one graph, so that none pays for a launch of its own."""
    logits, batches = problem(device, n, classes)
    batches = batches[:20]
    methods = {name: make(n, classes).to(device) for name, make in METHODS.items()}
    for method in methods.values():
        method.checks = False  # as the Trainer has it
    graphs = {name: capture(call, batches) for name, call in calls_of(logits, methods).items()}
    jobs = {name: partial(per_call, graph, len(batches)) for name, graph in graphs.items()}
    update = aum_update(logits, batches)
    if update is not None:
        events(update, len(batches))
        jobs[AUM] = partial(events, update, 2)
    samples = in_turns(jobs, rounds, lambda: step(methods.values()))
    where = f"K={classes}, captured"
    for name in methods:
        yield compared(f"{name}, {where}", samples[name], PLAIN, samples[PLAIN], "µs", 1e6)
    if update is None:
        yield missing(f"notes, {where}", "µs", "peer aum is not installed")
    else:
        yield compared(
            f"notes, {where}", samples[NOTES], AUM, samples[AUM], "µs", 1e6, most=1 / 100, target="100x less at least"
        )


def problem(device: torch.device, n: int, classes: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Logits, and the labels and indices of an epoch's batches."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(SIZE, classes, generator=g).to(device).requires_grad_()
    y = torch.randint(classes, (n,), generator=g)
    draws = torch.randperm(n, generator=g).split(SIZE)
    return logits, [(y[index].to(device), index.to(device)) for index in draws if len(index) == SIZE]


def calls_of(logits: Tensor, methods: dict[str, Method]) -> dict[str, Call]:
    def plain(y: Tensor, index: Tensor) -> object:
        return torch.autograd.grad(F.cross_entropy(logits, y), logits)

    def whole(method: Method, y: Tensor, index: Tensor) -> object:
        return torch.autograd.grad(method(logits, y, index), logits)

    @torch.no_grad()
    def notes(y: Tensor, index: Tensor) -> None:
        methods["ce"].record(index, *margins(logits, y))

    return {PLAIN: plain, **{name: partial(whole, method) for name, method in methods.items()}, NOTES: notes}


def over(batches: list[tuple[Tensor, Tensor]], call: Call) -> Callable[[], object]:
    """The call, with the next batch each time."""
    turns = cycle(batches)
    return lambda: call(*next(turns))


def aum_update(logits: Tensor, batches: list[tuple[Tensor, Tensor]]) -> Callable[[], object] | None:
    """The peer's call, its lists of indices made beforehand; None where it is not installed."""
    try:
        from aum import AUMCalculator
    except ImportError:
        return None
    calculator = AUMCalculator(save_dir="")
    turns = cycle([(y, index.tolist()) for y, index in batches])
    logits = logits.detach()

    def update() -> Any:
        y, ids = next(turns)
        return calculator.update(logits, y, ids)

    return update


def capture(call: Call, batches: list[tuple[Tensor, Tensor]]) -> torch.cuda.CUDAGraph:
    """A graph of the call on each of the batches."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for batch in batches[:3]:
            call(*batch)
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for batch in batches:
            call(*batch)
    return graph


def per_call(graph: torch.cuda.CUDAGraph, calls: int) -> float:
    return events(graph.replay, 5) / calls


def step(methods: Any) -> None:
    for method in methods:
        method.step()
