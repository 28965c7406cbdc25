"""Tracking: the numbers of every epoch, as JSON lines, in TensorBoard or in Weights & Biases.

    train(config, "runs/mine", watch=watching(TensorBoard("runs/mine/tensorboard")))    # or: marvel train --track ...

    with JsonLines("metrics.jsonl") as tracker:                                         # in a loop of your own
        for epoch in range(epochs):
            ...
            tracker.log(summary(criterion, criterion.step()), epoch + 1)

A run folder has its `metrics.jsonl` without any of this.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from marvel.errors import MissingExtra, pick
from marvel.method import Method, Seen
from marvel.trainer import Epoch


class Tracker(Protocol):
    """All that is asked of one; anything with these two will do."""

    def log(self, metrics: Mapping[str, Any], epoch: int) -> None:
        """Keep what an epoch came to."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


class _Closed:
    """A tracker that `with` closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


class JsonLines(_Closed):
    """A line an epoch, added to a file. NaN and infinity, which JSON has not, are null."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def log(self, metrics: Mapping[str, Any], epoch: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(_plain({"epoch": epoch, **metrics}), allow_nan=False) + "\n")


class TensorBoard(_Closed):
    """Scalars in a folder for `tensorboard --logdir`."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("TensorBoard", "tensorboard", "tracking") from None
        self.folder, self.make = Path(folder), SummaryWriter
        self.writer: Any = None

    def log(self, metrics: Mapping[str, Any], epoch: int) -> None:
        if self.writer is None:
            # What an interrupted run wrote after the checkpoint it goes on from is taken back.
            self.writer = self.make(str(self.folder), purge_step=epoch)
        for name, value in numbers(metrics).items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class WeightsAndBiases(_Closed):
    """A run of Weights & Biases: on this disk, for `wandb sync`, unless `mode` or WANDB_MODE says "online"."""

    def __init__(
        self,
        folder: str | Path,
        project: str = "marvel",
        config: Mapping[str, Any] | None = None,
        mode: str | None = None,
    ) -> None:
        try:
            import wandb
        except ImportError:
            raise MissingExtra("Weights & Biases", "wandb", "tracking") from None
        self.folder, self.start = Path(folder), wandb.init
        mode = mode or os.environ.get("WANDB_MODE", "offline")
        self.settings: dict[str, Any] = {"project": project, "name": self.folder.name, "mode": mode}
        self.settings["config"] = dict(config or {})
        self.run: Any = None

    def log(self, metrics: Mapping[str, Any], epoch: int) -> None:
        if self.run is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.run = self.start(dir=str(self.folder), **self.settings)
        # Not as its `step`, which may never go back: the epochs of a training that comes before count from 1 as well.
        self.run.log({"epoch": epoch, **numbers(metrics)})

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()


def tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """The one of that name, for the run in the folder."""
    known: dict[str, Callable[[], Tracker]] = {
        "tensorboard": lambda: TensorBoard(folder / "tensorboard"),
        "wandb": lambda: WeightsAndBiases(folder, config=config),
    }
    return pick("tracker", name, known)()


def watching(*trackers: Tracker) -> Callable[[Epoch], None]:
    """What `marvel.run.train` takes as `watch`. Trainings that come before are logged under their names."""

    def watch(epoch: Epoch) -> None:
        stage = epoch.stage.partition("/")[2]
        metrics = {name: value for name, value in epoch.metrics.items() if name != "epoch"}
        for each in trackers:
            each.log({stage: metrics} if stage else metrics, epoch.epoch)

    return watch


def summary(criterion: Method, seen: Seen) -> dict[str, float]:
    """An epoch in two numbers: how many instances are removed, and the accuracy on the given labels."""
    right = (seen.margin > 0)[seen.mask].float().mean()
    return {"removed": int(criterion.removed.sum()), "train_accuracy": float(right)}


def numbers(metrics: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """What can be drawn as a curve: the numbers, those of tables inside as `margin/median`; lists are left out."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        value = _number(value)
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found


def _number(value: Any) -> Any:
    """The number in a tensor or numpy scalar; all else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _plain(value: Any) -> Any:
    """As JSON has it."""
    value = _number(value)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
