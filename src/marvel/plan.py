"""The plan of an epoch: which instances each step draws, and the random numbers it may use.

Both are a function of (seed, stage, epoch) alone. So a resumed run, a packed run and a run on several processes see the same
batches and the same views, and no generator's state is ever saved. The numbers are made once an epoch, on the CPU, for every
device alike; a step only slices them.
"""

import hashlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from marvel.data.batches import Source
from marvel.distributed import processes, rank
from marvel.method import Batch, Viewer


def seed_of(*parts: str | int) -> int:
    """A seed that depends on every part."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def generator_of(*parts: str | int) -> torch.Generator:
    """A generator of its own, seeded by the parts; torch's global one is never touched."""
    return torch.Generator().manual_seed(seed_of(*parts))


class Plan:
    """The draws of one epoch, for this process: `slots` lists of indices a step (nearly always one)."""

    def __init__(
        self, draws: Iterable[Tensor | tuple[Tensor, ...]], key: tuple[str | int, ...], device: torch.device
    ) -> None:
        steps = [draw if isinstance(draw, tuple) else (draw,) for draw in draws]
        self.key, self.device = key, device
        self.slots = len(steps[0]) if steps else 0
        self.tables: dict[tuple[int, int], Tensor] = {}
        self.rows: list[list[slice]] = [[] for _ in range(self.slots)]  # this process's rows of the global order
        self.totals: list[int] = []
        self.indices: list[list[Tensor]] = []
        for slot in range(self.slots):
            lists = [step[slot] for step in steps]
            start = 0
            for indices in lists:
                # Contiguous shares in the order of the ranks: gathered again, they are the batch one process would see.
                low, high = (len(indices) * r // processes() for r in (rank(), rank() + 1))
                self.rows[slot].append(slice(start + low, start + high))
                start += len(indices)
            self.totals.append(start)
            order = torch.cat(lists).to(device)
            self.indices.append([order[rows] for rows in self.rows[slot]])

    def __len__(self) -> int:
        return len(self.rows[0]) if self.slots else 0

    def uniform(self, slot: int, call: int, k: int) -> Tensor:
        """k numbers in [0, 1) for each draw of the epoch, for the call-th request of a step. (rows, k)"""
        if (slot, call) not in self.tables:
            numbers = torch.rand(self.totals[slot], k, generator=generator_of(*self.key, "uniform", slot, call))
            self.tables[slot, call] = numbers.to(self.device)
        return self.tables[slot, call]

    def batches(self, source: Source, views: Viewer, y: Tensor) -> Iterator[list[Batch]]:
        """The batches of each step, in turn."""
        streams = [source.stream(indices) for indices in self.indices]
        for step in range(len(self)):
            yield [
                Batch(index, y[index], next(stream), views, _Numbers(self, slot, step))
                for slot, (index, stream) in enumerate(
                    zip((indices[step] for indices in self.indices), streams, strict=True)
                )
            ]


class _Numbers:
    """The uniform numbers of one batch, request by request."""

    def __init__(self, plan: Plan, slot: int, step: int) -> None:
        self.plan, self.slot, self.step, self.call = plan, slot, step, 0

    def __call__(self, k: int) -> Tensor:
        table = self.plan.uniform(self.slot, self.call, k)
        self.call += 1
        return table[self.plan.rows[self.slot][self.step]]
