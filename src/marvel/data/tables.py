"""CSV and Parquet tables: rows of features with a label, or rows that name an image and its label.

marvel train --data iris.csv --label species           features: numbers, categories, texts, vectors
marvel train --data photos.csv --label species         images, where the cells of a column are names of image files
"""

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from marvel.data.classes import Labels, cell_text, check_classes, check_ids, class_name, number_labels
from marvel.data.columns import encode, read_kinds
from marvel.data.core import Data
from marvel.data.csv_text import read_csv
from marvel.data.images import LARGEST, SUFFIXES, Picture, Watch, check_images
from marvel.data.origin import Origin, SetAside
from marvel.data.room import check_room
from marvel.errors import DataError, InvalidInput

TEXTS, PARQUETS = (".csv", ".tsv"), (".parquet", ".pq")
LABELS = ("label", "labels", "target", "class", "y")
"""What a column of labels is usually called, the likeliest first."""
CORRECTED = re.compile(r"_corrected(_\d+)?$")
"""How `marvel export` names the column it adds."""
TRAINING = {"train", "training"}
TESTS = ({"test", "testing"}, {"val", "valid", "validation", "dev"})
"""Values of a column `split`: the first that occurs is the test set."""


@dataclass(frozen=True)
class Options:
    """What a reader is told."""

    size: int | None = None
    label: str | None = None
    paths: str | None = None
    id: str | None = None
    columns: str | None = None
    hold: bool | None = None
    largest: int = LARGEST
    watch: Watch | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of any source, before it is known which of them can be trained on."""

    name: str
    what: str
    """How the source is called in what is said about it."""
    y: npt.NDArray[np.int64]
    """-1 where the label is missing."""
    classes: tuple[str, ...]
    ids: list[str]
    origin: Origin
    features: Any = None
    """An Arrow table, where instances are rows of features."""
    pictures: list[Picture | None] | None = None
    """Where instances are images; None where a row names none."""
    test: npt.NDArray[np.bool_] | None = None
    """Rows that are the test set."""
    unused: npt.NDArray[np.bool_] | None = None
    """Rows of parts that are neither."""
    notes: tuple[str, ...] = ()


def read_table(path: Path, options: Options) -> Data:
    """Data of a CSV or Parquet file."""
    table = open_table(path)
    names = table.column_names
    label, notes = label_column(str(path), names, options.label)
    labels = labels_of(table, label)
    paths = _path_column(path, table, options.paths, label)
    ids = row_ids(path, table, options.id, paths)
    if options.columns is not None and paths is not None:
        raise InvalidInput(f"columns are for tables of features, and '{paths}' of {path} holds the paths of images")
    split = next((name for name in names if name.lower() == "split" and name != label), None)
    test, unused, said = _parts(split, table)
    taken = {label, *family(label, names), paths, options.id, split if test is not None else None}
    rows = Rows(
        path.stem,
        path.name,
        labels.y,
        labels.classes,
        ids,
        Origin("paths" if paths else "table", str(path.resolve()), label, paths, options.id),
        features=None if paths else table.select([name for name in names if name not in taken]),
        pictures=None if paths is None else [find_picture(path.parent, cell) for cell in table[paths].to_pylist()],
        test=test,
        unused=unused,
        notes=(*notes, *said),
    )
    return data_of(rows, options)


def open_table(path: Path) -> Any:
    """The file as an Arrow table; the columns of a CSV file are text."""
    if path.suffix.lower() in TEXTS:
        check_room(path, path.stat().st_size if path.exists() else 0)
        table = read_csv(path).table()
    else:
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(path)
            # A value that is always the same takes no room in the file, and a number's room in memory.
            check_room(path, 8 * file.metadata.num_rows * file.metadata.num_columns)
            table = file.read()
            table.validate(full=True)  # text that is none, for example, which would be noticed where it is used
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} cannot be read as Parquet: {error}") from None
        twice = [name for name, count in Counter(table.column_names).items() if count > 1]
        if twice:
            raise DataError(f"{path} has several columns called '{twice[0]}': give them names of their own")
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows; its columns are {', '.join(table.column_names) or 'none'}")
    return table


# ---------------------------------------------------------------------------------------------- which column is what


def find_column(what: str, names: Sequence[str], wanted: str) -> str:
    """The column of that name, or an error that says the nearest."""
    if wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1)
        same = [name for name in names if name.lower() == wanted.lower()]
        hint = f"; did you mean '{(same or near)[0]}'?" if same or near else "."
        raise InvalidInput(f"{what} has no column '{wanted}'{hint} It has {_listed(names)}")
    return wanted


def label_column(what: str, names: Sequence[str], wanted: str | None) -> tuple[str, list[str]]:
    """The column of labels, and what to say about the choice."""
    if wanted is not None:
        find_column(what, names, wanted)
        corrected = [name for name in family(wanted, names) if CORRECTED.search(name)]
        if corrected and not CORRECTED.search(wanted):
            return wanted, [f"{what}: labels are those of column '{wanted}'; corrected ones are in '{corrected[-1]}'"]
        return wanted, []
    lower = {name.lower(): name for name in reversed(names)}
    found = [lower[usual] for usual in LABELS if usual in lower]
    if not found:
        # A table that was exported has the column of the user's own name, and the corrected one beside it.
        found = [base for name in names if (base := CORRECTED.sub("", name)) != name and base in names]
    if not found:
        raise InvalidInput(f"{what} has no column called {', '.join(LABELS)}: add --label and one of {_listed(names)}")
    relatives = family(found[0], names)
    if relatives:
        return relatives[-1], [
            f"{what}: labels are those of column '{relatives[-1]}'; --label {found[0]} takes the others"
        ]
    if len(set(found)) > 1:
        return found[0], [f"{what}: labels are those of column '{found[0]}'; --label {found[1]} takes the others"]
    return found[0], []


def family(label: str, names: Iterable[str]) -> list[str]:
    """Columns with the labels before and after correction, but for this one: they would give the label away."""
    base = CORRECTED.sub("", label)
    return [name for name in names if name != label and CORRECTED.sub("", name) == base]


def labels_of(table: Any, column: str) -> Labels:
    """The labels of a column, with the names that they are noted to have; else the cells are the names."""
    values, names = table[column].to_pylist(), class_names(table, column)
    if names is None:
        return number_labels(values)
    # To `datasets` -1 is no label, as null is.
    return Labels(np.array([-1 if value is None or value < 0 else value for value in values], dtype=np.int64), names)


def class_names(table: Any, column: str) -> tuple[str, ...] | None:
    """The names that Hugging Face `datasets` has noted of a ClassLabel; None where none fit the cells."""
    import pyarrow
    import pyarrow.compute

    try:
        noted = json.loads((table.schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        known = noted["names"] if noted["_type"] == "ClassLabel" else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(known, list) or not all(isinstance(name, str | int) for name in known):
        return None
    names = tuple(map(str, known))
    if len(set(names)) < len(names) or not pyarrow.types.is_integer(table[column].type):
        return None
    highest = pyarrow.compute.max(table[column]).as_py()
    return names if highest is None or highest < len(names) else None


def _path_column(path: Path, table: Any, wanted: str | None, label: str) -> str | None:
    if wanted is not None:
        return find_column(str(path), table.column_names, wanted)
    found = [name for name in table.column_names if name != label and _names_images(table[name])]
    if len(found) > 1:
        raise InvalidInput(f"{path} has several columns of image files: add --paths and one of {_listed(found)}")
    return found[0] if found else None


def _names_images(column: Any) -> bool:
    """Whether its cells are names of image files, going by the first of them."""
    cells = [cell for cell in column.slice(0, 100).to_pylist() if cell is not None]
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    named = sum(Path(text).suffix.lower() in SUFFIXES for text in texts)
    return bool(texts) and len(texts) == len([c for c in cells if c != ""]) and named > len(texts) / 2


def row_ids(path: Path, table: Any, wanted: str | None, paths: str | None) -> list[str]:
    rows = [str(row) for row in range(table.num_rows)]
    if wanted is None and paths is None:
        return rows
    column = find_column(str(path), table.column_names, wanted or str(paths))
    ids = [cell_text(cell) for cell in table[column].to_pylist()]
    if wanted is not None:
        check_ids(f"{path}, column '{wanted}'", ids)
    return [row if id is None else id for id, row in zip(ids, rows)]


def _parts(split: str | None, table: Any) -> tuple[Any, Any, list[str]]:
    """Which rows are the test set and which are not used, where a column `split` says so."""
    if split is None:
        return None, None, []
    values = np.array([(class_name(cell) or "").lower() for cell in table[split].to_pylist()])
    present = set(values.tolist())
    if not present & TRAINING or not present <= TRAINING.union(*TESTS):
        return None, None, []
    chosen = next((names for names in TESTS if present & names), set())
    train, test = np.isin(values, list(TRAINING)), np.isin(values, list(chosen))
    said = f"column '{split}': {train.sum()} rows are trained on, {test.sum()} are the test set"
    return test, ~train & ~test, [said]


def find_picture(folder: Path, cell: object) -> Path | None:
    """The file a cell names, from the table's own folder."""
    name = cell_text(cell)
    if name is None:
        return None
    path = folder / name
    if "\\" in name and not path.exists():
        return folder / name.replace("\\", "/")
    return path


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


