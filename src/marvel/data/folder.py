"""A folder of class folders of images, read from disk when they are asked for.

    FOLDER/cat/1.jpg, FOLDER/dog/2.png, ...                                 the class is the name of the folder
    FOLDER/train/cat/..., and FOLDER/test/ or FOLDER/val/ beside it         with a test set

Every image becomes `size` x `size` pixels: its shorter side is scaled, the middle of the longer one taken. JPEGs are
decoded at the nearest of the scales their format offers, so that a large photograph costs little more than a small
one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from marvel.data.core import Data
from marvel.errors import DataError

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
LARGEST = 224
"""The size of images that are larger still."""
SAMPLE = 256
"""How many images mean and std are taken of."""


class ImageFiles(Dataset[Tensor]):
    """Images on disk, where a tensor (n, 3, size, size) of them would stand; a selection of them is one again."""

    dtype = torch.uint8
    ndim = 4

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths, self.size = list(paths), size

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), 3, self.size, self.size))

    def numel(self) -> int:
        return self.shape.numel()

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: Tensor) -> "ImageFiles": ...
    def __getitem__(self, index: int | Tensor) -> "Tensor | ImageFiles":
        if isinstance(index, Tensor):
            chosen = index.nonzero().squeeze(1) if index.dtype == torch.bool else index
            return ImageFiles([self.paths[i] for i in chosen.tolist()], self.size)
        return read_image(self.paths[index], self.size)

    def facts(self) -> bytes:
        """What tells these files from others, without reading them: their names and lengths."""
        return "\n".join(f"{path.parent.name}/{path.name} {path.stat().st_size}" for path in self.paths).encode()

    def sample(self) -> Tensor:
        """Some of the images, evenly spread."""
        chosen = np.linspace(0, len(self) - 1, min(SAMPLE, len(self)), dtype=int)
        return torch.stack([self[int(i)] for i in chosen])


def read_image(path: Path, size: int) -> Tensor:
    """(3, size, size), uint8."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.draft("RGB", (size, size))
            upright = ImageOps.exif_transpose(image).convert("RGB")
            return torch.from_numpy(np.array(ImageOps.fit(upright, (size, size)))).permute(2, 0, 1).contiguous()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image ({error}); mend or remove it") from None


def read_folder(folder: Path, size: int | None = None) -> Data:
    """The images below `folder`; `size` by default that of the first of them, at most 224."""
    train = folder / "train" if (folder / "train").is_dir() else folder
    aside = [folder / name for name in ("test", "val") if train != folder and (folder / name).is_dir()]
    classes = sorted(path.name for path in train.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths, y = _labelled(train, classes)
    if len(classes) < 2 or not paths:
        raise DataError(f"{train} must hold a folder of images for each of at least two classes, found {classes}")
    if size is None:
        size = min(LARGEST, *_dimensions(paths[0]))
    images = ImageFiles(paths, size)
    test: dict[str, Any] = {}
    if aside:
        test_paths, test_y = _labelled(aside[0], classes)
        if test_paths:
            test = {"test_x": ImageFiles(test_paths, size), "test_y": torch.tensor(test_y)}
    return Data(folder.name, images, torch.tensor(y), tuple(classes), augment="crop-flip", **test)


def _labelled(folder: Path, classes: Sequence[str]) -> tuple[list[Path], list[int]]:
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]
    return [path for path, _ in found], [label for _, label in found]


def _dimensions(path: Path) -> tuple[int, int]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.size
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image ({error}); mend or remove it") from None
