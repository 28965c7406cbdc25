"""What a criterion found in a loop of one's own, as a run folder."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from marvel.clean import cut, write_report
from marvel.clean.findings import Findings, Issue, suspects
from marvel.config import as_plain
from marvel.data.origin import Origin
from marvel.distributed import writes_files
from marvel.errors import InvalidInput, amount
from marvel.issues import NOT_OF_TRAINING
from marvel.loop.dataset import Own, read_own
from marvel.loop.keep import is_kept, make_room
from marvel.loop.looks import looks_of
from marvel.method import Method
from marvel.methods import METHODS
from marvel.run import curves_of, environment
from marvel.runs import Facts, RunFolder

KEPT = 2000
"""How many instances are kept to be looked at, where the data itself cannot be asked later."""


@dataclass(frozen=True)
class Saved:
    """What was found, and where it was written."""

    folder: Path
    issues: list[Issue]
    """The list, the most suspect first."""
    report: Path | None

    def __repr__(self) -> str:
        """A line for whoever looks at it, in a notebook for one; `issues` has the list."""
        listed = amount(len(self.issues), "label")
        return f"Saved({listed} listed, how many are wrong is not estimated, in {self.folder})"


def save_run(
    folder: str | Path,
    criterion: Method,
    data: Any,
    *,
    labels: Any = None,
    classes: Sequence[str] | Mapping[int, str] | None = None,
    ids: Sequence[str] | None = None,
    name: str | None = None,
    top: int | None = None,
    keep: int = KEPT,
    replace: bool = False,
    report: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Saved:
    """Write what `criterion` found to a run folder, after a loop of your own: issues.csv, report.html and what
    `marvel review` and `marvel export` need.

    data      what was trained on, in the order of the indices: a dataset, a pair (x, y), or `marvel.data.load(...)`
    labels    the given labels, where the dataset does not say them
    classes   the classes' names, or a dict from their numbers; by default those the dataset has, or 0, 1, ...
    ids       the instances' own names; by default their files, the rows of a DataFrame, or 0, 1, ...
    name      what the report calls the data
    top       list this many labels; by default those that were removed
    keep      how many instances to keep a picture or the fields of, the most suspect first, for data without files
    replace   forget the run that the folder holds; decisions made in a review stay
    settings  more to say under "settings" in the report: learning rate, network, ...

    The list makes no claim how many of its labels are wrong: that takes labels flipped on purpose, as `marvel clean`
    does. Of several processes each may call it, and the first one writes.
    """
    cut.check(None, top)
    if criterion.epoch < 2:
        raise InvalidInput("the criterion has seen no epoch: call criterion.step() at the end of each")
    place = RunFolder(folder)
    own = read_own(data, criterion.n, criterion.classes, labels, classes, ids, place.path.name)
    own = own if name is None else dataclasses.replace(own, name=name)
    _check_given(criterion, own)
    columns, ranked = _columns(criterion, own)
    suspect = suspects(columns["removed_at"] > 0, columns["quality"])
    listed = ranked[suspect[ranked]] if top is None else ranked[:top]
    columns |= {"flagged": np.isin(np.arange(criterion.n), listed)}
    findings, page = Findings(columns, own.classes, listed), None
    if writes_files():
        kept = is_kept(place, criterion)
        if not kept:
            make_room(place, replace)
            place.cut_metrics(0)  # of a loop that did not end
        origin = own.origin or _keep_looks(place, own, listed, ranked, keep)
        lines = place.metrics() if kept else []
        _write(place, criterion, own, origin, findings, top, lines, dict(settings or {}))
        page = write_report(place) if report and origin is not None else None
    return Saved(place.path, findings.issues(), page)


def _check_given(criterion: Method, own: Own) -> None:
    """Labels that the training cannot have had would be listed with suggestions that mean nothing."""
    strangers = int(criterion.strangers(torch.from_numpy(own.labels)).sum())
    if strangers and own.by_alphabet:
        raise InvalidInput(
            f"labels that are words are numbered in the order of the alphabet, {', '.join(own.classes[:5])}"
            f"{', ...' if len(own.classes) > 5 else ''}, and those of the training were not: say the classes in the "
            "order of their numbers with classes=..."
        )
    if strangers:
        warnings.warn(NOT_OF_TRAINING.format(strangers), stacklevel=3)


def _columns(criterion: Method, own: Own) -> tuple[dict[str, Any], npt.NDArray[np.int64]]:
    """Those of instances.parquet, and all instances that were seen or removed, the most suspect first."""
    n = criterion.n
    told = ("quality", "label_quality", "weight", "removed_at", "epochs_seen", "suggested")
    known = {name: getattr(criterion, name).cpu().numpy() for name in told}
    seen, removed = known["epochs_seen"] > 0, known["removed_at"] > 0
    quality, label_quality = (np.where(seen, known[name], np.nan) for name in ("quality", "label_quality"))
    columns = {
        "index": np.arange(n),
        "row": np.arange(n) if own.origin is None else own.origin.rows,
        "id": np.array(own.ids, dtype=object),
        "given": own.labels,
        "suggested": np.where(known["suggested"] == own.labels, -1, known["suggested"]),
        "quality": quality,
        "label_quality": label_quality,
        "weight": known["weight"],
        "removed_at": known["removed_at"],
        "epochs_seen": known["epochs_seen"],
        "wrong_probability": np.full(n, np.nan),
        "canary": np.zeros(n, dtype=bool),
    }
    if criterion.returned_at is not None:
        columns["returned_at"] = criterion.returned_at.cpu().numpy()
    # What was removed before it was ever seen comes first.
    order = np.argsort(np.where(seen, quality, -np.inf), kind="stable")
    return columns, order[(seen | removed)[order]]


def _keep_looks(folder: RunFolder, own: Own, listed: Any, ranked: Any, keep: int) -> Origin | None:
    """Keep what the most suspect instances look like: first the list, then the others."""
    chosen = np.concatenate([listed, ranked[~np.isin(ranked, listed)]])[: max(0, keep)].tolist()
    if not chosen:
        return None
    found = list(looks_of(own.instance, chosen, own.columns))
    folder.write_shown(chosen, [look.picture for look in found], [look.fields for look in found])
    return Origin("kept", str(folder.shown_file.resolve())).at(np.arange(len(own.labels)))


def _write(
    folder: RunFolder,
    criterion: Method,
    own: Own,
    origin: Origin | None,
    findings: Findings,
    top: int | None,
    lines: list[Facts],
    settings: dict[str, Any],
) -> None:
    key = next((key for key, kind in METHODS.items() if type(criterion) is kind), type(criterion).__name__)
    epochs = criterion.epoch - 1
    facts: Facts = {
        "config": as_plain({"data": own.name, "method": key, "epochs": epochs, **settings}),
        "data": {
            "name": own.name,
            "n": len(own.labels),
            "classes": list(own.classes),
            "fingerprint": own.fingerprint(),
        },
        "noise": {"name": "none"},
        "environment": environment(criterion.weight.device),
        "loop": True,
    }
    findings.write_issues(folder)
    folder.write_instances(findings.columns)
    folder.found = findings.facts(origin, own.set_aside, top=top, warnings=findings.warnings())
    folder.record = {
        **facts,
        "final": {
            "train_accuracy": lines[-1]["train_accuracy"] if lines else None,
            "removed": int(criterion.removed.sum()),
            "test_accuracy": None,
        },
        "chosen": criterion.chosen,
        "seconds": None,
        "curves": curves_of(lines),
        "estimate": None,
        "flagged": len(findings.listed),
    }
    # Last: a folder with settings in it holds a run.
    where = {} if origin is None else {"origin": origin.facts(), "set_aside": [asdict(one) for one in own.set_aside]}
    folder.config = {**facts, "data": {**facts["data"], **where, "notes": []}}
