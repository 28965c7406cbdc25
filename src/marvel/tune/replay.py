"""Any warm-up and wait, replayed on the ledger of a run: what MARVEL would have removed, without training.

The margins of a run without removals are those MARVEL would have seen until its first removal takes effect, in the
epoch after it. So the first removal is told exactly; what comes after it only as far as removals change little. A run
with removals has another history from then on, and is refused beyond its first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marvel import metrics
from marvel.errors import FolderError, InvalidInput, amount
from marvel.runs import Facts, RunFolder
from marvel.warmup import automatic

NEVER = 0


@dataclass(frozen=True)
class Replayed:
    """What a warm-up and a wait would have removed: in the first epoch of removals, and until the end of the ledger."""

    warmup: int
    wait: int
    first: int | None
    """The epoch of the first removal; None where nothing is removed."""
    removed_first: int
    removed: int
    label_precision_first: float | None
    label_recall_first: float | None
    label_precision: float | None
    label_recall: float | None

    def facts(self) -> Facts:
        return dict(vars(self))


def replay(margins: Iterable[tuple[int, Tensor]], warmup: int, waits: Sequence[int]) -> dict[int, Tensor]:
    """By wait, the epoch each instance is removed in (n,), 0: never. `margins`: (epoch, (n,) with NaN where unseen)."""
    streak: Tensor | None = None
    removed_at: dict[int, Tensor] = {}
    for epoch, margin in margins:
        if streak is None:
            streak = torch.zeros(len(margin), dtype=torch.int64)
            removed_at = {wait: torch.zeros(len(margin), dtype=torch.int64) for wait in waits}
        if epoch <= warmup:
            continue
        seen = ~margin.isnan()
        streak = torch.where(seen, torch.where(margin < 0, streak + 1, 0), streak)
        for wait, at in removed_at.items():
            at[seen & (streak >= wait) & (at == NEVER)] = epoch
    if streak is None:
        raise InvalidInput("there is no margin to replay")
    return removed_at


def replay_folder(
    folder: str | RunFolder, waits: Sequence[int], warmups: Sequence[int] | None = None, until: int | None = None
) -> list[Replayed]:
    """The same of a run folder; `warmups` default to the run's own, or to what "auto" would have chosen on it."""
    run = RunFolder(folder) if isinstance(folder, str) else folder
    if not waits or min(waits) < 1:
        raise InvalidInput(f"a wait is at least 1 epoch, got {list(waits)}")
    if warmups is not None and (not warmups or min(warmups) < 0):
        raise InvalidInput(f"a warm-up is at least 0 epochs, got {list(warmups)}")
    margins = [(epoch, kept["margin"].float()) for epoch, kept in run.ledger() if until is None or epoch <= until]
    if not margins:
        raise FolderError(f"{run.path} has no ledger to replay: train with --ledger")
    if [epoch for epoch, _ in margins] != list(range(1, len(margins) + 1)):
        raise FolderError(f"the ledger of {run.path} has gaps: train again with --ledger from the first epoch on")
    refuse_removals(run, len(margins))
    right = clean_of(run)
    found = []
    for warmup in warmups if warmups is not None else [warmup_of(run)]:
        for wait, removed_at in replay(margins, warmup, waits).items():
            found.append(summary(warmup, wait, removed_at.numpy(), right))
    return found


def refuse_removals(run: RunFolder, last: int) -> None:
    """Removals of the last epoch are no matter: they take effect in the next."""
    for line in run.metrics()[:last]:
        if line["removed"] and (line["epoch"] < last or _at_once(run)):
            raise FolderError(
                f"{run.path} removed {amount(line['removed'], 'instance')} by epoch {line['epoch']}: its margins after "
                "it are not those of a run without removals; replay a run of ce, or only up to there with "
                f"--until {line['epoch'] - _at_once(run)}"
            )


def _at_once(run: RunFolder) -> bool:
    """Whether its removals acted within their epoch."""
    return bool(run.config and run.config["config"]["options"].get("immediate", False))


def warmup_of(run: RunFolder) -> int:
    """The run's own; where it has none, what "auto" would have chosen on its curve."""
    lines, facts = run.metrics(), run.config
    if lines and "warmup" in lines[-1]:
        return int(lines[-1]["warmup"])
    if facts is None:
        raise FolderError(f"{run.path} is no run folder: there is no config.json in it")
    found = automatic([line["train_accuracy"] for line in lines], facts["config"]["epochs"], facts["data"]["n"])
    if found is None:
        raise InvalidInput(f"the training accuracy of {run.path} has not levelled off: say --warmup N")
    return found


def clean_of(run: RunFolder) -> "np.ndarray[tuple[int], np.dtype[np.bool_]] | None":
    """Which labels are right, where that is known and the run is done."""
    try:
        columns = run.instances()
    except FolderError:
        return None
    return columns["given"] == columns["clean"] if "clean" in columns else None


def summary(
    warmup: int,
    wait: int,
    removed_at: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    right: "np.ndarray[tuple[int], np.dtype[np.bool_]] | None",
) -> Replayed:
    removed = removed_at > 0
    first = int(removed_at[removed].min()) if removed.any() else None
    at_first = removed_at == (first or -1)
    numbers: list[float | None] = [None] * 4
    if right is not None:
        numbers = [
            metrics.label_precision(at_first, right),
            metrics.label_recall(at_first, right),
            metrics.label_precision(removed, right),
            metrics.label_recall(removed, right),
        ]
    return Replayed(warmup, wait, first, int(at_first.sum()), int(removed.sum()), *numbers)
