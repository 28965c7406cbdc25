"""What a method adds to a whole training step: augmentation, forward, loss, backward, optimizer.

The peer is the same step with `F.cross_entropy` and no bookkeeping at all. All runs are alive at once and take turns,
a few steps each; on a GPU every one of them is a captured graph.
"""

import time
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.problem import settings, synthetic
from benchmarks.rows import Row, compared
from benchmarks.timing import in_turns, synchronize
from marvel import CE
from marvel.data.core import Data
from marvel.fast import Captured
from marvel.method import Outputs
from marvel.run import Run

METHODS = ("ce", "marvel", "marvel+")
PLAIN = "F.cross_entropy"


class Plain(CE):
    """Cross entropy that notes nothing: the peer."""

    def forward(self, outputs: Outputs, y: Tensor, index: Tensor | None = None, reduction: str = "mean") -> Tensor:
        with self.aside(outputs, y, index):  # a captured step waits for this branch, which is empty here
            pass
        return F.cross_entropy(outputs, y)


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    if quick:
        plans = [("cnn2", 8, 2, 2)]
    elif device.type == "cuda":
        plans = [("resnet32", 128, 60, 40), ("resnet18", 128, 60, 40)]
    else:
        plans = [("resnet32", 32, 60, 1), ("resnet18", 32, 30, 1)]
    for network, batch, rounds, steps in plans:
        data = synthetic(batch * (8 if quick else 400 if device.type == "cuda" else 64))
        runs = {name: Live(name, data, network, batch, device) for name in (PLAIN, *METHODS)}
        for run in runs.values():
            run.forward(6)  # past the capture
        samples = in_turns({name: partial(run.seconds, steps) for name, run in runs.items()}, rounds)
        for name in METHODS:
            what = f"{name}, {network}, batch {batch}"
            as_meant = device.type == "cpu" or (runs[name].captured and runs[PLAIN].captured)
            yield compared(
                what,
                samples[name],
                PLAIN,
                samples[PLAIN],
                "ms",
                1e3,
                most=1.02,
                target="+2% at most",
                note="" if as_meant else "not captured",
            )


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
        return sum(next(self.turns) is not None for _ in range(steps)) == 0

    def seconds(self, steps: int) -> float:
        """Of one step, within an epoch: where one ends, it is measured again."""
        clock = time.perf_counter if self.run.device.type == "cuda" else time.process_time
        while True:
            synchronize(self.run.device)
            began = clock()
            within = self.forward(steps)
            synchronize(self.run.device)
            if within:
                return (clock() - began) / steps
