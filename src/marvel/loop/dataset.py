"""Whatever a loop of one's own trains on, as the run folder needs it: given labels, names, and instances to look at.

    Data                        of `marvel.data.load`: all that is known of it
    (x, y)                      arrays, tensors, a table of pandas, polars or pyarrow and its labels
    TensorDataset, Subset,      of torch; of several datasets in a row, what all of them say
    ConcatDataset
    an image folder             with `root`, `classes` and `samples`, as torchvision's: written back as a folder
    a Hugging Face dataset      with a column of labels
    a table                     of pandas, polars or pyarrow, with a column of labels
    any other                   with a length, whose items are (x, y), (x, ..., y) or dicts with a label

Labels are taken from where they are at hand; where they are not, every item is read once.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from marvel.data.arrays import from_arrays
from marvel.data.classes import check_ids
from marvel.data.core import Data
from marvel.data.folder import list_folder
from marvel.data.origin import Origin, SetAside
from marvel.errors import InvalidInput, MarvelError
from marvel.issues import names_of
from marvel.method import Indexed

LABELS = ("labels", "label", "target", "targets", "y")
"""Keys and attributes that labels go by."""

CHECKED = 8
"""Items whose labels are compared with those that a dataset says it has."""

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Own:
    """A dataset of one's own."""

    name: str
    labels: Labels
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    instance: Callable[[int], Any]
    """What goes into the network, or what that is made from."""
    columns: tuple[str, ...] | None = None
    """The names of the numbers of a vector."""
    origin: Origin | None = None
    """Where instances can be looked at, and written back to; None: what they look like must be kept."""
    set_aside: tuple[SetAside, ...] = ()
    by_alphabet: bool = False
    """Whether the labels are words, and nobody said which is which number."""

    def fingerprint(self) -> str:
        """A sha256 of labels and names: what decisions about them hang on."""
        digest = hashlib.sha256(repr((self.classes, self.ids)).encode())
        digest.update(self.labels.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Found:
    """What a dataset says of itself; None where it does not."""

    instance: Callable[[int], Any]
    labels: Any = None
    classes: Sequence[str] | Mapping[int, str] | None = None
    ids: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    files: Sequence[Path] | None = None
    root: Path | None = None

    def only(self, rows: Sequence[int]) -> "Found":
        """Of some of the instances, in this order."""
        rows = [int(row) for row in rows]

        def some(values: Any) -> Any:
            return None if values is None else [values[row] for row in rows]

        chosen = (some(self.labels), self.classes, some(self.ids), self.columns, some(self.files), self.root)
        return Found(lambda i: self.instance(rows[i]), *chosen)

    @classmethod
    def joined(cls, parts: Sequence["Found"], ends: Sequence[int]) -> "Found":
        """Of several datasets in a row, each up to its end. Names are taken where all have them, and the same."""

        def instance(i: int) -> Any:
            part = bisect_right(ends, i)
            return parts[part].instance(i - (ends[part - 1] if part else 0))

        def all_of(values: Sequence[Any]) -> Any:
            return None if any(one is None for one in values) else [_plain(one) for part in values for one in part]

        def agreed(values: Sequence[Any]) -> Any:
            told = [list(one.items() if isinstance(one, Mapping) else one) for one in values if one is not None]
            return values[0] if len(told) == len(values) and all(one == told[0] for one in told) else None

        ids = all_of([part.ids for part in parts])
        return cls(
            instance,
            all_of([part.labels for part in parts]),
            agreed([part.classes for part in parts]),
            ids if ids is not None and len(set(ids)) == len(ids) else None,  # each may count its own rows from 0
            agreed([part.columns for part in parts]),
            all_of([part.files for part in parts]),
            next(iter(roots)) if len(roots := {part.root for part in parts}) == 1 else None,
        )


def read_own(
    data: Any,
    n: int,
    classes: int,
    labels: Any = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
    ids: Sequence[str] | None = None,
    name: str = "data",
) -> Own:
    """The dataset that a criterion of `n` instances and so many classes was trained on.

    `name` is what it is called where it does not say itself.
    """
    if isinstance(data, Indexed):
        data = data.dataset
    if isinstance(data, Data):
        found, name = _of_data(data), data.name
    else:
        found = look_into(data, n, labels is None)
        name = name if found.root is None else found.root.name
    own_names = found.classes if names is None else names
    own_names = names_of(own_names, classes) if isinstance(own_names, Mapping) else own_names
    is_named = own_names is not None
    numbered, own_names = _numbered(found.labels if labels is None else labels, own_names, n, classes)
    known = found.ids if ids is None else ids
    own_ids = tuple(map(str, range(n) if known is None else known))
    if len(own_ids) != n:
        raise InvalidInput(f"expected {n} ids, one for each instance, got {len(own_ids)}")
    check_ids("ids", own_ids)
    own = Own(
        name,
        numbered,
        own_names,
        own_ids,
        found.instance,
        None if found.columns is None else tuple(map(str, found.columns)),
        by_alphabet=not is_named and own_names != tuple(map(str, range(classes))),
    )
    if isinstance(data, Data):
        as_read = np.array_equal(numbered, data.y.numpy()) and ids is None
        return _with(own, data.origin if as_read else None, own_ids, data.set_aside if as_read else ())
    return own if found.files is None or ids is not None else _of_folder(own, found)


def look_into(data: Any, n: int, labelled: bool = True) -> Found:
    """What the dataset says of itself. `labelled`: its labels are wanted, if every item has to be read for them."""
    if isinstance(data, Indexed):
        return look_into(data.dataset, n, labelled)
    if isinstance(data, Subset):
        _check_length(len(data.indices), n)
        return look_into(data.dataset, len(data.dataset), labelled).only(data.indices)  # type: ignore[arg-type]
    if isinstance(data, ConcatDataset):
        _check_length(len(data), n)
        sized: list[Any] = data.datasets
        return Found.joined([look_into(part, len(part), labelled) for part in sized], data.cumulative_sizes)
    if isinstance(data, tuple | list) and len(data) == 2 and _length(data[0]) == n == _length(data[1]):
        return _of_pair(*data)
    if isinstance(data, tuple) and len(data) == 2 != n:
        lengths = " and y ".join(str(_length(part)) for part in data)
        raise InvalidInput(f"the criterion is of {n} instances, and of the pair (x, y) x has {lengths}")
    if not hasattr(data, "__getitem__") or _length(data) is None:
        raise InvalidInput(
            f"data is what the criterion was trained on: a dataset with a length, a pair (x, y) or marvel's Data; "
            f"got {type(data).__name__}"
        )
    _check_length(len(data), n)
    if isinstance(data, TensorDataset):
        *x, y = data.tensors
        return Found(lambda i: tuple(part[i] for part in x) if len(x) > 1 else x[0][i], y)
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return _of_huggingface(data)
    row = _rows_of(data)
    if row is not None:
        return _of_table(data, row)
    known = next((values for key in LABELS if _length(values := _in_order(getattr(data, key, None))) == n), None)
    kept = known
    if getattr(data, "target_transform", None) is not None:
        known = None
    if known is None and labelled:
        known = [_label_of(data[i]) for i in range(n)]
    elif labelled:
        _check_labels(data, known, n)
    samples: Any = getattr(data, "samples", None)
    is_files = isinstance(samples, list | tuple) and len(samples) == n and _is_pair(samples[0])
    return Found(
        lambda i: _without_label(data[i]),
        known,
        _names_in_order(getattr(data, "classes", None)) if _same(kept, known) else None,
        files=[Path(str(path)) for path, _ in samples] if is_files else None,
        root=Path(str(data.root)) if is_files and hasattr(data, "root") else None,
    )


# ------------------------------------------------------------ kinds of datasets


def _of_data(data: Data) -> Found:
    return Found(lambda i: data.x[torch.tensor([i])][0], data.y, data.classes, data.ids)


def _of_pair(x: Any, y: Any) -> Found:
    row = _rows_of(x)
    if row is not None:
        return Found(row, np.asarray(y), ids=_row_names(x))
    if hasattr(x, "iloc"):  # a Series, of texts for one
        return Found(lambda i: x.iloc[i], np.asarray(y), ids=_row_names(x))
    return Found(lambda i: x[i], y)


def _of_table(data: Any, row: Callable[[int], dict[Any, Any]]) -> Found:
    columns = list(getattr(data, "column_names", data.columns))
    label = next((key for key in LABELS if key in columns), None)
    known = None if label is None else np.asarray(data[label])
    return Found(lambda i: _without_label(row(i)), known, ids=_row_names(data))


def _rows_of(table: Any) -> Callable[[int], dict[Any, Any]] | None:
    """The rows of a table of pandas, polars or pyarrow, each by its place; None: it is no such table."""
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return lambda i: dict(table.iloc[i].items())
    if hasattr(table, "row") and hasattr(table, "columns"):
        return lambda i: dict(table.row(i, named=True))
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        return lambda i: dict(table.slice(i, 1).to_pylist()[0])
    return None


def _row_names(table: Any) -> list[str] | None:
    """The index of a DataFrame or Series, where it tells the rows apart."""
    names = [str(name) for name in table.index] if hasattr(table, "iloc") else []
    return names if names and len(set(names)) == len(names) else None


def _of_huggingface(data: Any) -> Found:
    label = next((key for key in LABELS if key in data.column_names), None)
    if label is None:
        return Found(lambda i: _without_label(data[i]))
    names = getattr(data.features[label], "names", None)
    # Beside a transform: it may not know the column.
    plain = data.with_format(None)
    return Found(lambda i: _without_label(data[i]), list(plain[label]), names)


def _of_folder(own: Own, found: Found) -> Own:
    """Where the files are a folder of class folders, whole and labelled as they lie, it can be written back as one."""
    assert found.files is not None
    try:
        listed = None if found.root is None else list_folder(found.root)
    except (MarvelError, OSError):
        listed = None
    if listed is not None and found.root is not None and listed.classes == own.classes:
        place = {path.resolve(): row for row, path in enumerate(listed.paths)}
        rows = [place.get(path.resolve(), -1) for path in found.files]
        if -1 not in rows and len(set(rows)) == len(rows):
            ids = tuple(listed.id(listed.paths[row]) for row in rows)
            as_they_lie = [listed.y[row] for row in rows] == own.labels.tolist()
            origin = Origin("folder", str(found.root.resolve()), part=listed.part).at(np.array(rows))
            return _with(own, origin if as_they_lie else None, ids, ())
    ids = tuple(map(str, found.files))
    return own if len(set(ids)) < len(ids) else _with(own, None, ids, ())


def _with(own: Own, origin: Origin | None, ids: tuple[str, ...], set_aside: tuple[SetAside, ...]) -> Own:
    return replace(own, ids=ids, origin=origin, set_aside=set_aside)


# ------------------------------------------------------------ items and labels


def _in_order(values: Any) -> Any:
    """Values by their places, whatever names the rows of a Series have; None: they are not one for each instance."""
    if getattr(values, "ndim", 1) != 1:  # one-hot, or a table
        return None
    return np.asarray(values) if hasattr(values, "iloc") else values


def _same(kept: Any, given: Any) -> bool:
    """Whether labels mean what the dataset's names of classes are of, and a transform has not numbered them anew."""
    return kept is None or given is None or kept is given or [_plain(one) for one in kept] == list(given)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, Tensor | np.generic) else label


