"""A dataset of images that is a list of files: what it should hold, and what of it is there.

Lists name their files before anybody has looked for them. So a listing can be counted and checked without reading an
image, read as it is (`read_listing`), or written as shards (`marvel.prepare`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from marvel.data.classes import check_classes
from marvel.data.core import Data
from marvel.data.folder import PARTS, list_folder, readable
from marvel.data.folder import labelled as class_folders
from marvel.data.images import Checked, ImageFiles, Watch, check_images
from marvel.data.origin import Origin, SetAside
from marvel.errors import DataError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224
"""Of the network's input, where images are cut out of larger ones."""


@dataclass(frozen=True)
class Part:
    """Files of one part with their labels, in a fixed order."""

    paths: Sequence[Path]
    ids: Sequence[str]
    y: Sequence[int]

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class Listing:
    """What a dataset is made of.

    folder    where it lies: ids are paths from here
    parts     "train", and where there are such parts "val" and "test"
    expected  how many instances each part has where the dataset is whole
    augment   what training views do; with "resized-crop-flip" parts of `SIZE` are cut out of the images
    mean      per channel; () where those of the images are taken
    """

    name: str
    folder: Path
    classes: tuple[str, ...]
    parts: Mapping[str, Part]
    expected: Mapping[str, int] = field(default_factory=dict)
    augment: str = "resized-crop-flip"
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    notes: tuple[str, ...] = ()
    origin: str = "listed"
    """The kind of it: "folder" where the classes are folders."""

    @property
    def test(self) -> str | None:
        """The part that is tested on: `val` only where there is no other."""
        return next((name for name in PARTS if name in self.parts), None)

    def source(self) -> Origin:
        part = "train" if self.origin == "folder" and (self.folder / "train").is_dir() else None
        return Origin(self.origin, str(self.folder.resolve()), part=part)

    def digest(self) -> str:
        """A sha256 of ids and labels: equal exactly where two listings say the same."""
        told = hashlib.sha256(repr((self.name, self.classes)).encode())
        for name, part in self.parts.items():
            told.update(f"{name} {len(part)}\n".encode())
            for id, label in zip(part.ids, part.y, strict=True):
                told.update(f"{id}\t{label}\n".encode(errors="surrogateescape"))
        return told.hexdigest()

    def counted(self) -> list[str]:
        """A sentence for each part that holds another number of instances than it should."""
        return [
            f"{self.name}: part '{name}' lists {len(self.parts[name]):,} instances, where {number:,} are expected"
            for name, number in self.expected.items()
            if len(self.parts[name]) != number
        ]


def from_class_folders(
    folder: Path, name: str, expected: Mapping[str, int] | None = None, augment: str | None = None
) -> Listing:
    """A folder of class folders, with `train` and `test` or `val` in it or without."""
    found = list_folder(folder)
    parts = {"train": _part(folder, found.paths, found.y)}
    for other in PARTS:
        if found.part and (folder / other).is_dir():
            parts[other] = _part(folder, *class_folders(folder / other, found.classes))
    known = {key: number for key, number in (expected or {}).items() if key in parts}
    if augment == "resized-crop-flip":
        return Listing(name, folder, found.classes, parts, known, origin="folder")
    return Listing(name, folder, found.classes, parts, known, augment or "crop-flip", (), (), origin="folder")


def _part(folder: Path, paths: Sequence[Path], y: Sequence[int]) -> Part:
    return Part(paths, [readable(path.relative_to(folder)) for path in paths], y)


def read_listing(
    listing: Listing, size: int | None = None, hold: bool | None = None, watch: Watch | None = None
) -> Data:
    """The images that can be read; what cannot be is set aside by name."""
    crops = listing.augment == "resized-crop-flip"
    set_aside: list[SetAside] = []
    size = size or (SIZE if crops else None)

    def checked(name: str, rows: bool, size: int | None) -> Checked:
        part = listing.parts[name]
        seen = check_images(part.paths, size, False if crops else hold, watch)
        if not seen.good:
            raise DataError(
                f"none of the {len(part):,} images of part '{name}' of {listing.name} can be read, e.g. "
                f"{part.paths[0]}: {seen.wrong[0]}"
            )
        set_aside.extend(SetAside(part.ids[i], why, i if rows else None) for i, why in seen.wrong.items())
        return seen

    train = listing.parts["train"]
    seen = checked("train", True, size)
    test_x = test_y = None
    if listing.test is not None:
        judged = checked(listing.test, False, seen.images.size)
        test_x = ImageFiles(judged.images.paths, judged.images.size, judged.images.held, crops)
        test_y = torch.tensor([listing.parts[listing.test].y[i] for i in judged.good])
    y = torch.tensor([train.y[i] for i in seen.good])
    return Data(
        listing.name,
        ImageFiles(seen.images.paths, seen.images.size, seen.images.held, crops),
        y,
        listing.classes,
        test_x,
        test_y,
        augment=listing.augment,
        mean=listing.mean,
        std=listing.std,
        ids=tuple(train.ids[i] for i in seen.good),
        origin=listing.source().at(np.array(seen.good)),
        set_aside=tuple(set_aside),
        notes=(
            *listing.notes,
            *listing.counted(),
            *seen.notes(train.ids),
            *check_classes(listing.name, y.numpy(), listing.classes),
        ),
    )


def read_lines(path: Path) -> list[str]:
    """The lines of a list that hold anything."""
    try:
        with open(path, encoding="utf-8") as file:
            return [line for raw in file if (line := raw.strip())]
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text file ({error}); get a fresh copy") from None


def read_pairs(path: Path, classes: int) -> tuple[list[str], list[int]]:
    """The names and labels of a list of lines `name label`."""
    names, labels = [], []
    for number, line in enumerate(read_lines(path), 1):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdigit() or int(label) >= classes:
            raise DataError(
                f"{path}, line {number}: expected a file and a class of 0..{classes - 1}, found '{line[:80]}'; "
                "get a fresh copy"
            )
        names.append(name.strip())
        labels.append(int(label))
    return names, labels
