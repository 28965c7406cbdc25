"""What a label becomes: the decisions of a review, and suggestions that are accepted without one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from marvel.data.corrections import UNREVIEWED, left_out
from marvel.data.origin import Origin
from marvel.errors import DataError, FolderError, InvalidInput
from marvel.review.decisions import Decision, read_decisions
from marvel.runs import RunFolder

EARLIER = "earlier"
"""The action of a label that a person has decided on before the run: the corrections it began with say so."""


@dataclass(frozen=True)
class Line:
    """One decision, in words; `corrected` is None where the instance is set aside."""

    id: str
    row: int
    given: str
    corrected: str | None
    action: str


@dataclass(frozen=True)
class Decided:
    """All of a run's labels after the decisions, by the row of the source."""

    origin: Origin
    classes: tuple[str, ...]
    given: dict[int, str]
    """The labels the run was given, of all its training instances."""
    corrected: dict[int, str]
    """What they become; rows that are set aside are in it no more."""
    aside: dict[int, str]
    """Row -> why: decided so, or never trained on."""
    lines: list[Line]
    ids: dict[int, str] = field(default_factory=dict)
    """Of training instances and of what was set aside."""
    undecided: int = 0
    relabelled: bool = False
    """Whether the run had corrections, so that its given labels differ from those of the source."""
    left: frozenset[int] = frozenset()
    """Rows that these corrections leave out."""
    settled: frozenset[int] = frozenset()
    """Rows that a person decided on before, by these corrections: only another decision moves them."""
    source: dict[int, str | None] = field(default_factory=dict)
    """What the rows are called in the source, of all that `label_of` was asked about."""
    listed: int = 0
    """How many suspects the run lists."""

    def label_of(self, row: int, name: str | None) -> str | None:
        """What the label of a row becomes that is called `name` in the source; None where it is set aside."""
        self.source[row] = name
        if row in self.aside:
            return None
        if row in self.given and not self.relabelled and name != self.given[row]:
            raise FolderError(
                f"{self.origin.path} has changed since the run: row {row} was labelled '{self.given[row]}' "
                f"and is '{name}'; bring it back, or run again"
            )
        return self.corrected.get(row, name)

    def all_lines(self) -> list[Line]:
        """The decisions, and the corrections that the run began with, beside the labels of the source: whoever applies
        them to the source has the labels as they are now. To be asked when the data is written."""
        lines = {one.row: one for one in self.lines}
        if self.relabelled:
            for row, name in self.source.items():
                before = self.given.get(row)
                if row in lines:
                    lines[row] = replace(lines[row], given=name or "")
                elif row in self.left:
                    lines[row] = Line(self.ids[row], row, name or "", None, "aside")
                elif before is not None and (before != name or row in self.settled):
                    action = EARLIER if row in self.settled else UNREVIEWED
                    lines[row] = Line(self.ids[row], row, name or "", before, action)
        return [lines[row] for row in sorted(lines)]

    def before(self) -> int:
        """How many labels the corrections that the run began with have changed, and that stay so. To be asked when the
        data is written."""
        ours = ((row, name) for row, name in self.source.items() if row in self.given)
        return sum(name != self.given[row] == self.corrected.get(row) for row, name in ours)

    def check_ids(self, ids: Sequence[str]) -> None:
        """The rows of the source are those of the run still, by their ids."""
        for row in self.given:
            if self.ids[row] != ids[row]:
                raise FolderError(
                    f"{self.origin.path} has changed since the run: row {row} was '{self.ids[row]}' and is "
                    f"'{ids[row]}'; bring it back, or run again"
                )

    def check_rows(self, n: int) -> None:
        """The source has all the rows of the run."""
        last = max(self.given, default=-1)
        if last >= n:
            raise FolderError(
                f"{self.origin.path} has changed since the run: it has {n} rows, and the run saw row {last}"
            )


