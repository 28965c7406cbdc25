"""How far a training is: a bar on a terminal, a line now and then elsewhere. On stderr, where it is in nobody's way."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import TaskID

    from marvel.trainer import Epoch

LINES = 10
"""About how many lines a training is worth where there is no terminal."""
PATIENCE = 5.0
"""Seconds after which other work is worth one."""


class Progress:
    """Shows epochs as they pass; `with Progress() as progress: train(config, watch=progress.of("marvel"))`."""

    def __init__(self, quiet: bool = False) -> None:
        self.bars = None if quiet or not sys.stderr.isatty() else _bars()
        self.lines = not quiet and self.bars is None
        self.tasks: dict[str, TaskID] = {}
        self.told = 0.0

    def __enter__(self) -> Self:
        if self.bars is not None:
            self.bars.start()
            # Loading takes a moment too; the first training takes this bar over.
            self.tasks[""] = self.bars.add_task("", total=None, told="getting ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bars is not None:
            self.bars.stop()

    def work(self, what: str, done: int, total: int) -> None:
        """What to watch other work with, such as the reading of images."""
        if self.bars is not None and "" in self.tasks:
            self.bars.update(self.tasks[""], description=what, completed=done, total=total, told="")
        if done == 1:
            self.told = time.monotonic()
        if self.lines and time.monotonic() - self.told >= PATIENCE:
            self.told = time.monotonic()
            print(f"{what}: {done}/{total}", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """A line of its own, above the bars."""
        if self.bars is not None:
            self.bars.console.print(line, markup=False, highlight=False)
        elif self.lines:
            print(line, file=sys.stderr, flush=True)

    def of(self, name: str) -> Callable[["Epoch"], None]:
        """What to watch the training of that name with; trainings inside it get bars of their own."""

        def watch(epoch: "Epoch") -> None:
            inner = epoch.stage.partition("/")[2]
            self.show(f"{name}/{inner}" if inner else name, epoch)

        return watch

    def show(self, name: str, epoch: "Epoch") -> None:
        told = in_words(epoch.metrics)
        if self.bars is not None:
            if name not in self.tasks:
                self.tasks[name] = self.tasks.pop("") if "" in self.tasks else self.bars.add_task(name, told=told)
            now = {"description": name, "completed": epoch.epoch, "total": epoch.epochs, "told": told}
            self.bars.update(self.tasks[name], **now)
        elif self.lines and epoch.epoch * LINES // epoch.epochs > (epoch.epoch - 1) * LINES // epoch.epochs:
            print(f"{name}: epoch {epoch.epoch}/{epoch.epochs}, {told}", file=sys.stderr, flush=True)


def in_words(metrics: dict[str, Any]) -> str:
    """An epoch's numbers on half a line."""
    words = []
    if metrics.get("test_accuracy") is not None:
        words.append(f"test {metrics['test_accuracy']:.1%}")
    if metrics.get("memorisation_ratio") is not None:
        words.append(f"memorised {metrics['memorisation_ratio']:.1%}")
    return ", ".join([*words, f"removed {metrics['removed']}"])


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
