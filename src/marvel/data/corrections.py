"""Corrected labels as a table, read back onto the data they were made for.

id         of the instance, or
row        of it in the source, where there is no column `id`
given      the label it had; optional, and checked where it is there
corrected  the label it gets
action     "aside" leaves the instance out, "unreviewed" says that nobody looked at it; optional
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from marvel.data.classes import check_classes
from marvel.data.core import Data
from marvel.data.csv_text import unguarded
from marvel.data.origin import Origin, SetAside
from marvel.data.tables import CORRECTED, PARQUETS, TEXTS, open_table
from marvel.errors import InvalidInput, UnknownName, amount

CORRECTIONS = "corrections.csv"
"""What an export calls it, beside the data or in its folder."""
UNREVIEWED = "unreviewed"
"""The action of a label that was corrected without a look at it; all others a person has decided on."""
HEADING = ("id", "row", "given", "corrected", "action")


def are_corrected(origin: Origin | None) -> bool:
    """Whether the labels are what an export made of others: it names the column so, or leaves a file beside them."""
    if origin is None or origin.kind in ("table", "paths", "huggingface"):
        return origin is not None and CORRECTED.search(origin.label or "") is not None
    path = Path(origin.path)
    return ((path if path.is_dir() else path.parent) / CORRECTIONS).is_file()


@dataclass(frozen=True)
class Correction:
    """One line: `key` is the id or the row, `corrected` None where the instance is left out."""

    key: str
    given: str | None
    corrected: str | None
    decided: bool


def read_corrections(path: Path) -> tuple[str, list[Correction]]:
    """("id" or "row", the lines)"""
    if not path.is_file():
        raise InvalidInput(f"there is no file of corrections at {path}")
    if path.suffix.lower() not in (*TEXTS, *PARQUETS):
        raise InvalidInput(f"corrections come from a .csv, .tsv or .parquet table, given {path}")
    table = open_table(path)
    by = next((name for name in ("id", "row") if name in table.column_names), None)
    if by is None or "corrected" not in table.column_names:
        raise InvalidInput(f"{path} needs the column corrected, and id or row; it has {', '.join(table.column_names)}")
    found = []
    for number, line in enumerate(table.to_pylist()):
        cells = {name: None if cell is None else unguarded(str(cell)) for name, cell in line.items()}
        key, corrected, action = cells[by], cells["corrected"] or None, cells.get("action")
        aside = action == "aside"
        if not key:
            raise InvalidInput(f"{path}, row {number} has no {by}")
        if corrected is None and not aside:
            raise InvalidInput(f"{path}, row {number} ({key}) says no label: fill in corrected, or action = aside")
        given, corrected = cells.get("given") or None, None if aside else corrected
        found.append(Correction(key, given, corrected, action != UNREVIEWED))
    return by, found


def correct(data: Data, path: Path) -> Data:
    """The data with the labels that the table says."""
    by, corrections = read_corrections(path)
    place = _places(data, by)
    _check(data, by, corrections, place, path)
    number = {name: label for label, name in enumerate(data.classes)}
    y, keep = data.y.clone(), torch.ones(len(data), dtype=torch.bool)
    rows, decided, late = _rows(data), [], 0
    for one in corrections:
        index = place.get(one.key)
        if index is None:  # set aside already
            late += one.corrected is not None
            continue
        if one.corrected is None:
            keep[index] = False
        else:
            y[index] = number[one.corrected]
            decided += [rows[index]] * one.decided
    changed = int((y != data.y)[keep].sum())
    left = np.flatnonzero(~keep.numpy())
    if len(left) == len(data):
        raise InvalidInput(f"{path} leaves out every instance of {data.name}: nothing is left to train on")
    check_classes(f"{data.name} after {path.name}", y[keep].numpy(), data.classes)
    labels = amount(changed, "label is", "labels are")
    note = f"{path.name}: {labels} corrected and {amount(len(left), 'instance')} left out"
    if late:
        labels = amount(late, "label is", "labels are")
        note += f"; {labels} of instances that were set aside, to no effect: mend the data itself"
    aside = _aside(data, left.tolist(), path.name)
    corrected = replace(
        data, y=y, set_aside=(*data.set_aside, *aside), decided=tuple(decided), notes=(*data.notes, note)
    )
    return corrected if not len(left) else corrected.take(keep.nonzero().squeeze(1))


def _check(data: Data, by: str, corrections: Sequence[Correction], place: Mapping[str, int], path: Path) -> None:
    """That each is of an instance of the data, or of one that is set aside, and none twice; and names known classes."""
    known_aside = {str(one.row if by == "row" else one.id) for one in data.set_aside}
    seen: set[str] = set()
    unknown: list[str] = []
    other: list[str] = []
    for one in corrections:
        if one.key in seen:
            raise InvalidInput(f"{path} corrects '{one.key}' twice")
        seen.add(one.key)
        if one.corrected is not None and one.corrected not in data.classes:
            raise UnknownName(f"class of {data.name}", one.corrected, data.classes)
        if one.key in place:
            is_now = data.classes[int(data.y[place[one.key]])]
            if one.given not in (None, is_now):
                other.append(f"'{one.key}' was '{one.given}' and is '{is_now}'")
        elif one.key not in known_aside:
            unknown.append(one.key)
    if unknown:
        told = "rows are counted from 0" if by == "row" else "give the --id with which the ids were written"
        raise InvalidInput(f"{path} corrects {_count(unknown)} not in {data.name}, e.g. '{unknown[0]}'; {told}")
    if other:
        more = f", and {len(other) - 1} more" if len(other) > 1 else ""
        raise InvalidInput(f"{path} was made for other labels: {other[0]}{more}")


def _places(data: Data, by: str) -> Mapping[str, int]:
    """Id or row -> index."""
    if by == "id" and data.ids is not None:
        names = list(data.ids)
    else:
        names = [str(row) for row in _rows(data)]
    return {name: index for index, name in enumerate(names)}


def _aside(data: Data, left: list[int], name: str) -> list[SetAside]:
    ids = data.ids or tuple(str(index) for index in range(len(data)))
    rows = _rows(data)
    return [SetAside(ids[index], left_out(name), rows[index]) for index in left]


def _rows(data: Data) -> Sequence[int]:
    """Of each instance the row in its source; of a dataset without one, the index itself."""
    return range(len(data)) if data.origin is None else data.origin.rows.tolist()


def left_out(name: str) -> str:
    """Why an instance is set aside that a table of this name leaves out."""
    return f"set aside in {name}"


def _count(names: list[str]) -> str:
    return "an instance that is" if len(names) == 1 else f"{len(names)} instances that are"
