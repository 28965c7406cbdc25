"""The suspects of a run, the most suspect first, with what was decided about them; asked for page by page.

Everything known of an instance is a number in an array, so that a million of them are filtered in milliseconds.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marvel.errors import FolderError, InvalidInput
from marvel.report.page import any_known, as_list
from marvel.report.ranking import Indices, ranked, suspects
from marvel.review.decisions import ACTIONS, Change, Decisions, Entry
from marvel.runs import Facts, RunFolder

COLUMNS = (
    *("id", "given", "suggested", "quality", "label_quality", "wrong_probability", "removed_at", "returned_at"),
    *("flagged", "canary"),
)
UNDECIDED = 0
CODES = {action: code for code, action in enumerate(ACTIONS, 1)}
STATES = ("undecided", "decided", "any", *ACTIONS)
SCOPES = ("listed", "all")
PAIRS = 200
"""How many pairs of classes can be chosen from; the most frequent ones."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Filter:
    """Which instances to look at: those listed or all, of which labels, how probably wrong, decided or not."""

    scope: str = "listed"
    state: str = "undecided"
    given: int | None = None
    suggested: int | None = None
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.scope not in SCOPES or self.state not in STATES:
            raise InvalidInput(
                f"scope is one of {', '.join(SCOPES)} and state one of {', '.join(STATES)}, given {self}"
            )


