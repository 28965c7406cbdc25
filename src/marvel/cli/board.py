"""How far many runs are: a live table on a terminal, a line for each run elsewhere. On stderr, in nobody's way."""

import sys
import time
from collections.abc import Container, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.table import Table

    from marvel.trainer import Epoch

EVERY = 30.0
"""Seconds between two lines about what is going on, where there is no terminal."""
NEWEST = 5
"""How many of the runs that are done, and that failed, the live table shows."""


class Board:
    """`names` are the runs to do, by which run, and `costs` what each may cost; runs are told of as they go."""

    def __init__(self, names: Mapping[str, str], costs: Mapping[str, float], quiet: bool = False) -> None:
        self.names, self.costs, self.quiet = names, costs, quiet
        self.going: dict[str, Epoch | None] = {}
        self.done: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.going_elsewhere: set[str] = set()
        self.done_elsewhere: set[str] = set()
        """By another process."""
        self.began = self.told = time.monotonic()
        self.since: float | None = None
        """When the first epoch was shown: what came before was reading and building."""
        self.had: dict[str, float] = {}
        """Which part of a run was done when it was first heard of: before, where it was resumed."""
        self.live: Any = None

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(get_renderable=self.table, console=Console(stderr=True), refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def epoch(self, run: str, epoch: "Epoch") -> None:
        self.going[run] = epoch
        self.since = self.since or time.monotonic()
        if "/" not in epoch.stage:
            self.had.setdefault(run, epoch.epoch / epoch.epochs)
        if self.live is None and not self.quiet and time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            going = ", ".join(f"{self.names[run]} {_place(epoch)}" for run, epoch in self.going.items())
            self.say(f"{self.summary()}; {going}")

    def end(self, run: str, came_to: str) -> None:
        """A run is done."""
        self.done[run] = came_to
        self._ended(run, came_to)

    def fail(self, run: str, why: str) -> None:
        known = why in self.failed.values()  # a dataset that is missing is missing for all
        self.failed[run] = why
        self._ended(run, "failed for the same reason" if known else f"failed: {why}")

    def leave(self, run: str, done: bool) -> None:
        """Another process is at the run, or has done it."""
        (self.done_elsewhere if done else self.going_elsewhere).add(run)
        self._ended(run, "done elsewhere" if done else "going on elsewhere")

    def finished_elsewhere(self, done: Container[str]) -> None:
        """Of what other processes were at, these runs are done by now."""
        self.done_elsewhere |= {run for run in self.going_elsewhere if run in done}
        self.going_elsewhere -= self.done_elsewhere

    @property
    def ended(self) -> set[str]:
        """The runs that nothing is left to do of here."""
        return {*self.done, *self.failed, *self.going_elsewhere, *self.done_elsewhere}

    def _ended(self, run: str, said: str) -> None:
        self.going.pop(run, None)
        if self.live is None and not self.quiet:
            self.say(f"[{len(self.ended)}/{len(self.names)}] {self.names[run]}: {said}")

    def say(self, line: str) -> None:
        print(" ".join(line.split()), file=sys.stderr, flush=True)

    def summary(self) -> str:
        from marvel.report.progress import duration

        now = time.monotonic()
        said = f"{len(self.done)} of {len(self.names)} done"
        said += f", {len(self.failed)} failed" if self.failed else ""
        elsewhere = len(self.done_elsewhere) + len(self.going_elsewhere)
        said += f", {elsewhere} elsewhere" if elsewhere else ""
        said += f", {len(self.going)} going, {duration(now - self.began)} passed"
        left = self.left(now)
        return f"{said}, about {duration(left)} left" if left else said

    def left(self, now: float) -> float | None:
        """By what the runs may cost, and how fast they went since the first epoch was shown, how long the rest will
        take; None before there is anything to go by."""
        parts = dict.fromkeys(self.done, 1.0)
        parts |= {
            run: e.epoch / e.epochs for run, e in list(self.going.items()) if e is not None and "/" not in e.stage
        }
        ours = [run for run in self.names if run in self.done or run not in self.ended]
        costs = {run: self.costs.get(run, 1.0) for run in ours}
        gone = sum(costs[run] * (part - self.had.get(run, 0.0)) for run, part in parts.items())
        rest = sum(cost * (1 - parts.get(run, 0.0)) for run, cost in costs.items())
        return (now - (self.since or self.began)) * rest / gone if gone > 0 else None

    def table(self) -> "Table":
        from rich import box
        from rich.table import Table
        from rich.text import Text

        from marvel.cli.progress import in_words

        table = Table(box=box.SIMPLE_HEAD, title=self.summary(), title_justify="left", padding=(0, 1, 0, 0))
        table.add_column("run", overflow="fold")
        table.add_column("epoch", no_wrap=True)
        table.add_column("so far", overflow="fold")
        # Copies: the table is drawn by a thread of its own.
        for run, why in list(self.failed.items())[-NEWEST:]:
            table.add_row(Text(self.names[run]), "", Text(f"failed: {why}"), style="red")
        for run, said in list(self.done.items())[-NEWEST:]:
            table.add_row(Text(self.names[run]), "", Text(said), style="dim")
        for run, epoch in list(self.going.items()):
            if epoch is not None:
                table.add_row(Text(self.names[run]), _place(epoch), Text(in_words(epoch.metrics)))
        return table


def _place(epoch: "Epoch | None") -> str:
    if epoch is None:
        return ""
    inner = epoch.stage.partition("/")[2]
    return f"{inner} {epoch.epoch}/{epoch.epochs}".strip()
