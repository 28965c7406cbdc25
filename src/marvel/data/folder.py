"""A folder of class folders of images.

FOLDER/cat/1.jpg, FOLDER/dog/2.png, ...                                 the class is the name of the folder
FOLDER/train/cat/..., and FOLDER/test/ or FOLDER/val/ beside it         with a test set
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marvel.data.classes import check_classes
from marvel.data.core import Data
from marvel.data.images import LARGEST, SUFFIXES, Watch, check_images
from marvel.data.origin import Origin, SetAside
from marvel.errors import DataError, amount

PARTS = ("test", "val")
"""Folders beside `train` that are taken as the test set, the first that is there."""


@dataclass(frozen=True)
class ClassFolders:
    """What lies in class folders: paths with their classes, in a fixed order."""

    folder: Path
    part: str | None
    classes: tuple[str, ...]
    paths: list[Path]
    y: list[int]

    def id(self, path: Path) -> str:
        return readable(path.relative_to(self.folder))


def readable(path: Path) -> str:
    """With forward slashes; bytes that are no UTF-8 are spelled out."""
    return os.fsencode(path.as_posix()).decode("utf-8", errors="backslashreplace")


def list_folder(folder: Path) -> ClassFolders:
    """The images of the training part, and their classes."""
    part = "train" if (folder / "train").is_dir() else None
    train = folder / part if part else folder
    classes = sorted(path.name for path in train.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths, y = labelled(train, classes)
    if not paths:
        raise DataError(f"{train} {_instead_of_images(train, classes)}")
    if len(set(y)) < 2:
        only = train / classes[y[0]]
        inside = sorted(path.name for path in only.iterdir() if path.is_dir() and not path.name.startswith("."))
        hint = f"; if {inside[0]} and {inside[1]} in it are classes, give {only}" if len(inside) > 1 else ""
        raise DataError(
            f"{train} must hold a folder of images for each of at least two classes, and has '{only.name}' only{hint}"
        )
    return ClassFolders(folder, part, tuple(classes), paths, y)


def read_folder(
    folder: Path,
    size: int | None = None,
    hold: bool | None = None,
    watch: Watch | None = None,
    largest: int = LARGEST,
) -> Data:
    """The images below `folder` that can be read; `size`, `hold` and `largest` are those of `check_images`."""
    found = list_folder(folder)
    named = [place for place, path in enumerate(found.paths) if _is_text(path)]
    ids = [found.id(found.paths[place]) for place in named]
    checked = check_images([found.paths[place] for place in named], size, hold, watch, largest)
    if not checked.good:
        said = f", e.g. {ids[0]}: {checked.wrong[0]}" if ids else ""
        raise DataError(f"none of the {len(found.paths)} images in {folder} can be read{said}")
    strange = [(found.id(path), row) for row, path in enumerate(found.paths) if not _is_text(path)]
    set_aside = [SetAside(id, "its name is not UTF-8: rename it", row) for id, row in strange]
    set_aside += [SetAside(ids[i], reason, named[i]) for i, reason in checked.wrong.items()]
    notes = checked.notes(ids)
    test, test_aside = _test_set(found, checked.images.size, hold, watch)
    name = folder.name or folder.resolve().name  # "." has none
    rows = [named[i] for i in checked.good]
    y = [found.y[row] for row in rows]
    notes += check_classes(name, y, found.classes)
    origin = Origin("folder", str(folder.resolve()), part=found.part)
    return Data(
        name,
        checked.images,
        torch.tensor(y),
        found.classes,
        augment="crop-flip",
        ids=tuple(ids[i] for i in checked.good),
        origin=origin.at(np.array(rows)),
        set_aside=(*set_aside, *test_aside),
        notes=tuple(notes),
        **test,
    )


def _test_set(
    found: ClassFolders, size: int, hold: bool | None, watch: Watch | None
) -> tuple[dict[str, Any], list[SetAside]]:
    """Of the test part, where there is one: the images that can be read, as `Data` takes them, and what cannot be."""
    there = [found.folder / name for name in PARTS if found.part and (found.folder / name).is_dir()]
    if not there:
        return {}, []
    paths, y = labelled(there[0], found.classes)
    seen = check_images(paths, size, hold, watch)
    set_aside = [SetAside(found.id(paths[i]), reason) for i, reason in seen.wrong.items()]
    test = {"test_x": seen.images, "test_y": torch.tensor([y[i] for i in seen.good])} if seen.good else {}
    return test, set_aside


def labelled(folder: Path, classes: Sequence[str]) -> tuple[list[Path], list[int]]:
    """The images in the class folders of that name, and the numbers of their classes."""
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted(_files_below(folder / name))
        if path.suffix.lower() in SUFFIXES and (path.is_file() or _is_broken_link(path))
    ]
    return [path for path, _ in found], [label for _, label in found]


def _files_below(folder: Path) -> Iterator[Path]:
    """All files but hidden ones, which programs leave beside people's own: previews, copies, notes of the system. A
    folder that may not be read is an error, and not an empty one as it is to `rglob`; one that is not there has none: a
    class may be without test images."""

    def refuse(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error

    for at, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(at, name) for name in names if not name.startswith("."))


def _is_text(path: Path) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in str(path))


def _is_broken_link(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _instead_of_images(folder: Path, classes: Sequence[str]) -> str:
    """What is there, and what to do about it."""
    wanted = "; wanted is a folder of images for each of at least two classes"
    inside = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    if not inside:
        return f"is empty{wanted}"
    if classes:
        return f"has folders ({', '.join(classes[:5])}) but no image in them{wanted}"
    images = [path for path in inside if path.suffix.lower() in SUFFIXES]
    tables = [path.name for path in inside if path.suffix.lower() in (".csv", ".tsv", ".parquet")]
    if tables:
        return f"has no class folders{wanted}; if {tables[0]} says what the images are, give its path"
    if images:
        loose = amount(len(images), "image")
        return f"holds {loose} without class folders{wanted}, or a table with a path and a label column"
    return f"holds no images{wanted}"
