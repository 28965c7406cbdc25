"""Data from arrays in memory or from an .npz file.

Vectors are (n, D); images are (n, H, W), (n, H, W, C) or (n, C, H, W) with 1, 3 or 4 channels. Labels are whole
numbers or strings, one per instance; without class names the classes are the labels that occur, sorted.
"""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marvel.data.core import Data
from marvel.errors import DataError, InvalidInput

Array = npt.NDArray[Any]
CHANNELS = (1, 3, 4)
KEYS = ("x", "y", "x_test", "y_test", "clean", "classes")


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


def read_npz(path: Path) -> Data:
    """Data of an .npz file with the arrays x and y, and where there are any x_test, y_test, clean and classes."""
    arrays = open_npz(path)
    missing = [key for key in ("x", "y") if key not in arrays]
    unknown = sorted(set(arrays) - set(KEYS))
    if missing or unknown:
        raise DataError(
            f"{path}: needs the arrays x and y, and may have {', '.join(KEYS[2:])}; "
            f"{'missing ' + ', '.join(missing) if missing else 'not known: ' + ', '.join(unknown)}"
        )
    classes = arrays.get("classes")
    try:
        names = None if classes is None else [str(c) for c in _labels("classes", classes).tolist()]
        return from_arrays(
            arrays["x"],
            arrays["y"],
            arrays.get("x_test"),
            arrays.get("y_test"),
            classes=names,
            name=path.stem,
            clean=arrays.get("clean"),
        )
    except InvalidInput as error:
        raise DataError(f"{path}: {error}") from None


def open_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz file; one with Python objects in it is refused, since reading those runs code."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                return {key: archive[key] for key in archive.files}
    except (OSError, EOFError, ValueError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path}: holds Python objects, which are never unpickled; "
                "save labels as numpy.array(labels, dtype=str)"
            ) from None
        raise DataError(f"{path}: not a readable .npz file ({error})") from None
    raise DataError(f"{path}: not an .npz archive; numpy.savez writes one")


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
    return torch.from_numpy(np.array(array, dtype=np.uint8 if whole else np.float32, order="C"))


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
        raise InvalidInput(f"{what} must be whole numbers or strings, given {array.dtype}")
    return array


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
                f"{what}: {len(strange)} labels are not among the {len(names)} classes, e.g. {strange[0].item()!r}"
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
