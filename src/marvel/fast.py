"""Ways of running a step, and of running runs side by side. The trainer, the methods and the run folders stay the same.

A small network keeps a GPU waiting for Python: hundreds of kernels a step, each launched by hand. So the whole step
(gather, augment, forward, loss, margins, backward, optimizer, record) is captured once as a CUDA graph and replayed
with one launch. The step reads its place in the epoch from memory on the device, so between two replays there is
nothing left for Python to do.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marvel.data.batches import Resident
from marvel.distributed import processes
from marvel.method import Batch, Method
from marvel.plan import Plan

if TYPE_CHECKING:
    from marvel.trainer import Trainer

log = logging.getLogger("marvel")

EAGER_STEPS = 3
"""Real steps taken before the capture: they choose kernels and make the optimizer's state."""
APART = 60
"""Turns on a GPU by which a run begins after the one before it, so that their epochs do not end together."""


class Steps:
    """The steps of a training, one by one as written."""

    def __init__(self, trainer: "Trainer", method: Method) -> None:
        self.trainer, self.method = trainer, method

    def epoch(self, plan: Plan) -> Iterator[None]:
        trainer = self.trainer
        for step, raws in enumerate(plan.stream(trainer.source), plan.done):
            trainer.train_step(self.method, plan.batches(step, raws, trainer.views, trainer.y))
            yield


class Captured(Steps):
    """The steps of a training as replays of one CUDA graph; steps of another size are run as written."""

    def __init__(self, trainer: "Trainer", method: Method) -> None:
        super().__init__(trainer, method)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.failed = False

    def epoch(self, plan: Plan) -> Iterator[None]:
        if self.failed:
            yield from super().epoch(plan)
            return
        if self.graph is not None and not self.has_room(plan):
            self.graph = None  # the epochs have grown: captured anew
        if self.graph is not None:
            self.lay_out(plan)
        trainer = self.trainer
        # What lies on the device is gathered by the step itself; what workers read is put in its place.
        resident = isinstance(trainer.source, Resident)
        streamed = repeat((), len(plan) - plan.done) if resident else plan.stream(trainer.source)
        for step, raws in enumerate(streamed, plan.done):
            if self.graph is None and step == plan.done + EAGER_STEPS and plan.sizes(step) == plan.sizes(0):
                self.capture(plan, raws)
            if self.graph is not None and plan.sizes(step) == self.sizes:
                self.replay(plan, step, raws)
            else:
                read = plan.fetch(step, trainer.source) if resident else raws
                trainer.train_step(self.method, plan.batches(step, read, trainer.views, trainer.y))
            yield

    def capture(self, plan: Plan, raws: Sequence[Tensor]) -> None:
        """Record one step. What it reads lies in tensors that are held here: a graph does not keep them alive."""
        self.sizes = plan.sizes(0)
        self.raws = [raw.clone() for raw in raws]
        self.strides = torch.tensor(plan.strides(0), device=plan.device)
        self.orders = [torch.zeros(total, dtype=torch.int64, device=plan.device) for total in plan.totals]
        self.numbers = {at: torch.zeros_like(table) for at, table in plan.tables.items()}
        self.place = torch.zeros(plan.slots, dtype=torch.int64, device=plan.device)
        self.next_step: int | None = None
        self.lay_out(plan)
        graph = torch.cuda.CUDAGraph()
        # A step that reads the epoch's number would freeze it into the graph. Hidden, reading it fails the capture
        # instead.
        epoch, usual = vars(self.method).pop("epoch"), (self.method.aside, self.method.ahead)
        try:
            torch.cuda.synchronize()
            # On a stream of its own: graphs captured on one stream share cuBLAS's workspace, and packed runs would
            # race for it. What other threads do meanwhile is not the step's: one pins the images that workers read.
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"):
                batches = self.batches_in_place()
                aside = self.method.aside = Aside()
                self.method.ahead = aside.ahead
                self.trainer.train_step(self.method, batches)
                self.place += self.strides
                aside.join()
        except Exception as error:  # a step that is wrong in itself fails again, and says so, as it is written
            self.failed = True
            reason = (str(error) or type(error).__name__).splitlines()[0]
            log.warning("the step cannot be captured and runs as written: %s", reason)
        else:
            self.graph = graph
        finally:
            self.method.epoch = epoch
            self.method.aside, self.method.ahead = usual

    def batches_in_place(self) -> list[Batch]:
        """The batches of the step that `place` points at."""
        trainer = self.trainer
        batches = []
        for slot, size in enumerate(self.sizes):
            rows = self.place[slot] + torch.arange(size, device=self.place.device)
            index = self.orders[slot].index_select(0, rows)
            raw = self.raws[slot] if self.raws else trainer.source.fetch(index)
            batches.append(Batch(index, trainer.y[index], raw, trainer.views, _Numbers(self.numbers, slot, rows)))
        return batches

    def has_room(self, plan: Plan) -> bool:
        """Whether an epoch's draws fit where the graph reads them: a method may join more instances to later epochs."""
        if plan.slots != len(self.orders):
            return False
        return all(total <= len(order) for total, order in zip(plan.totals, self.orders, strict=True))

    def lay_out(self, plan: Plan) -> None:
        """Put an epoch's draws and numbers where the graph reads them."""
        for slot, order in enumerate(plan.orders):
            self.orders[slot][: len(order)].copy_(order)
        for (slot, call), table in self.numbers.items():
            table[: plan.totals[slot]].copy_(plan.uniform(slot, call, table.shape[1]))
        self.next_step = None

    def replay(self, plan: Plan, step: int, raws: Sequence[Tensor]) -> None:
        for place, raw in zip(self.raws, raws, strict=True):
            place.copy_(raw)
        if self.next_step != step:
            for slot in range(plan.slots):
                self.place[slot].fill_(plan.rows[slot][step].start)
        assert self.graph is not None
        self.graph.replay()
        self.next_step = step + 1


