"""Files of labels: read as whole numbers, and written back in the format they came in.

    .npy    an array of whole numbers or strings
    .npz    its array `y`; written back with all other arrays, and with the labels as they were in `clean`
    .csv    (or .tsv) the column named, or the only one; all else is written back byte for byte
    .txt    a label a line

Labels that are not whole numbers from 0 are names: their classes are the names that occur, in the order that `marvel
train` has them in, so that the same seed makes the same labels wrong.
"""

import io
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marvel.data.classes import class_name, class_order
from marvel.data.csv_text import cut, quoted, read_csv
from marvel.errors import DataError, InvalidInput
from marvel.runs import write_atomically

TABLES = (".csv", ".tsv")
FORMATS = (".npy", ".npz", *TABLES, ".txt")
HEADINGS = {"label", "labels", "class", "target", "y"}
"""First lines that are taken as the heading of an only column."""


@dataclass(frozen=True)
class Text:
    """A file of text, cut before and after each label."""

    mark: bytes
    encoding: str
    delimiter: str | None
    """Of cells; None where a line is a label."""
    pieces: list[str]
    places: list[int]
    """Of the labels among the pieces."""

    def written(self, labels: dict[int, str]) -> bytes:
        """With other labels, by their place among all of them; the rest as it is."""
        pieces = list(self.pieces)
        for number, label in labels.items():
            pieces[self.places[number]] = label if self.delimiter is None else quoted(label, self.delimiter)
        return self.mark + "".join(pieces).encode(self.encoding)


@dataclass(frozen=True, eq=False)
class LabelFile:
    """The labels of a file, with what it takes to write others in their place."""

    labels: NDArray[np.int64]
    """(n,) as whole numbers."""
    names: tuple[str, ...] | None
    """The classes' names, where labels are names."""
    format: str
    content: Any
    """The file: an array, the arrays of an archive, or `Text`."""

    @property
    def classes(self) -> int:
        """How many classes there must be, at the least."""
        return len(self.names) if self.names else max(2, int(self.labels.max()) + 1)

    def write(self, path: str | Path, labels: NDArray[np.int64]) -> None:
        """The same file with other labels."""
        path = Path(path)
        if path.suffix.lower() != self.format:
            raise InvalidInput(f"labels are written in the format they came in, to a {self.format} file, given {path}")
        named = labels if self.names is None else np.array(self.names)[labels]
        if isinstance(self.content, Text):
            changed = np.flatnonzero(labels != self.labels).tolist()
            content = self.content.written({row: str(named[row]) for row in changed})
        else:
            content = self._archive(named)
        write_atomically(path, content)

    def _archive(self, labels: NDArray[Any]) -> bytes:
        file = io.BytesIO()
        if self.format == ".npy":
            np.save(file, _like(self.content, labels), allow_pickle=False)
        else:
            old = self.content["y"]
            np.savez(file, **{"clean": old, **self.content, "y": _like(old, labels)})
        return file.getvalue()


def read_labels(path: str | Path, column: str | None = None) -> LabelFile:
    """The labels of a file; `column` is the heading of a column of a .csv file."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise InvalidInput(f"labels come from a .npy, .npz, .csv, .tsv or .txt file, given {path}")
    if not path.is_file():
        raise InvalidInput(f"no file of labels at {path}")
    if column is not None and kind not in TABLES:
        raise InvalidInput(f"column '{column}' is for .csv files, given {path}")
    try:
        if kind in (".npy", ".npz"):
            found = _from_arrays(path)
        else:
            found = _from_table(path, column) if kind in TABLES else _from_lines(path)
    except (DataError, InvalidInput):
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read as labels: {error}") from None
    for number, name in enumerate(found.names or ()):
        if class_name(name) is None:
            row = int(np.flatnonzero(found.labels == number)[0])
            raise DataError(f"{path} has no label in row {row}: fill it in, or leave the row out")
    return found


def _from_arrays(path: Path) -> LabelFile:
    with path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        archive = not isinstance(content, np.ndarray)
        if archive != (path.suffix.lower() == ".npz"):
            raise ValueError("its name says another format than it has")
        if archive:
            content = {name: content[name] for name in content.files}
            if "y" not in content:
                raise ValueError(f"it holds {', '.join(content) or 'nothing'}, and no array y")
    given = content["y"] if archive else content
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iuU":
        raise ValueError(f"expected (n,) whole numbers or strings, got {given.dtype} of shape {given.shape}")
    return LabelFile(*_number(given.tolist()), path.suffix.lower(), content)


def _from_table(path: Path, column: str | None) -> LabelFile:
    text = read_csv(path)
    records = [record for record in text.records() if record.cells]
    if not records:
        raise DataError(f"{path} is empty")
    first = [cell.strip() for cell in records[0].cells]
    place = 0
    if column is not None:
        if column not in first:
            raise InvalidInput(f"{path} has no column '{column}': its first line says {', '.join(first)}")
        place = first.index(column)
    elif len(first) > 1:
        raise InvalidInput(f"{path} has several columns: add --column and one of {', '.join(first)}")
    list(text.rows())  # each as long as the first, or an error that says which is not
    cells = [record.cells[place].strip() for record in records]
    head = column is not None or _has_heading(cells)
    pieces: list[str] = []
    places: list[int] = []
    for record in text.records():
        parts = cut(record.text, place, text.delimiter) if record.cells else (record.text,)
        if record.cells:
            places.append(len(pieces) + 1)
        pieces += parts
    return _labelled(path, cells, head, Text(text.mark, text.encoding, text.delimiter, pieces, places))


def _from_lines(path: Path) -> LabelFile:
    text = read_csv(path)
    pieces: list[str] = []
    places: list[int] = []
    for line in text.text.splitlines(keepends=True):
        label = line.strip()
        before, _, after = line.partition(label) if label else (line, "", "")
        if label:
            places.append(len(pieces) + 1)
        pieces += [before, label, after]
    cells = [pieces[place] for place in places]
    if not cells:
        raise DataError(f"{path} is empty")
    return _labelled(path, cells, _has_heading(cells), Text(text.mark, text.encoding, None, pieces, places))


def _has_heading(cells: list[str]) -> bool:
    """Of an only column: by its name, or where it is the only cell that is no number."""
    numbers = len(cells) > 1 and all(map(_is_number, cells[1:]))
    return cells[0].lower() in HEADINGS or (numbers and not _is_number(cells[0]))


def _labelled(path: Path, cells: list[str], heading: bool, text: Text) -> LabelFile:
    labels = cells[int(heading) :]
    if not labels:
        raise DataError(f"{path} has a heading and no labels")
    numbered = _number([int(label) for label in labels] if all(map(_is_number, labels)) else labels)
    if numbered[1] is not None and text.delimiter is not None:
        # Classes of a table come as numbers do, 2 before 10; those of an array, which a .txt file goes with, as texts.
        names = tuple(sorted(numbered[1], key=class_order))
        place = {name: number for number, name in enumerate(names)}
        numbered = np.array([place[label] for label in labels], dtype=np.int64), names
    return LabelFile(*numbered, path.suffix.lower(), replace(text, places=text.places[int(heading) :]))


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
