"""Files of labels: read as whole numbers, and written back in the format they came in.

    .npy    an array of whole numbers or strings
    .npz    its array `y`; written back with all other arrays, and with the labels as they were in `clean`
    .csv    the column named, or the only one; written back with all other columns
    .txt    a label a line

Labels that are not whole numbers from 0 are names: their classes are the names that occur, sorted.
"""

import csv
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marvel.errors import DataError, InvalidInput
from marvel.runs import write_atomically

FORMATS = (".npy", ".npz", ".csv", ".txt")
HEADINGS = {"label", "labels", "class", "target", "y"}
"""First lines that are taken as the heading of an only column."""


@dataclass(frozen=True, eq=False)
class LabelFile:
    """The labels of a file, with what it takes to write others in their place."""

    labels: NDArray[np.int64]
    """(n,) as whole numbers."""
    names: tuple[str, ...] | None
    """The classes' names, where labels are names."""
    format: str
    content: Any
    """The file: an array, the arrays of an archive, or rows of text."""
    column: int = 0
    heading: bool = False

    @property
    def classes(self) -> int:
        """How many classes there must be, at the least."""
        return len(self.names) if self.names else max(2, int(self.labels.max()) + 1)

    def write(self, path: str | Path, labels: NDArray[np.int64]) -> None:
        """The same file with other labels."""
        path = Path(path)
        if path.suffix != self.format:
            raise InvalidInput(f"labels are written in the format they came in, to a {self.format} file, given {path}")
        named = labels if self.names is None else np.array(self.names)[labels]
        if self.format in (".npy", ".npz"):
            content = self._archive(named)
        elif self.format == ".txt":
            content = "".join(f"{label}\n" for label in [*self._head(), *named.tolist()]).encode()
        else:
            content = self._table(named)
        write_atomically(path, content)

    def _archive(self, labels: NDArray[Any]) -> bytes:
        file = io.BytesIO()
        if self.format == ".npy":
            np.save(file, _like(self.content, labels), allow_pickle=False)
        else:
            old = self.content["y"]
            np.savez(file, **{"clean": old, **self.content, "y": _like(old, labels)})
        return file.getvalue()

    def _head(self) -> list[str]:
        return [row[self.column] for row in self.content[: int(self.heading)]]

    def _table(self, labels: NDArray[Any]) -> bytes:
        file = io.StringIO(newline="")
        writer = csv.writer(file, lineterminator="\n")
        for row, label in zip(self.content, [*self._head(), *labels.tolist()], strict=True):
            writer.writerow([*row[: self.column], label, *row[self.column + 1 :]])
        return file.getvalue().encode()


def read_labels(path: str | Path, column: str | None = None) -> LabelFile:
    """The labels of a file; `column` is the heading of a column of a .csv file."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InvalidInput(f"labels come from a .npy, .npz, .csv or .txt file, given {path}")
    if not path.is_file():
        raise InvalidInput(f"no file of labels at {path}")
    if column is not None and path.suffix != ".csv":
        raise InvalidInput(f"column '{column}' is for .csv files, given {path}")
    try:
        if path.suffix in (".npy", ".npz"):
            return _from_arrays(path)
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".txt":
            rows = [[line.strip()] for line in text.splitlines() if line.strip()]
        else:
            rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (ValueError, EOFError, OSError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as labels: {error}") from None
    return _from_rows(path, rows, column)


def _from_arrays(path: Path) -> LabelFile:
    with path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        archive = not isinstance(content, np.ndarray)
        if archive != (path.suffix == ".npz"):
            raise ValueError("its name says another format than it has")
        if archive:
            content = {name: content[name] for name in content.files}
            if "y" not in content:
                raise ValueError(f"it holds {', '.join(content) or 'nothing'}, and no array y")
    given = content["y"] if archive else content
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuU":
        raise ValueError(f"expected (n,) whole numbers or strings, got {given.dtype} of shape {given.shape}")
    return LabelFile(*_number(given.tolist()), path.suffix, content)


def _from_rows(path: Path, rows: list[list[str]], column: str | None) -> LabelFile:
    if not rows:
        raise DataError(f"{path} is empty")
    place, heading = 0, column is not None
    if column is not None:
        if column not in rows[0]:
            raise InvalidInput(f"{path} has no column '{column}': its first line says {', '.join(rows[0])}")
        place = rows[0].index(column)
    elif len(rows[0]) > 1:
        raise InvalidInput(f"{path} has several columns: add --column and one of {', '.join(rows[0])}")
    else:
        others = [row[0] for row in rows[1:]]
        numbers = bool(others) and all(map(_is_number, others))
        heading = rows[0][0].lower() in HEADINGS or (numbers and not _is_number(rows[0][0]))
    for line, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise DataError(f"{path} has {len(rows[0])} columns, but {len(row)} in row {line}")
    labels = [row[place].strip() for row in rows[int(heading) :]]
    if not labels:
        raise DataError(f"{path} has a heading and no labels")
    numbered = _number([int(label) for label in labels] if all(map(_is_number, labels)) else labels)
    return LabelFile(*numbered, path.suffix, rows, place, heading)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _like(old: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """In the old type of numbers, where they fit."""
    fits = old.dtype.kind == "U" or labels.max() <= np.iinfo(old.dtype).max
    return labels.astype(old.dtype) if fits else labels


def _number(labels: list[int] | list[str]) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """The labels as whole numbers, and their names where they are names."""
    if isinstance(labels[0], int):
        return np.array(labels, dtype=np.int64), None
    names, numbers = np.unique(np.array(labels), return_inverse=True)
    return numbers.astype(np.int64), tuple(names.tolist())