class Suspects:
    """What a run says of its instances, and `decisions` of them."""

    def __init__(self, folder: RunFolder, decisions: Decisions) -> None:
        config, columns = folder.config, folder.instances(COLUMNS)
        if config is None or "id" not in columns:
            raise FolderError(f"{folder.path} is not a run on your own data, so there is nothing to review in it")
        self.folder, self.decisions, self.lock = folder, decisions, threading.Lock()
        self.classes: list[str] = config["data"]["classes"]
        self.ids = columns["id"]
        self.given, self.suggested = columns["given"], columns["suggested"]
        self.quality, self.removed_at = columns["quality"], columns["removed_at"]
        n = len(self.given)
        self.returned_at = columns.get("returned_at", np.zeros(n, dtype=np.int16))
        self.probability = columns.get("wrong_probability", np.full(n, np.nan)).astype(np.float64)
        self.estimated = bool(np.isfinite(self.probability).any())
        everything = ranked(columns)
        self.orders: dict[str, Indices] = {"listed": suspects(columns, everything), "all": everything}
        self.margins = folder.margins(self.orders["listed"])
        self.place = {int(index): place for place, index in enumerate(self.orders["listed"])}

        self.action = np.zeros(n, dtype=np.int8)
        self.label = np.full(n, -1, dtype=np.int64)
        self.version = np.zeros(n, dtype=np.int64)
        self.position = 0
        self.refresh()

    def refresh(self) -> None:
        """Learn what was decided since, by whomever."""
        with self.lock:
            for entry in self.decisions.since(self.position):
                self.action[entry.index] = UNDECIDED if entry.action is None else CODES[entry.action]
                self.label[entry.index] = -1 if entry.label is None else entry.label
                self.version[entry.index] = entry.version
                self.position = entry.position

    # ------------------------------------------------------------ asking

    def page(self, wanted: Filter, after: int = 0, limit: int = 60) -> Facts:
        """The next `limit` instances after that rank, and how many there are in all. Ranks count from 1."""
        order = self.orders[wanted.scope]
        matching = self.matching(wanted)
        ranks = np.flatnonzero(matching[after:])[:limit] + after + 1
        return {
            "total": int(matching.sum()),
            "left": int((matching & (self.action[order] == UNDECIDED)).sum()),
            "items": [self.item(int(order[rank - 1]), int(rank)) for rank in ranks],
        }

    def matching(self, wanted: Filter) -> Mask:
        """For each instance of the scope, in its order, whether it is wanted."""
        order = self.orders[wanted.scope]
        mask = np.ones(len(order), dtype=bool)
        for label, labels in ((wanted.given, self.given), (wanted.suggested, self.suggested)):
            if label is not None:
                mask &= labels[order] == label
        if self.estimated and (wanted.low > 0 or wanted.high < 1):
            probability = self.probability[order]
            mask &= (probability >= wanted.low) & (probability <= wanted.high)
        action = self.action[order]
        if wanted.state == "undecided":
            mask &= action == UNDECIDED
        elif wanted.state == "decided":
            mask &= action != UNDECIDED
        elif wanted.state != "any":
            mask &= action == CODES[wanted.state]
        return mask

    def item(self, index: int, rank: int) -> Facts:
        return {
            "index": index,
            "rank": rank,
            "id": str(self.ids[index]),
            "given": int(self.given[index]),
            "suggested": int(self.suggested[index]) if self.suggested[index] >= 0 else None,
            "quality": _known(self.quality[index], 3),
            "probability": _known(self.probability[index], 4),
            "removed_at": int(self.removed_at[index]),
            "returned_at": int(self.returned_at[index]),
            **self.state(index),
        }

    def state(self, index: int) -> Facts:
        code = int(self.action[index])
        return {
            "version": int(self.version[index]),
            "action": None if code == UNDECIDED else list(ACTIONS)[code - 1],
            "label": int(self.label[index]) if self.label[index] >= 0 else None,
        }

    def margins_of(self, index: int) -> list[float | None]:
        """By epoch; [] where none are kept, as of labels that were flipped on purpose."""
        place = self.place.get(index)
        margins = as_list(self.folder.margins([index])[:, 0] if place is None else self.margins[:, place])
        return margins if any_known(margins) else []

    def progress(self) -> Facts:
        """Of those listed: how many there are, and how many were decided in which way."""
        counts = np.bincount(self.action[self.orders["listed"]], minlength=len(CODES) + 1)
        return {
            "listed": len(self.orders["listed"]),
            "decided": int(counts[1:].sum()),
            "actions": {action: int(counts[code]) for action, code in CODES.items()},
            "position": self.position,
        }

    def pairs(self) -> list[Facts]:
        """The most frequent pairs of given and suggested label among those listed, and how many are undecided."""
        order = self.orders["listed"]
        order = order[self.suggested[order] >= 0]
        joined = self.given[order].astype(np.int64) * len(self.classes) + self.suggested[order]
        total = Counter(joined.tolist())
        left = Counter(joined[self.action[order] == UNDECIDED].tolist())
        return [
            {
                "given": pair // len(self.classes),
                "suggested": pair % len(self.classes),
                "count": count,
                "left": left[pair],
            }
            for pair, count in total.most_common(PAIRS)
        ]

    # ------------------------------------------------------------ deciding

    def decide(self, changes: Sequence[Change], who: str) -> list[Entry]:
        """Write decisions, after seeing that they can be meant."""
        entries = self.decisions.decide([self.checked(change) for change in changes], who)
        self.refresh()
        return entries

    def checked(self, change: Change) -> Change:
        """The change, an accepted label filled in."""
        self.check(change.index)
        if change.action == "accept":
            label = int(self.suggested[change.index])
            if label < 0:
                raise InvalidInput(f"instance {change.index} has no suggested label to accept")
            return Change(change.index, "accept", label, change.version)
        if change.label is not None and not 0 <= change.label < len(self.classes):
            raise InvalidInput(f"labels are numbered 0..{len(self.classes) - 1}, given {change.label}")
        return change

    def check(self, index: int) -> None:
        if not 0 <= index < len(self.given):
            raise InvalidInput(f"instances are numbered 0..{len(self.given) - 1}, given {index}")

    def undo(self, who: str) -> list[Entry]:
        entries = self.decisions.undo(who)
        self.refresh()
        return entries


def _known(value: float, digits: int) -> float | None:
    return round(float(value), digits) if np.isfinite(value) else None
