"""A Hugging Face dataset that `save_to_disk` wrote: images, texts or numbers, with the names its ClassLabel has."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.data.classes import check_ids, number_labels
from marvel.data.core import Data
from marvel.data.images import Embedded, Picture
from marvel.data.origin import Origin
from marvel.data.tables import LABELS, Options, Rows, data_of, family, find_column, label_column
from marvel.errors import DataError, InvalidInput, MissingExtra

MARKS = ("state.json", "dataset_dict.json")
"""Files by which the folder is known, of one dataset and of several splits."""
TESTS = ("test", "validation", "val", "valid")


def is_huggingface(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


def open_splits(folder: Path) -> dict[str, Any]:
    """The splits by their names; a dataset without any is `train`."""
    try:
        import datasets
    except ImportError:
        raise MissingExtra("a Hugging Face dataset", "datasets", "hf") from None
    try:
        found = datasets.load_from_disk(str(folder))
    except Exception as error:
        # Arrow, JSON and datasets itself each have errors of their own for a damaged folder.
        raise DataError(f"{folder} cannot be read as a Hugging Face dataset: {error}") from None
    return dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}


def training_split(folder: Path, splits: dict[str, Any]) -> str:
    if "train" in splits:
        return "train"
    if len(splits) > 1:
        raise DataError(f"{folder} has the splits {', '.join(splits)} and none called train: save that one by itself")
    return next(iter(splits))


def read_huggingface(folder: Path, options: Options) -> Data:
    """The training split, and a test set where there is a split of that name."""
    splits = open_splits(folder)
    part = training_split(folder, splits)
    tests = [name for name in TESTS if name in splits and name != part]
    chosen = [part, *tests[:1]]
    dataset = splits[part]
    names = list(dataset.column_names)
    label, notes = _label(folder, dataset.features, options.label)
    for name in chosen[1:]:
        find_column(f"{folder}, split {name}", splits[name].column_names, label)

    tables = [arrow(splits[name]) for name in chosen]
    y, classes = _numbered(dataset.features[label], [value for table in tables for value in table[label].to_pylist()])
    test = np.arange(len(y)) >= tables[0].num_rows
    ids = _ids(folder, tables[0], options.id)
    ids += [f"{name}/{row}" for name, table in zip(chosen[1:], tables[1:]) for row in range(table.num_rows)]

    images = image_columns(dataset)
    if len(images) > 1:
        raise InvalidInput(f"{folder} has several columns of images ({', '.join(images)}): keep one of them")
    pictures: list[Picture | None] | None = None
    rest: Any = None
    if images:
        pictures = [Embedded(table[images[0]], row) for table in tables for row in range(table.num_rows)]
    else:
        taken = {label, *family(label, names), options.id}
        rest = _joined(folder, tables, [name for name in names if name not in taken])
    name = folder.name or folder.resolve().name  # "." has none
    rows = Rows(
        name,
        name,
        y,
        classes,
        ids,
        Origin("huggingface", str(folder.resolve()), label, id=options.id, part=part),
        features=rest,
        pictures=pictures,
        test=test if len(chosen) > 1 else None,
        notes=tuple(notes),
    )
    return data_of(rows, options)


def image_columns(dataset: Any) -> list[str]:
    import datasets

    return [name for name, kind in dataset.features.items() if isinstance(kind, datasets.Image)]


def arrow(dataset: Any) -> Any:
    """All of it as an Arrow table, in the order the dataset has."""
    return dataset.with_format("arrow")[:]


def _label(folder: Path, features: Any, wanted: str | None) -> tuple[str, list[str]]:
    """The column named, else the only one with class names, else one of the usual names."""
    import datasets

    named = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    usual = {name.lower() for name in named} & set(LABELS)
    if wanted is None and len(named) == 1 and not usual:
        return named[0], []
    return label_column(str(folder), list(features), wanted)


def _numbered(kind: Any, values: list[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers, -1 where there is none, and the names of the classes."""
    import datasets

    if isinstance(kind, datasets.ClassLabel):
        return np.array([-1 if value is None else value for value in values], dtype=np.int64), tuple(kind.names)
    labels = number_labels(values)
    return labels.y, labels.classes


def _ids(folder: Path, table: Any, wanted: str | None) -> list[str]:
    """What the column named calls the rows; else their numbers."""
    if wanted is None:
        return [str(row) for row in range(table.num_rows)]
    ids = [str(value) for value in table[find_column(str(folder), table.column_names, wanted)].to_pylist()]
    check_ids(f"{folder}, column '{wanted}'", ids)
    return ids


def _joined(folder: Path, tables: list[Any], names: list[str]) -> Any:
    import pyarrow

    try:
        return pyarrow.concat_tables([table.select(names) for table in tables], promote_options="permissive")
    except (pyarrow.ArrowException, KeyError) as error:
        raise DataError(f"{folder}: its splits have different columns ({error})") from None
