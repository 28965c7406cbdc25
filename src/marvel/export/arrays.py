"""`.npz` and `.npy` files with corrected labels: `y` is corrected, and `y_given` what it was."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.data.arrays import instances_name, labels_name, open_npy, open_npz, read_label_file, texts_of
from marvel.data.classes import class_name
from marvel.data.csv_text import quoted
from marvel.data.images import Watch
from marvel.data.tables import PARQUETS, TEXTS, open_table
from marvel.errors import FolderError, InvalidInput
from marvel.export.decided import Decided
from marvel.export.place import Written
from marvel.export.tables import corrected_table
from marvel.runs import write_atomically

Array = npt.NDArray[Any]


def write_arrays(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """The file under its own name; instances that are set aside are left out, or marked in the array `aside`."""
    source = Path(what.origin.path)
    if what.origin.labels is not None:
        return _write_pair(what, source, Path(what.origin.labels), place, keep_aside)
    arrays = open_npz(source)
    x, y = instances_name(source, arrays), labels_name(source, arrays, what.origin.label)
    if x not in arrays or y not in arrays:
        raise FolderError(f"{source} has changed since the run: it has the arrays {', '.join(arrays)}")
    given = arrays[y]
    what.check_rows(len(given))
    if what.origin.id is not None and what.origin.id in arrays:
        what.check_ids(texts_of(arrays[what.origin.id]))
    kept = _kept(what, len(given), keep_aside)
    corrected = _corrected(what, given, arrays.get("classes"))
    written = dict(arrays)
    written[y] = corrected
    written.setdefault("y_given", given)
    if keep_aside:
        written["aside"] = np.array([row in what.aside for row in range(len(given))])
    for name in (x, y, what.origin.id, "clean", "y_given", "aside"):
        if name is not None and name in written:
            written[name] = written[name][kept]
    write_atomically(place / source.name, _archive(written, _is_compressed(source)))
    return Written(len(kept), y)


def _write_pair(what: Decided, source: Path, labels: Path, place: Path, keep_aside: bool) -> Written:
    """Instances in one file, labels in another, which keeps its format."""
    x = open_npy(source)
    what.check_rows(len(x))
    kept = _kept(what, len(x), keep_aside)
    if labels.name == source.name:
        raise InvalidInput(
            f"{source} and {labels} have one name, and an export is one folder: rename one, and run again"
        )
    write_atomically(place / source.name, _npy(x[kept]))
    suffix, target = labels.suffix.lower(), place / labels.name
    if suffix in (*TEXTS, *PARQUETS):
        table = open_table(labels)
        names = table.column_names
        if len(names) > 1 or table.num_rows == len(x):
            column = what.origin.label or names[0]
            return corrected_table(what, labels, table, column, place, keep_aside)
    given, _ = read_label_file(labels, what.origin.label, len(x))
    corrected = _corrected(what, given, None)
    if keep_aside and what.aside:
        if corrected.dtype.kind not in "US":
            raise InvalidInput(
                f"{labels} holds numbers, which cannot say that they are set aside: leave out --keep-aside"
            )
        corrected[list(what.aside)] = ""
    if suffix == ".npy":
        write_atomically(target, _npy(corrected[kept]))
    elif suffix == ".npz":
        arrays = {"y_given": given, **open_npz(labels)}
        arrays[labels_name(labels, arrays, what.origin.label)] = corrected
        for name, array in arrays.items():
            if array.ndim and len(array) == len(x):
                arrays[name] = array[kept]
        write_atomically(target, _archive(arrays, False))
    else:
        lines = [class_name(value) or "" for value in corrected[kept].tolist()]
        if suffix != ".txt":
            lines = [quoted(line) or '""' for line in lines]
        write_atomically(target, "".join(f"{line}\n" for line in lines).encode())
    return Written(len(kept), None)


def _kept(what: Decided, n: int, keep_aside: bool) -> npt.NDArray[np.int64]:
    return np.array([row for row in range(n) if keep_aside or row not in what.aside], dtype=np.int64)


def _corrected(what: Decided, given: Array, classes: Array | None) -> Array:
    """The labels in the type they had. One that is set aside stays what it was."""
    names = None if classes is None else texts_of(classes)
    numbers = given.dtype.kind not in "US"
    values: dict[str, Any] = {}
    if names is not None:
        values = {name: number if numbers else name for number, name in enumerate(names)}
    said: list[str | None] = []
    for value in given.tolist():
        name = _name(value)
        if names is not None and numbers and name is not None and name.isdigit() and int(name) < len(names):
            name = names[int(name)]
        if name is not None:
            values.setdefault(name, value)
        said.append(name)
    labels = [what.label_of(row, name) for row, name in enumerate(said)]
    found = [value if one is None else values.get(one, one) for one, value in zip(labels, given.tolist())]
    return np.array(found) if given.dtype.kind in "US" else np.array(found, dtype=given.dtype)


def _name(value: Any) -> str | None:
    """As `from_arrays` names it: text as it is, truth as 0 and 1."""
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    if isinstance(value, str):
        return None if class_name(value) is None else value
    return class_name(int(value) if isinstance(value, bool) else value)


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _archive(arrays: dict[str, Array], compressed: bool) -> bytes:
    file = io.BytesIO()
    save: Callable[..., None] = np.savez_compressed if compressed else np.savez
    save(file, **arrays)
    return file.getvalue()


def _is_compressed(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
