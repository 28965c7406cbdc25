"""Data from arrays in memory, from an .npz file, or from an .npy file with the labels in another.

Vectors are (n, D); images are (n, H, W), (n, H, W, C) or (n, C, H, W) with 1, 3 or 4 channels. Labels are whole
numbers or strings, one per instance; without class names the classes are the labels that occur, sorted.
"""

import difflib
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marvel.data.classes import check_classes, check_ids, class_name
from marvel.data.core import Data
from marvel.data.csv_text import read_csv
from marvel.data.origin import Origin, SetAside
from marvel.data.room import check_room
from marvel.errors import DataError, InvalidInput, amount

Array = npt.NDArray[Any]
CHANNELS = (1, 3, 4)
KEYS = ("x", "y", "x_test", "y_test", "clean", "classes", "y_given", "aside")
INSTANCES = ("X", "images", "features", "embeddings", "data", "arr_0")
LABELS = ("Y", "label", "labels", "target", "targets", "arr_1")
"""Names that x and y go by, where there are no arrays called so."""
NAMED = "; leave it out, or --id names the array of ids and --label that of labels"


def from_arrays(
    x: Array | Tensor,
    y: Array | Tensor | Sequence[Any],
    x_test: Array | Tensor | None = None,
    y_test: Array | Tensor | Sequence[Any] | None = None,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    augment: str | None = None,
    clean: Array | Tensor | Sequence[Any] | None = None,
) -> Data:
    """Data of numpy or torch arrays.

    With `classes`, a label is a class name or its place in that list. Images of whole numbers are kept as uint8, all
    else becomes float32. `augment=None` means "crop-flip" for colour images and "none" for all others, since a
    mirrored letter, digit or row of a table is something else.
    """
    given = {"y": y, "y_test": y_test, "clean": clean}
    labels = {key: _labels(key, value) for key, value in given.items() if value is not None}
    names, numbered = _number(labels, classes)
    instances = _instances("x", x)
    if augment is None:
        augment = "crop-flip" if instances.ndim == 4 and instances.shape[1] == 3 else "none"
    return Data(
        name,
        instances,
        numbered["y"],
        names,
        None if x_test is None else _instances("x_test", x_test),
        numbered.get("y_test"),
        clean=numbered.get("clean"),
        augment=augment,
    )


def read_npz(path: Path, label: str | None = None, id: str | None = None) -> Data:
    """Data of an .npz file with the arrays x and y, and where there are any x_test, y_test, clean and classes.

    `label` and `id` name other arrays than y, and than the row numbers. Exported files also have `y_given`, the labels
    before correction, and `aside`, the instances to leave out.
    """
    arrays = open_npz(path)
    x, y = instances_name(path, arrays), labels_name(path, arrays, label)
    unknown = sorted(set(arrays) - {x, y, id, *KEYS[2:]})
    missing = [key for key, found in (("x", x), ("y", y)) if found not in arrays]
    if id is not None and id not in arrays:
        raise InvalidInput(f"{path} has no array '{id}': it has {', '.join(arrays)}")
    if missing or unknown:
        raise DataError(
            f"{path}: needs the arrays x and y, and may have {', '.join(KEYS[2:])}; "
            f"{'missing ' + ', '.join(missing) if missing else 'not known: ' + ', '.join(unknown) + NAMED}"
        )
    ids = None if id is None else arrays[id]
    origin = Origin("arrays", str(path.resolve()), y, id=id)
    return _read(path, arrays, arrays[x], arrays[y], ids, origin)


def read_npy(path: Path, labels: str | None, label: str | None = None) -> Data:
    """Data of an .npy file, and of a file of labels: .npy, .npz (its array y), .csv, .parquet, or .txt, one a line."""
    if labels is None:
        raise InvalidInput(f"{path} holds no labels: --labels FILE says where they are")
    file = Path(labels).expanduser()
    instances = open_npy(path)
    y, column = read_label_file(file, label, len(instances))
    origin = Origin("arrays", str(path.resolve()), column, labels=str(file.resolve()))
    return _read(path, {}, instances, y, None, origin)


def read_label_file(path: Path, label: str | None, n: int) -> tuple[Array, str | None]:
    """The labels of n instances, and the array or column they are in, where there are several."""
    if not path.is_file():
        raise InvalidInput(f"no file of labels at {path}")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return open_npy(path), None
    if suffix == ".npz":
        arrays = open_npz(path)
        name = labels_name(path, arrays, label)
        if name not in arrays:
            raise DataError(f"{path} has no array y: it has {', '.join(arrays)}")
        return arrays[name], name
    if suffix == ".txt":
        return np.array([line.strip() for line in read_csv(path).text.splitlines()]), None
    from marvel.data.tables import PARQUETS, TEXTS, label_column, labels_of, open_table

    if suffix not in (*TEXTS, *PARQUETS):
        raise InvalidInput(f"labels come from a .npy, .npz, .csv, .parquet or .txt file, given {path}")
    table = open_table(path)
    names = table.column_names
    if label is None and len(names) == 1 and suffix in TEXTS:
        # A blank line is an instance without a label; as many cells as instances: there is no heading.
        cells = [record.cells[0] if record.cells else "" for record in read_csv(path).records()]
        while len(cells) > n + 1 and not cells[-1]:
            cells.pop()
        return _texts(cells if len(cells) == n else cells[1:]), None
    column = names[0] if label is None and len(names) == 1 else label_column(str(path), names, label)[0]
    return _texts(labels_of(table, column).names), column


