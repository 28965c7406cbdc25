"""Images in files: read when they are asked for, or held in memory; those that cannot be read are said by name.

Every image becomes `size` x `size` pixels of three bytes: its shorter side is scaled, the middle of the longer one
taken. JPEGs are decoded at the nearest of the scales their format offers, so that a large photograph costs little more
than a small one. 16-bit levels 0..65535 become 0..255.

All images are decoded once before training, on all cores: a truncated file shows in no other way, and an epoch that
breaks off hours later costs more. That pass takes about what one epoch's reading takes. Images that fit into `HELD`
bytes at their new size are kept from it, so that nothing is decoded twice.
"""

import io
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from marvel.data.crops import Cut, centre, random_part
from marvel.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
SMALLEST, LARGEST = 8, 224
"""The size of images that are smaller or larger still."""
SAMPLE = 256
"""How many images the size, mean and std are taken of."""
HELD = 2**30
"""Bytes of pixels up to which images are held in memory."""
PORTION = 4096
"""Images that are handed to the pool at a time."""
NAMED = 3
"""How many files a note names."""
ORIENTATION = 0x0112
"""The EXIF tag of it; from 5 on width and height change places."""

Watch: TypeAlias = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is, and how much there is."""


class Encoded(ABC):
    """An encoded image that is no file of its own."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def read(self) -> bytes: ...


@dataclass(frozen=True)
class Embedded(Encoded):
    """An encoded image inside a column of a table: an Arrow array of {bytes, path}."""

    column: Any
    row: int

    @property
    def name(self) -> str:
        return str(self.row)

    def read(self) -> bytes:
        cell = self.column[self.row].as_py()
        if cell is None:
            raise OSError("there is no image")
        content: bytes = cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()
        return content


Picture: TypeAlias = Path | Encoded


class Pictures(Sequence[Picture]):
    """Pictures by their index, which need not all be objects in memory."""

    @abstractmethod
    def take(self, index: Sequence[int]) -> "Pictures":
        """These of them, in this order."""

    @abstractmethod
    def facts(self) -> bytes:
        """What tells them from others, without reading them."""


class Listed(Pictures):
    """Pictures one by one."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self.pictures = list(pictures)

    def __len__(self) -> int:
        return len(self.pictures)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> "Listed": ...
    def __getitem__(self, index: int | slice) -> "Picture | Listed":
        return Listed(self.pictures[index]) if isinstance(index, slice) else self.pictures[index]

    def take(self, index: Sequence[int]) -> "Listed":
        return Listed([self.pictures[i] for i in index])

    def facts(self) -> bytes:
        return "\n".join(_facts(picture) for picture in self.pictures).encode(errors="surrogateescape")


class ImageFiles(Dataset[Tensor]):
    """Images on disk, where a tensor (n, 3, size, size) of them would stand; a selection of them is one again.

    `held` is that tensor, where there is room for it. With `crops` the images are larger than what is trained on: a
    part of them, another one each epoch, is cut out as they are decoded (`marvel.data.crops`).
    """

    dtype = torch.uint8
    ndim = 4

    def __init__(self, paths: Sequence[Picture], size: int, held: Tensor | None = None, crops: bool = False) -> None:
        self.paths = paths if isinstance(paths, Pictures) else Listed(paths)
        self.size, self.held, self.crops = size, held, crops

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
            held = None if self.held is None else self.held[chosen]
            return ImageFiles(self.paths.take(chosen.tolist()), self.size, held, self.crops)
        if self.held is not None:
            return self.held[index]
        return read_image(self.paths[index], self.size, centre if self.crops else None)

    def part(self, index: int, seed: int) -> Tensor:
        """A random part of an image, a function of the epoch's seed."""
        return read_image(self.paths[index], self.size, random_part(seed, index))

    def facts(self) -> bytes:
        """What tells these files from others, without reading them: their names and lengths."""
        return self.paths.facts()

    def sample(self) -> Tensor:
        """Some of the images, evenly spread."""
        return torch.stack([self[i] for i in _spread(len(self))])


def _facts(picture: Picture) -> str:
    if isinstance(picture, Path):
        return f"{picture.parent.name}/{picture.name} {picture.stat().st_size}"
    return f"{picture.name} {len(picture.read())}"


def _spread(n: int) -> list[int]:
    """Places of at most SAMPLE of n things, evenly spread."""
    return [int(place) for place in np.linspace(0, n - 1, min(SAMPLE, n), dtype=int)]


# ---------------------------------------------------------------------------------------------- one image


def read_image(picture: Picture, size: int, cut: Cut | None = None) -> Tensor:
    """(3, size, size), uint8: the middle of the image, or the part that `cut` says."""
    seen = look(picture, size, cut)
    if seen.pixels is None:
        name = picture if isinstance(picture, Path) else f"image {picture.name}"
        raise DataError(f"{name} cannot be read as an image ({seen.wrong}); mend or remove it")
    return seen.pixels


@dataclass(frozen=True, eq=False)
class Look:
    """What one image turned out to be: its pixels and what was converted, or what is wrong with it."""

    pixels: Tensor | None = None
    converted: str | None = None
    wrong: str | None = None