def decided(folder: RunFolder, accept_all: bool = False, accept_above: float | None = None) -> Decided:
    """The labels of the run in `folder` after what was decided about them."""
    config = folder.config
    if config is None:
        raise FolderError(f"there is no run in {folder.path}: name the folder that clean or train wrote")
    earlier = config["config"].get("corrections")
    if earlier is not None and config["config"].get("hold_out"):
        # It does not know these rows, and their labels would fall back to those of the source without a word.
        raise FolderError(
            f"{folder.path} had --corrections and --hold-out, and does not hold the corrected labels of what was held "
            "out: run again without --hold-out to export"
        )
    origin, classes, set_aside, settled = _source(folder, config)
    columns = folder.instances()
    n = len(columns["index"])
    if accept_above is not None and not 0 <= accept_above <= 1:
        raise InvalidInput(f"accept_above is a probability, from 0 to 1, got {accept_above}")
    if accept_all and accept_above is not None:
        raise InvalidInput("accept_all takes every suggestion and accept_above some of them: give one of the two")
    decisions = read_decisions(folder.decisions_file, of=str(config["data"].get("fingerprint") or ""))
    # Where a run lists nothing there is nothing to look at either: its labels are as they shall be.
    to_decide = "flagged" not in columns or columns["flagged"].any()
    if to_decide and not decisions and not accept_all and accept_above is None:
        above = " or --accept-above 0.9" if np.isfinite(_probabilities(columns)).any() else ""
        raise InvalidInput(
            f"nothing was decided in {folder.path}: look at the suspects with marvel review {folder.path}, "
            f"or accept suggestions unreviewed with --accept-all{above}"
        )
    rows, ids, given, suggested = (columns[name].tolist() for name in ("row", "id", "given", "suggested"))
    _check(folder, classes, n, given, rows, decisions.values())
    flagged, accepted = _accepted(columns, accept_all, accept_above)

    corrected = {row: classes[label] for row, label in zip(rows, given)}
    before = dict(corrected)
    aside = {one["row"]: one["reason"] for one in set_aside if one.get("row") is not None}
    lines, undecided = [], 0
    for index, row in enumerate(rows):
        if index in decisions:
            action, label = decisions[index].action, _chosen(decisions[index], given[index])
        elif row in settled:
            continue
        elif accepted[index] and suggested[index] != given[index] and 0 <= suggested[index] < len(classes):
            action, label = UNREVIEWED, suggested[index]
        else:
            undecided += bool(flagged[index])
            continue
        if label is None:
            aside[row] = "set aside in the review"
            del corrected[row]
        else:
            corrected[row] = classes[label]
        lines.append(Line(ids[index], row, before[row], corrected.get(row), action))
    reason = None if earlier is None else left_out(Path(earlier).name)
    left = frozenset(row for row, why in aside.items() if why == reason)
    named = {one["row"]: one["id"] for one in set_aside if one.get("row") is not None} | dict(zip(rows, ids))
    return Decided(
        origin,
        classes,
        before,
        corrected,
        aside,
        lines,
        named,
        undecided,
        relabelled=earlier is not None,
        left=left,
        settled=settled,
        listed=int(flagged.sum()),
    )


def _chosen(decision: Decision, given: int) -> int | None:
    """The label that was decided for an instance; None: it is set aside."""
    return {"keep": given, "aside": None}.get(decision.action, decision.label)


def _source(
    folder: RunFolder, config: dict[str, Any]
) -> tuple[Origin, tuple[str, ...], list[dict[str, Any]], frozenset[int]]:
    """Where the data came from, the names of its classes, what was never trained on, and rows that were decided on."""
    data = config.get("data")
    if not isinstance(data, dict) or not isinstance(config.get("config"), dict):
        raise FolderError(f"{folder.path} holds a config.json that is not of a run")
    if config["config"].get("noise", "none") != "none":
        raise InvalidInput(
            f"the run in {folder.path} made labels wrong on purpose (noise): there is nothing to correct"
        )
    if data.get("origin") is None:
        raise InvalidInput(
            f"the run in {folder.path} was on '{data.get('name')}', which did not come from a file or folder of yours"
        )
    try:
        classes, settled = tuple(map(str, data["classes"])), frozenset(data.get("decided", ()))
        return Origin.of(data["origin"]), classes, list(data.get("set_aside", [])), settled
    except (DataError, KeyError, TypeError) as error:
        raise FolderError(f"{folder.path} holds a damaged config.json: {error}") from None


def _check(folder: RunFolder, classes: tuple[str, ...], n: int, given: Any, rows: Any, decisions: Any) -> None:
    """That the files of the run folder belong together."""
    wrong = [one.index for one in decisions if not 0 <= one.index < n]
    wrong += [one.index for one in decisions if one.label is not None and not 0 <= one.label < len(classes)]
    if wrong:
        raise FolderError(f"{folder.decisions_file} decides about instance {wrong[0]} in a way this run has not")
    if any(not 0 <= label < len(classes) for label in given) or len(set(rows)) != n or min(rows, default=0) < 0:
        raise FolderError(f"{folder.path} is damaged: instances.parquet and config.json do not belong together")


def _probabilities(columns: dict[str, Any]) -> Any:
    """How probably each label is wrong; NaN where the run makes no claim."""
    return np.array(columns.get("wrong_probability", np.full(len(columns["index"]), np.nan)), dtype=np.float64)


def _accepted(columns: dict[str, Any], accept_all: bool, above: float | None) -> tuple[Any, Any]:
    """Which labels are flagged, and for which of them the suggestion is accepted."""
    # A run of `marvel train` has no list of issues: there, what was removed is flagged.
    flagged = columns["flagged"].astype(bool) if "flagged" in columns else columns["removed_at"] > 0
    if accept_all:
        return flagged, flagged
    if above is None:
        return flagged, np.zeros(len(flagged), dtype=bool)
    probability = _probabilities(columns)
    if np.isnan(probability).all():
        raise InvalidInput("this run makes no claim how probably a label is wrong: --accept-all takes all it flagged")
    return flagged, flagged & (np.nan_to_num(probability, nan=-1.0) > above)