def _texts(values: Sequence[object]) -> Array:
    return np.array([class_name(value) or "" for value in values])


def texts_of(names: Array) -> list[str]:
    """Names of classes or instances as text; bytes, as HDF5 and C have them, are UTF-8."""
    values = np.ravel(names).tolist()
    return [name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name) for name in values]


def instances_name(path: Path, arrays: dict[str, Array]) -> str:
    return _named(path, arrays, "x", INSTANCES, None)


def labels_name(path: Path, arrays: dict[str, Array], wanted: str | None) -> str:
    return _named(path, arrays, "y", LABELS, wanted)


def _named(path: Path, arrays: dict[str, Array], key: str, usual: Sequence[str], wanted: str | None) -> str:
    """The array that is meant by `key`: the one asked for, of that name, or of one of its usual names."""
    if wanted is not None and wanted not in arrays:
        near = difflib.get_close_matches(wanted, arrays, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise InvalidInput(f"{path} has no array '{wanted}'{hint} It has {', '.join(arrays)}")
    found = [name for name in usual if name in arrays]
    return wanted or (key if key in arrays or not found else found[0])


def _read(path: Path, arrays: dict[str, Array], x: Array, y: Array, ids: Array | None, origin: Origin) -> Data:
    """What can be trained on; instances without a label, or with NaN in them, are set aside."""
    classes = arrays.get("classes")
    try:
        if x.size == 0:
            raise InvalidInput(f"there are no instances in it: x is of shape {x.shape}")
        if y.ndim > 1:
            raise InvalidInput(f"y must have one label per instance, (n,); given {y.shape}: {_flat(y)}")
        if y.ndim == 0 or len(y) != len(x):
            labels = amount(len(y), "label") if y.ndim else "no labels"
            raise InvalidInput(f"y has {labels} for {amount(len(x), 'instance')}")
        names = [str(row) for row in range(len(x))] if ids is None else texts_of(ids)
        if ids is not None:
            if len(names) != len(x):
                raise InvalidInput(f"'{origin.id}' has {amount(len(names), 'id')} for {amount(len(x), 'instance')}")
            check_ids(f"'{origin.id}'", names)
        aside, y = _without_labels(y)
        aside |= {int(row): "set aside before" for row in np.flatnonzero(arrays.get("aside", np.zeros(0, dtype=bool)))}
        if x.dtype.kind == "f" and x.ndim > 1:
            broken = ~np.isfinite(x.reshape(len(x), -1)).all(axis=1)
            if broken.all():
                raise InvalidInput("every instance of x holds NaN or infinity; fill them first")
            aside = {int(row): "holds NaN or infinity" for row in np.flatnonzero(broken)} | aside
        kept = np.array([row for row in range(len(x)) if row not in aside], dtype=np.int64)
        if len(kept) == 0:
            raise InvalidInput("no instance has a label")
        clean = arrays.get("clean")
        data = from_arrays(
            x[kept],
            y[kept],
            arrays.get("x_test"),
            arrays.get("y_test"),
            classes=None if classes is None else [str(c) for c in _labels("classes", classes).tolist()],
            name=path.stem,
            clean=None if clean is None else clean[kept],
        )
        notes = check_classes(path.name, data.y.numpy(), data.classes)
    except InvalidInput as error:
        raise DataError(f"{path}: {error}") from None
    return replace(
        data,
        ids=tuple(names[row] for row in kept),
        origin=origin.at(kept),
        set_aside=tuple(SetAside(names[row], reason, row) for row, reason in sorted(aside.items())),
        notes=tuple(notes),
    )


def _flat(y: Array) -> str:
    """How to make one column of labels of several."""
    return "save y.ravel()" if y.shape[1:] == (1,) else "of a column for each class, save y.argmax(axis=1)"


def _without_labels(y: Array) -> tuple[dict[int, str], Array]:
    """Rows without a label, and the labels as whole numbers where they are such in floating point."""
    if y.dtype.kind == "f":
        missing = np.isnan(y)
        whole = np.where(missing, 0, y)
        if bool((whole == np.floor(whole)).all()) and bool(np.isfinite(whole).all()):
            y = whole.astype(np.int64)
    elif y.dtype.kind in "US":
        missing = np.array([class_name(value) is None for value in y.tolist()], dtype=bool)
    else:
        return {}, y
    return {int(row): "no label" for row in np.flatnonzero(missing)}, y


def open_npy(path: Path) -> Array:
    """The array of an .npy file."""
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # damaged and hostile files fail in a dozen ways, all of which mean the same
        raise _unreadable(path, error, "an .npy file; numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: is an .npz archive; give it that ending")
    if array.ndim == 0:
        raise DataError(f"{path}: holds one number, and no instances")
    return array


MAGIC = b"\x93NUMPY"
"""How an .npy file begins."""
OBJECTS = "holds Python objects, which are never unpickled; save labels as numpy.array(labels, dtype=str)"


def open_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz file; one with Python objects in it is refused, since reading those runs code."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                with zipfile.ZipFile(file) as members:
                    check_room(path, sum(member.file_size for member in members.infolist()))
                arrays: dict[str, Any] = {key: archive[key] for key in archive.files}
                strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
                if strange:
                    raise DataError(f"{path}: '{strange[0]}' in it is no array; numpy.savez writes nothing else")
                return arrays
    except DataError:
        raise
    except Exception as error:  # as above
        raise _unreadable(path, error, "an .npz archive; numpy.savez") from None
    raise DataError(f"{path}: not an .npz archive; numpy.savez writes one")


def _unreadable(path: Path, error: Exception, wanted: str) -> DataError:
    """NumPy takes a file that begins as none of its own for a pickle, be it a text or a download's error page."""
    if "allow_pickle" not in str(error):
        return DataError(f"{path}: not a readable {path.suffix.lower()} file ({error})")
    with path.open("rb") as file:
        if file.read(len(MAGIC)).startswith((MAGIC, b"PK")):
            return DataError(f"{path}: {OBJECTS}")
    return DataError(f"{path}: not {wanted} writes one, and a pickle, which this may be, is never unpickled")


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether an image of this shape is (C, H, W), and not (H, W, C); where it could be both it is (C, H, W)."""
    if shape[0] in CHANNELS:
        return True
    if shape[-1] in CHANNELS:
        return False
    raise InvalidInput(f"an image is (H, W, C) or (C, H, W) with 1, 3 or 4 channels, given {shape}")


def _instances(what: str, values: Array | Tensor) -> Tensor:
    """Images as (n, C, H, W), vectors as (n, D)."""
    array = _array(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{what} must hold numbers, given {array.dtype}")
    if array.ndim not in (2, 3, 4) or array.size == 0:
        raise InvalidInput(
            f"{what} must be vectors (n, D) or images (n, H, W), (n, H, W, C) or (n, C, H, W), given {array.shape}"
        )
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and not channels_first(array.shape[1:]):
        array = array.transpose(0, 3, 1, 2)
    whole = array.ndim == 4 and array.dtype.kind in "iu" and array.min() >= 0 and array.max() <= 255
    with np.errstate(over="ignore"):
        tensor = torch.from_numpy(np.array(array, dtype=np.uint8 if whole else np.float32, order="C"))
    if array.dtype.itemsize > 4 and not whole and bool((tensor.isinf().numpy() & np.isfinite(array)).any()):
        raise InvalidInput(
            f"{what} holds numbers beyond {np.finfo(np.float32).max:.0e}, which single precision has not"
        )
    return tensor


def _labels(what: str, values: Array | Tensor | Sequence[Any]) -> Array:
    """One whole number or string per instance."""
    array = _array(values)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"{what} holds strings that are not UTF-8") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput(f"{what} must have one entry per instance, (n,); given {array.shape}")
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuU":
        raise InvalidInput(f"{what} must be whole numbers or strings, given {array.dtype}{_instead(array)}")
    return array


def _instead(array: Array) -> str:
    """What to do about labels of such a type."""
    missing = sum(class_name(value) is None for value in array.tolist())
    if missing:
        return f": {missing} of {len(array)} are missing, leave these instances out"
    if array.dtype.kind == "f" and bool((array == np.floor(array)).all()):
        return ": .astype(int) makes whole numbers of them"
    return ""


def _number(labels: dict[str, Array], classes: Sequence[str] | None) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """The class names and every list of labels as numbers 0..k-1."""
    kinds = {array.dtype.kind == "U" for array in labels.values()}
    if len(kinds) > 1:
        raise InvalidInput(f"{', '.join(labels)} must be all numbers or all strings")
    text = kinds.pop()
    if classes is None:
        known = np.unique(np.concatenate([np.unique(array) for array in labels.values()]))
        names = tuple(str(label) for label in known.tolist())
    else:
        names = tuple(str(c) for c in classes)
        known = np.array(names) if text else np.arange(len(names))
    order = np.argsort(known)
    numbered = {}
    for what, array in labels.items():
        place = np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)
        number = order[place]
        strange = np.unique(array[known[number] != array])
        if len(strange):
            raise InvalidInput(
                f"{what}: {amount(len(strange), 'label is', 'labels are')} not among the {len(names)} classes, "
                f"e.g. {strange[0].item()!r}"
            )
        numbered[what] = torch.from_numpy(number.astype(np.int64))
    return names, numbered


def _array(values: Array | Tensor | Sequence[Any]) -> Array:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(
            "instances and labels must be arrays of one shape, given lists of different lengths"
        ) from None