class _Numbers:
    """The uniform numbers of the batch whose rows are `rows`, request by request."""

    def __init__(self, tables: dict[tuple[int, int], Tensor], slot: int, rows: Tensor) -> None:
        self.tables, self.slot, self.rows, self.call = tables, slot, rows, 0

    def __call__(self, k: int) -> Tensor:
        table = self.tables[self.slot, self.call]
        self.call += 1
        return table.index_select(0, self.rows)


class Aside:
    """Work beside the main stream, in branches of the graph: the method's notes, while the step goes backward, and
    `ahead` what its loss can do while the network runs."""

    def __init__(self) -> None:
        self.stream, self.early = torch.cuda.Stream(), torch.cuda.Stream()
        for stream in (self.stream, self.early):  # parts of the graph even where nothing is done on them
            stream.wait_stream(torch.cuda.current_stream())
        self.held: list[Any] = []  # or their memory would be given to what the main stream does next

    @contextmanager
    def __call__(self, *read: Tensor | None) -> Iterator[None]:
        self.held += read
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield

    @contextmanager
    def ahead(self) -> Iterator[None]:
        with torch.cuda.stream(self.early):
            yield
        torch.cuda.current_stream().wait_stream(self.early)

    def join(self) -> None:
        for stream in (self.stream, self.early):
            torch.cuda.current_stream().wait_stream(stream)
        self.held.clear()


def steps_of(trainer: "Trainer", method: Method) -> Steps:
    """Captured where that is possible, else as written."""
    able = trainer.device.type == "cuda" and trainer.config.fast and processes() == 1  # collectives are not captured
    if able:
        # The shapes never change, so the time it takes to try every convolution kernel is well spent.
        torch.backends.cudnn.benchmark = not torch.are_deterministic_algorithms_enabled()
    return Captured(trainer, method) if able else Steps(trainer, method)


def pack(
    runs: Iterable[Iterator[Any]], width: int | None = None, apart: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Let runs take turns, a step each, `width` of them at a time: (which run, what it yielded), until all have ended.

    On a GPU each has a stream of its own, so that their small kernels fill it together, and they begin `apart` turns
    one after the other: while one writes down its epoch, the others keep the GPU at work. A run that fails ends alone:
    what it raised is yielded in place of its last step.
    """
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.synchronize()
    queue = enumerate(runs)
    working: dict[int, tuple[Iterator[Any], Any]] = {}
    to_wait, apart = 0, (APART if on_gpu else 0) if apart is None else apart
    while True:
        while (width is None or len(working) < width) and (to_wait <= 0 or not working):
            joins = next(queue, None)
            if joins is None:
                break
            which, run = joins
            working[which] = run, torch.cuda.stream(torch.cuda.Stream()) if on_gpu else nullcontext()
            to_wait = apart
        if not working:
            return
        to_wait -= 1
        for which, (run, stream) in list(working.items()):
            try:
                with stream:
                    shown = next(run)
            except StopIteration:
                del working[which]
                continue
            except Exception as error:
                del working[which]
                shown = error
            yield which, shown
