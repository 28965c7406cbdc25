"""Classes from labels as they come, text or numbers, with some missing; and the names of instances."""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marvel.errors import DataError

MISSING = {"", "nan", "null", "na", "n/a", "#n/a", "<na>"}
"""Texts that stand for no label, whatever their case. "none" is not among them: people have classes of that name."""

FEW = 10
"""Instances a class should have; with fewer on average a note says so."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Numbers of classes, -1 where the label is missing."""

    y: npt.NDArray[np.int64]
    classes: tuple[str, ...]

    @property
    def names(self) -> list[str | None]:
        """What each label is called; None where it is missing."""
        return [self.classes[number] if number >= 0 else None for number in self.y.tolist()]


def class_name(value: object) -> str | None:
    """The name of a label, None where it is missing."""
    text = cell_text(value)
    return None if text is None or text.lower() in MISSING else text


def cell_text(value: object) -> str | None:
    """A cell as text, a whole number without a point; None where it is empty."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)
    return None if value is None else str(value).strip() or None


def number_labels(values: Iterable[object]) -> Labels:
    """The classes are the labels that occur: in the order of numbers where all are numbers, else of the alphabet."""
    names = [class_name(value) for value in values]
    classes = tuple(sorted({name for name in names if name is not None}, key=class_order))
    place = {name: number for number, name in enumerate(classes)}
    return Labels(np.array([-1 if name is None else place[name] for name in names], dtype=np.int64), classes)


def class_order(name: str) -> tuple[bool, float, str]:
    """Numbers before words; -1, 2, 10 and not -1, 10, 2."""
    try:
        number = float(name)
    except ValueError:
        return True, 0.0, name
    return (False, number, name) if math.isfinite(number) else (True, 0.0, name)


def check_classes(what: str, y: Sequence[int] | npt.NDArray[np.int64], classes: Sequence[str]) -> list[str]:
    """Refuse labels that are no classes, and say what should be known about those that are."""
    numbers = np.asarray(y, dtype=np.int64)
    counts = np.bincount(numbers[numbers >= 0], minlength=len(classes))
    n, present = int(counts.sum()), int((counts > 0).sum())
    if n == 0:
        raise DataError(f"{what}: no instance has a label")
    if present == 1:
        only = classes[int(counts.argmax())]
        raise DataError(f"{what}: all {n} instances are labelled '{only}'; there must be at least two classes")
    if present > max(FEW, n // 2):
        raise DataError(
            f"{what}: {present} different labels for {n} instances are no classes; "
            "merge them, or --label names another column"
        )
    notes = []
    if present * FEW > n:
        notes.append(
            f"{what}: {present} classes for {n} instances are few to learn from, under {FEW} for each; "
            "merge classes or add instances, and trust what is found less"
        )
    for number, how in ((0, "no instance"), (1, "one instance")):
        rare = [name for name, count in zip(classes, counts) if count == number]
        if rare:
            named = ", ".join(rare[:5]) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
            notes.append(f"{what}: {how} of {named}; nothing can be learned about a class like that")
    alike = _alike([name for name, count in zip(classes, counts) if count])
    if alike:
        named = ", ".join(alike[:3]) + (f" and {len(alike) - 3} more" if len(alike) > 3 else "")
        notes.append(
            f"{what}: {named} differ in spelling only, and count as classes of their own; write one as the other"
        )
    return notes


def _alike(names: Sequence[str]) -> list[str]:
    """Names that people may mean the same by: "True" and "TRUE", "1" and "1.0", the two ways to write an accent."""
    groups: dict[object, list[str]] = {}
    for name in names:
        word, number, _ = class_order(name)
        same = " ".join(unicodedata.normalize("NFKC", name).casefold().split()) if word else number
        groups.setdefault(same, []).append(f"'{name}'")
    return [" and ".join(group) for group in groups.values() if len(group) > 1]


def check_ids(what: str, ids: Sequence[str | None]) -> None:
    """Ids that cannot tell instances apart are refused."""
    first: dict[str, int] = {}
    for row, id in enumerate(ids):
        if id is None:
            raise DataError(f"{what} must name every instance, and is empty in row {row}")
        if first.setdefault(id, row) != row:
            raise DataError(f"{what} must name each instance differently: '{id}' is in rows {first[id]} and {row}")