# ---------------------------------------------------------------------------------------------- rows -> data


def data_of(rows: Rows, options: Options) -> Data:
    """What can be trained on, with all else set aside under its name."""
    n = len(rows.y)
    aside: dict[int, str] = {int(row): "no label" for row in np.flatnonzero(rows.y < 0)}
    test = np.zeros(n, dtype=bool) if rows.test is None else rows.test
    unused = np.zeros(n, dtype=bool) if rows.unused is None else rows.unused
    aside = {row: reason for row, reason in aside.items() if not unused[row]}
    notes = list(rows.notes)
    more: dict[str, Any] = {}
    if rows.pictures is not None:
        aside |= _no_picture(rows, aside, unused)
        chosen = [row for row in range(n) if row not in aside and not unused[row]]
        pictures = [picture for row in chosen if (picture := rows.pictures[row]) is not None]
        checked = check_images(pictures, options.size, options.hold, options.watch, options.largest)
        aside |= {chosen[place]: reason for place, reason in checked.wrong.items()}
        if not checked.good:
            raise DataError(_none_left(rows, aside))
        notes += checked.notes([rows.ids[row] for row in chosen])
        kept = np.array([chosen[place] for place in checked.good])
        x: Any = checked.images
        more["augment"] = "crop-flip"
    else:
        kept = np.array([row for row in range(n) if row not in aside and not unused[row]], dtype=np.int64)
        if len(kept) == 0:
            raise DataError(f"{rows.what}: no row has a label")
        # Means and values are those of the rows that are trained on.
        fit = np.zeros(n, dtype=bool)
        fit[kept] = ~test[kept]
        if not fit.any():
            raise DataError(f"{rows.what}: no row to train on has a label")
        metadata = rows.features.schema.metadata or {}
        encoded = encode(
            rows.what,
            rows.features,
            fit,
            read_kinds(options.columns),
            rows.y,
            metadata.get(b"decimal", b".").decode(),
        )
        notes += encoded.notes
        x = torch.from_numpy(encoded.x[kept])
        more |= {"mean": (0.0,) * x.shape[1], "std": (1.0,) * x.shape[1], "digest": encoded.digest}
    y = torch.from_numpy(rows.y[kept])
    inside, outside = torch.from_numpy(np.flatnonzero(~test[kept])), torch.from_numpy(np.flatnonzero(test[kept]))
    notes += check_classes(rows.what, rows.y[kept][~test[kept]], rows.classes)
    if len(outside):
        more |= {"test_x": x[outside], "test_y": y[outside]}
    return Data(
        rows.name,
        x[inside] if len(outside) else x,
        y[inside],
        rows.classes,
        ids=tuple(rows.ids[row] for row in kept[inside.numpy()]),
        origin=rows.origin.at(kept[inside.numpy()]),
        set_aside=tuple(SetAside(rows.ids[row], reason, _row(row, test)) for row, reason in sorted(aside.items())),
        notes=tuple(notes),
        **more,
    )


def _row(row: int, test: npt.NDArray[np.bool_]) -> int | None:
    return None if test[row] else row


def _no_picture(rows: Rows, aside: dict[int, str], unused: npt.NDArray[np.bool_]) -> dict[int, str]:
    """Rows that name no image, or one that another row has named."""
    found: dict[int, str] = {}
    first: dict[str, int] = {}
    assert rows.pictures is not None
    for row, picture in enumerate(rows.pictures):
        if row in aside or unused[row]:
            continue
        if picture is None:
            found[row] = "no image is named"
        elif isinstance(picture, Path) and (before := first.setdefault(os.path.abspath(picture), row)) != row:
            other = "" if rows.y[before] == rows.y[row] else f", labelled '{rows.classes[rows.y[before]]}'"
            found[row] = f"the same image is in row {before}{other}"
    return found


def _none_left(rows: Rows, aside: dict[int, str]) -> str:
    row, reason = min(aside.items())
    message = f"{rows.what}: none of the {len(rows.y)} images can be read, e.g. {rows.ids[row]}: {reason}"
    if rows.origin.paths is not None:
        message += f"; paths are taken from the folder of the table, {Path(rows.origin.path).parent}"
    return message