def look(picture: Picture, size: int, cut: Cut | None = None) -> Look:
    """Decode one image; whatever is wrong with it is said, not raised."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        if isinstance(picture, Path):
            if not picture.is_file():  # a pipe would be waited for
                return Look(wrong="there is no such file")
            if picture.stat().st_size == 0:
                return Look(wrong="the file is empty")
        with open_picture(picture) as image:
            converted = _depth(image)
            if cut is None:
                image.draft("RGB", (size, size))
                upright = as_rgb(ImageOps.exif_transpose(image))
                array = np.array(ImageOps.fit(upright, (size, size)))
            else:
                array = np.array(_part(image, size, cut))
            return Look(torch.from_numpy(array).permute(2, 0, 1).contiguous(), converted)
    except DataError:  # of a shard that is not what was written: no fault of the image
        raise
    except FileNotFoundError:
        return Look(wrong="there is no such file")
    except Image.DecompressionBombError:
        return Look(wrong=f"more than {Image.MAX_IMAGE_PIXELS or 0:,} pixels: shrink it")
    except UnidentifiedImageError:
        return Look(wrong="not an image of a format that can be read")
    except Exception as error:
        # A decoder given hostile or damaged bytes may raise anything (struct.error, IndexError, SyntaxError, ...).
        return Look(wrong=f"cannot be decoded: {error}")


def _part(image: "Image", size: int, cut: Cut) -> "Image":
    """The part of an image that `cut` says, scaled; of JPEGs no more is decoded than that takes."""
    from PIL import Image, ImageOps

    turned = image.getexif().get(ORIENTATION, 1) >= 5
    width, height = (image.height, image.width) if turned else image.size
    box = cut(width, height)
    scale = size / min(box[2] - box[0], box[3] - box[1])
    if scale < 1:
        image.draft("RGB", (round(image.width * scale), round(image.height * scale)))
    upright = as_rgb(ImageOps.exif_transpose(image))
    left, top, right, bottom = box
    across, down = upright.width / width, upright.height / height
    scaled = left * across, top * down, min(right * across, upright.width), min(bottom * down, upright.height)
    return upright.resize((size, size), Image.Resampling.BILINEAR, box=scaled)


def open_picture(picture: Picture) -> "Image":
    """The image, its pixels not decoded yet. Pillow itself only warns about one up to twice its limit."""
    from PIL import Image

    image = Image.open(picture if isinstance(picture, Path) else io.BytesIO(picture.read()))
    if Image.MAX_IMAGE_PIXELS is not None and image.width * image.height > Image.MAX_IMAGE_PIXELS:
        image.close()
        raise Image.DecompressionBombError
    return image


def as_rgb(image: "Image") -> "Image":
    """Three bytes a pixel, whatever it had."""
    from PIL import Image

    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed range; save it with 8 or 16 bits")
    if image.mode == "I" or image.mode.startswith("I;16"):
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 0xFFFF:
            raise ValueError("pixels of more than 16 bits; save it with 8 or 16 bits")
        image = Image.fromarray((levels >> 8).astype(np.uint8))
    return image.convert("RGB")


def _depth(image: "Image") -> str | None:
    """What a person should know has been converted."""
    raw = "".join(str(tile[3]) for tile in getattr(image, "tile", ()))
    if image.mode == "I" or ";16" in image.mode or ";16" in raw:
        return "16-bit"
    return "CMYK" if image.mode == "CMYK" else None


# ---------------------------------------------------------------------------------------------- many images


@dataclass(frozen=True, eq=False)
class Checked:
    """The images that can be read, and what is to be said about the others."""

    images: ImageFiles
    good: list[int]
    """The places of those that can be read."""
    wrong: dict[int, str]
    """Place -> reason."""
    converted: dict[str, list[int]] = field(default_factory=dict)
    """"16-bit" or "CMYK" -> places."""

    def notes(self, names: Sequence[str]) -> list[str]:
        """A sentence for each kind of conversion."""
        return [
            f"{len(places)} {kind} image{'s' * (len(places) > 1)} became 8-bit RGB: "
            + ", ".join(names[i] for i in places[:NAMED])
            + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")
            for kind, places in sorted(self.converted.items())
        ]


def check_images(
    pictures: Sequence[Picture],
    size: int | None = None,
    hold: bool | None = None,
    watch: Watch | None = None,
    largest: int = LARGEST,
) -> Checked:
    """Decode every image once.

    `size` is by default the median of their shorter sides, at most `largest`. With `hold` the pixels are kept, by
    default where they fit into HELD bytes.
    """
    with warnings.catch_warnings():
        # Pillow's, about damaged EXIF data and the like: what matters is said below.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        if size is None:
            size = max(SMALLEST, min(largest, usual_side(pictures)))
        n = len(pictures)
        if hold is None:
            hold = 3 * size * size * n <= HELD
        held = torch.empty((n, 3, size, size), dtype=torch.uint8) if hold else None

        def one(place: int) -> Look:
            seen = look(pictures[place], size)
            if held is not None and seen.pixels is not None:
                held[place] = seen.pixels
            return Look(None, seen.converted, seen.wrong)

        wrong: dict[int, str] = {}
        converted: dict[str, list[int]] = {}
        pool = ThreadPoolExecutor(os.cpu_count() or 1)
        try:
            # In portions: a million tasks at once are a gigabyte of bookkeeping.
            portions = (pool.map(one, range(start, min(start + PORTION, n))) for start in range(0, n, PORTION))
            for place, seen in enumerate(chain.from_iterable(portions)):
                if seen.wrong is not None:
                    wrong[place] = seen.wrong
                elif seen.converted is not None:
                    converted.setdefault(seen.converted, []).append(place)
                if watch is not None:
                    watch("reading images", place + 1, n)
        finally:
            pool.shutdown(cancel_futures=True)
    good = [place for place in range(n) if place not in wrong]
    if held is not None and wrong:
        held = held[good]
    return Checked(ImageFiles([pictures[i] for i in good], size, held), good, wrong, converted)


def usual_side(pictures: Sequence[Picture]) -> int:
    """The median shorter side of some of the images, by what their headers say."""
    sides = []
    for place in _spread(len(pictures)):
        try:
            with open_picture(pictures[place]) as image:
                sides.append(min(image.size))
        except Exception:
            continue  # said by name when all are decoded
    return int(np.median(sides)) if sides else LARGEST
