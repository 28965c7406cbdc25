"""What a method adds to a whole training step: forward, loss, backward, optimizer.

The peer is the same step with `F.cross_entropy` and no bookkeeping at all. On a GPU all runs are alive at once, each a
captured graph, and take turns. On a CPU a step takes a second and the method a thousandth of it, which no whole step
would show among its neighbours' noise: there the method's part is timed by itself, in the middle of the step, and set
against the peer's part; all else in the step is the same code.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.criterion import METHODS
from benchmarks.problem import settings, synthetic
from benchmarks.rows import Row, compared
from benchmarks.timing import in_turns, middle, quartiles, synchronize
from marvel import CE, networks
from marvel.data.core import Data
from marvel.data.views import Views
from marvel.fast import Captured
from marvel.method import Outputs
from marvel.run import Run

PLAIN = "F.cross_entropy"
MOST, TARGET = 1.02, "+2% at most"
SEMI = "marvel-semi"
"""It has a second network, the teacher: whole steps say what it costs, and it may take longer."""
SEMI_MOST, SEMI_TARGET = 1.45, "1.45x at most"


class Plain(CE):
    """Cross entropy that notes nothing: the peer."""

    def forward(self, outputs: Outputs, y: Tensor, index: Tensor | None = None, reduction: str = "mean") -> Tensor:
        with self.ahead(), self.aside(outputs, y, index):  # a captured step waits for these branches, empty here
            pass
        return F.cross_entropy(outputs.float(), y)  # as autocast would have it, and as all methods do


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    if quick:
        yield from by_parts("cnn2", 8, 2)
        yield from by_turns(device, "cnn2", 8, 2, 2)
    elif device.type == "cuda":
        for network in ("resnet32", "resnet18"):
            yield from by_turns(device, network, 128, 40, 40)
    else:
        yield from by_parts("resnet32", 32, 40)
        yield from by_parts("resnet18", 32, 12)


# ---------------------------------------------------------------- whole steps in turns


def by_turns(device: torch.device, network: str, batch: int, rounds: int, steps: int) -> Iterator[Row]:
    data = synthetic(batch * 10 * steps)
    runs = {name: Live(name, data, network, batch, device) for name in (PLAIN, *METHODS, SEMI)}
    for run in runs.values():
        run.forward(6)  # past the capture
    samples = in_turns({name: partial(run.seconds, steps) for name, run in runs.items()}, rounds)
    for name in (*METHODS, SEMI):
        what = f"{name}, {network}, batch {batch}"
        most, target = (SEMI_MOST, SEMI_TARGET) if name == SEMI else (MOST, TARGET)
        as_meant = device.type == "cpu" or (runs[name].captured and runs[PLAIN].captured)
        note = "" if as_meant else "not captured"
        yield compared(what, samples[name], PLAIN, samples[PLAIN], "ms", 1e3, most=most, target=target, note=note)


class Live:
    """A run in the middle of its training."""

    def __init__(self, name: str, data: Data, network: str, batch: int, device: torch.device) -> None:
        self.run = Run(settings("ce" if name == PLAIN else name, network, device, batch=batch), data=data)
        if name == PLAIN:
            self.run.method = Plain(len(data), len(data.classes))
        self.turns = self.run.steps()

    @property
    def captured(self) -> bool:
        steps = self.run.trainer.steps
        return isinstance(steps, Captured) and steps.graph is not None

    def forward(self, steps: int) -> bool:
        """Take some steps; True where no epoch ended among them."""
        before = self.run.trainer.place
        for _ in range(steps):
            next(self.turns)
        return self.run.trainer.place == before + steps

    def seconds(self, steps: int) -> float:
        """Of one step, within an epoch: where one ends, it is measured again."""
        while True:
            synchronize(self.run.device)
            began = time.perf_counter()
            within = self.forward(steps)
            synchronize(self.run.device)
            if within:
                return (time.perf_counter() - began) / steps


# ---------------------------------------------------------------- the method's part of a step


def by_parts(network: str, batch: int, rounds: int) -> Iterator[Row]:
    """On the CPU, as in a loop of one's own: seconds of the processor."""
    data = synthetic(32 * batch)
    views = Views(data.mean, data.std, "none", data.shape)
    net = networks.build(network, len(data.classes), data.shape)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, 0.9, weight_decay=2e-4)
    methods = {name: make(len(data), len(data.classes)) for name, make in METHODS.items()}
    g = torch.Generator().manual_seed(0)
    parts: dict[str, list[float]] = {name: [] for name in (PLAIN, *METHODS)}

    def step(name: str, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> float:
        """Seconds of a whole step; those of the loss and its gradient go to `parts`."""
        index = torch.randint(len(data), (batch,), generator=g)
        x, y = views.plain(data.x[index]), data.y[index]
        began = time.process_time()
        outputs = net(x)
        logits = outputs.detach().requires_grad_()
        before = time.process_time()
        (gradient,) = torch.autograd.grad(loss(logits, y, index), logits)
        parts[name].append(time.process_time() - before)
        outputs.backward(gradient)
        optimizer.step()
        optimizer.zero_grad()
        return time.process_time() - began

    losses = {PLAIN: lambda logits, y, index: F.cross_entropy(logits, y), **methods}
    jobs = {name: partial(step, name, loss) for name, loss in losses.items()}
    in_turns(jobs, 1)
    for part in parts.values():
        part.clear()
    wholes = in_turns(jobs, rounds, lambda: [method.step() for method in methods.values()])
    whole = statistics.median(wholes[PLAIN])
    for name in METHODS:
        ratio, low, high = middle([1 + (a - b) / whole for a, b in zip(parts[name], parts[PLAIN], strict=True)])
        mine, theirs = ([1e3 * sample for sample in wholes[of]] for of in (name, PLAIN))
        yield Row(
            f"{name}, {network}, batch {batch}",
            statistics.median(mine),
            "ms",
            *quartiles(mine),
            PLAIN,
            statistics.median(theirs),
            ratio,
            low,
            high,
            TARGET,
            None if low <= MOST < high else ratio <= MOST,
            "by its part",
        )