def _names_in_order(names: Any) -> Any:
    """What a dataset calls its classes, where that has an order: not of a set, nor of their number."""
    return None if isinstance(names, str) or _length(names) is None or not hasattr(names, "__getitem__") else names


def _is_pair(sample: Any) -> bool:
    return isinstance(sample, tuple) and len(sample) == 2


def _label_of(item: Any) -> Any:
    if isinstance(item, Mapping):
        found = next((item[key] for key in LABELS if key in item), None)
    else:
        found = item[-1] if isinstance(item, tuple | list) and len(item) > 1 else None
    if found is None:
        raise InvalidInput(
            "items should be (x, y), or dicts with 'labels' or 'label': say the given labels with labels=..."
        )
    if isinstance(found, Tensor) and found.numel() != 1:
        raise InvalidInput(
            f"the label of an item should be one class, got a tensor of shape {tuple(found.shape)}: say the given "
            "labels with labels=..."
        )
    return _plain(found)


def _check_labels(data: Any, known: Any, n: int) -> None:
    """A few items have the labels that the dataset says it has; one that makes labels anew would mislead."""
    for i in range(0, n, max(1, n // CHECKED)):
        said = _plain(known[i])
        shown = _label_of(data[i])
        if shown != said:
            raise InvalidInput(
                f"the dataset gives item {i} the label {shown}, and says that it is {said}: say which with labels=..."
            )


def _without_label(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {key: value for key, value in item.items() if key not in (*LABELS, "index")}
    if isinstance(item, tuple | list) and len(item) > 1:
        return item[0] if len(item) == 2 else tuple(item[:-1])
    return item


def _numbered(labels: Any, names: Sequence[str] | None, n: int, classes: int) -> tuple[Labels, tuple[str, ...]]:
    """Labels as the numbers of classes, and the classes' names."""
    if labels is None:
        raise InvalidInput("this dataset does not say its labels: give them with labels=...")
    if isinstance(labels, Sequence) and any(isinstance(one, Tensor) for one in labels[:1]):
        labels = [int(one) for one in labels]
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.shape != (n,):
        raise InvalidInput(f"expected {n} labels, one for each instance, got shape {array.shape}")
    if names is not None and len(names) != classes:
        raise InvalidInput(f"the criterion knows {classes} classes, and {len(names)} names of classes were given")
    if names is None and array.dtype.kind in "biu":
        names = [str(c) for c in range(classes)]
    # As all labels are read; the instances mean nothing here.
    read = from_arrays(np.zeros((n, 1), dtype=np.float32), array, classes=None if names is None else list(names))
    if len(read.classes) != classes:
        raise InvalidInput(f"the criterion knows {classes} classes, and the labels are {len(read.classes)} different")
    return read.y.numpy(), read.classes


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


def _check_length(length: int, n: int) -> None:
    if length != n:
        raise InvalidInput(f"the criterion is of {n} instances, and the dataset has {length}")
