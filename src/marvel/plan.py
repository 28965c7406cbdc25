"""The plan of an epoch: which instances each step draws, and the random numbers it may use.

Both are a function of (seed, stage, epoch) alone. So a resumed run, a packed run and a run on several processes see the
same batches and the same views, and no generator's state is ever saved. The numbers are made once an epoch, on the CPU,
for every device alike; a step only slices them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from marvel.data.batches import Source
from marvel.distributed import processes, share, shares
from marvel.errors import InvalidInput, amount
from marvel.method import Batch, Viewer


def seed_of(*parts: str | int) -> int:
    """A seed that depends on every part."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def generator_of(*parts: str | int) -> torch.Generator:
    """A generator of its own, seeded by the parts; torch's global one is never touched."""
    return torch.Generator().manual_seed(seed_of(*parts))


class Plan:
    """The draws of one epoch, for this process: `slots` lists of indices a step (nearly always one).

    A step of fewer than `least` instances is made one with the step before it. All processes take the same steps.
    The first `done` steps were taken before, by the run that this one goes on with.
    """

    def __init__(
        self,
        draws: Iterable[Tensor | tuple[Tensor, ...]],
        key: tuple[str | int, ...],
        device: torch.device,
        least: int = 0,
        done: int = 0,
    ) -> None:
        steps = merged([draw if isinstance(draw, tuple) else (draw,) for draw in draws], least)
        self.key, self.device, self.done = key, device, done
        self.slots = len(steps[0]) if steps else 0
        self.tables: dict[tuple[int, int], Tensor] = {}
        self.orders: list[Tensor] = []  # all draws of the epoch, one after the other
        self.totals: list[int] = []
        self.rows: list[list[slice]] = []  # which rows of the order each step takes, for this process
        self.whole: list[list[int]] = []  # how many rows a step has on all processes together
        for slot in range(self.slots):
            lists = [step[slot] for step in steps]
            self.whole.append([len(indices) for indices in lists])
            self.orders.append(torch.cat(lists).to(device))
            self.totals.append(len(self.orders[slot]))
            ends = list(accumulate(map(len, lists)))
            # Contiguous shares in the order of the ranks: gathered again, they are the batch one process would see.
            self.rows.append(
                [_rows(end - len(indices), len(indices)) for indices, end in zip(lists, ends, strict=True)]
            )

    def __len__(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    @cached_property
    def fingerprint(self) -> str:
        """Of the instances of every step: what a run that goes on in the midst of the epoch must draw again."""
        digest = hashlib.sha256(repr(self.whole).encode())
        for part in (part for order in self.orders for part in order.split(2**20)):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def uniform(self, slot: int, call: int, k: int) -> Tensor:
        """k numbers in [0, 1) for each draw of the epoch, for the call-th request of a step. (rows, k)"""
        table = self.tables.get((slot, call))
        if table is None or table.shape[1] != k:  # steps may differ in what they ask for
            numbers = torch.rand(self.totals[slot], k, generator=generator_of(*self.key, "uniform", slot, call))
            table = self.tables[slot, call] = numbers.to(self.device)
        return table

    def sizes(self, step: int) -> tuple[int, ...]:
        """How many instances each slot of a step has, for this process."""
        return tuple(rows[step].stop - rows[step].start for rows in self.rows)

    def strides(self, step: int) -> tuple[int, ...]:
        """How far the next step's rows lie from this one's."""
        return tuple(rows[step + 1].start - rows[step].start for rows in self.rows)

    def shares(self, step: int) -> list[int]:
        """How many instances of a step each process has."""
        return shares(self.whole[0][step])

    def indices(self, slot: int, step: int) -> Tensor:
        return self.orders[slot][self.rows[slot][step]]

    def fetch(self, step: int, source: Source) -> list[Tensor]:
        """The raw instances of one step, slot by slot."""
        return [source.fetch(self.indices(slot, step)) for slot in range(self.slots)]

    def stream(self, source: Source) -> Iterator[tuple[Tensor, ...]]:
        """The raw instances of each step to come in turn, read ahead where the source can."""
        to_come = range(self.done, len(self))
        draws = [[self.indices(slot, step) for step in to_come] for slot in range(self.slots)]
        seeds = [seed_of(*self.key, "crops", slot) for slot in range(self.slots)]
        streams = [source.stream(lists, self.done, seed=seed) for lists, seed in zip(draws, seeds, strict=True)]
        return zip(*streams, strict=True)

    def batches(self, step: int, raws: Sequence[Tensor], views: Viewer, y: Tensor) -> list[Batch]:
        """The batches of one step, made of its raw instances."""
        batches = []
        for slot, raw in enumerate(raws):
            index = self.indices(slot, step)
            everyones = shares(self.whole[slot][step])
            batches.append(Batch(index, y[index], raw, views, _Numbers(self, slot, step), everyones))
        return batches


def merged(steps: list[tuple[Tensor, ...]], least: int) -> list[tuple[Tensor, ...]]:
    """The steps, each too small for the processes to share joined to the one before it."""
    joined: list[tuple[Tensor, ...]] = []
    for step in steps:
        small = [len(indices) for indices in step if 0 < len(indices) < least]
        if small and not joined:
            raise InvalidInput(
                f"a step of {amount(small[0], 'instance')} is too small for {processes()} processes: BatchNorm needs "
                f"{least}; use larger batches, fewer processes, or a network without BatchNorm"
            )
        if small:
            joined[-1] = tuple(torch.cat(pair) for pair in zip(joined[-1], step, strict=True))
        else:
            joined.append(step)
    return joined


def _rows(start: int, count: int) -> slice:
    """This process's share of the `count` rows from `start` on."""
    mine = share(count)
    return slice(start + mine.start, start + mine.stop)


class _Numbers:
    """The uniform numbers of one batch, request by request."""

    def __init__(self, plan: Plan, slot: int, step: int) -> None:
        self.plan, self.slot, self.step, self.call = plan, slot, step, 0

    def __call__(self, k: int) -> Tensor:
        table = self.plan.uniform(self.slot, self.call, k)
        self.call += 1
        return table[self.plan.rows[self.slot][self.step]]
