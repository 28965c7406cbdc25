"""Instances as a person judges them: the picture, or the row of the table, as it is in the source.

What cannot be shown any more (a file that is gone, a damaged image) is None or a note, never an error: a page of a
thousand suspects must not fail for one.
"""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from marvel.data.arrays import channels_first, instances_name, open_npy, open_npz
from marvel.data.huggingface import arrow, image_columns, open_splits
from marvel.data.images import Embedded, Picture, as_rgb, open_picture
from marvel.data.origin import Origin
from marvel.data.shards import InShards, open_shards
from marvel.data.tables import find_picture, open_table
from marvel.errors import DataError, MarvelError

if TYPE_CHECKING:
    from PIL.Image import Image

SMALL = 128
"""Pictures up to this side are PNG, which keeps every pixel; larger ones are JPEG."""
MOST_FIELDS = 64
LONGEST = 2000
"""Letters of a cell that are shown."""


class Instances(ABC):
    """Instances to look at, by their index in the run."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = [int(row) for row in rows]

    @property
    def n(self) -> int:
        return len(self.rows)

    def picture(self, index: int, largest: int = 512) -> bytes | None:
        """A PNG or JPEG no larger than `largest` on either side; None where there is nothing to see."""
        try:
            image = self._image(index)
            return None if image is None else encoded(image, largest)
        except Exception:
            # Whatever is wrong with the one file, and decoders raise anything: there is no picture of it.
            return None

    def fields(self, index: int) -> dict[str, str]:
        """Column -> text; {} for images that come without any."""
        try:
            shown = list(self._fields(index).items())
        except Exception as error:
            return {"": f"cannot be shown: {error}"}
        cells = {name: as_text(value) for name, value in shown[:MOST_FIELDS]}
        return cells | ({"…": f"and {len(shown) - MOST_FIELDS} more"} if len(shown) > MOST_FIELDS else {})

    @abstractmethod
    def _image(self, index: int) -> "Image | None": ...

    def _fields(self, index: int) -> dict[str, Any]:
        return {}


def open_instances(origin: Origin, rows: Sequence[int], ids: Sequence[str]) -> Instances:
    """The instances of a run, in its order: `rows` and `ids` are columns of its instances.parquet."""
    if len(rows) != len(ids):
        raise DataError(f"{len(rows)} rows and {len(ids)} ids are not of the same instances")
    if not Path(origin.path).exists():
        return _Gone(rows, f"{origin.path} is not there any more")
    try:
        if origin.kind in ("folder", "listed"):
            return _Files(rows, origin, ids)
        if origin.kind == "shards":
            return _Shards(rows, origin)
        if origin.kind in ("paths", "table"):
            return _Table(rows, origin)
        if origin.kind == "kept":
            return _Kept(rows, origin)
        return _Arrays(rows, origin) if origin.kind == "arrays" else _HuggingFace(rows, origin)
    except (MarvelError, OSError) as error:
        return _Gone(rows, str(error))


class _Gone(Instances):
    """A source that cannot be opened."""

    def __init__(self, rows: Sequence[int], why: str) -> None:
        super().__init__(rows)
        self.why = why

    def _image(self, index: int) -> None:
        return None

    def _fields(self, index: int) -> dict[str, Any]:
        return {"": self.why}


class _Files(Instances):
    """Images in class folders; an id is the path from the folder."""

    def __init__(self, rows: Sequence[int], origin: Origin, ids: Sequence[str]) -> None:
        super().__init__(rows)
        self.folder, self.ids = Path(origin.path), ids

    def _image(self, index: int) -> "Image":
        name = Path(self.ids[index])
        if name.is_absolute() or ".." in name.parts:
            raise DataError(f"{name} is not inside {self.folder}")
        return _decoded(self.folder / name)


class _Shards(Instances):
    """Images in shards; a row is the index an image is stored under."""

    def __init__(self, rows: Sequence[int], origin: Origin) -> None:
        super().__init__(rows)
        folder = Path(origin.path)
        # Shards that are gone leave holes, and the others can still be shown.
        train = [pair for pair in open_shards(folder).good if pair[0].part == "train"]
        self.images = InShards.of(folder, train)
        self.place = {index: place for place, index in enumerate(self.images.rows[:, 1].tolist())}

    def _image(self, index: int) -> "Image":
        return _decoded(self.images[self.place[self.rows[index]]])


class _Table(Instances):
    """Rows of a table, with the image where they name one."""

    def __init__(self, rows: Sequence[int], origin: Origin) -> None:
        super().__init__(rows)
        self.origin, self.table = origin, open_table(Path(origin.path))

    def _image(self, index: int) -> "Image | None":
        if self.origin.paths is None:
            return None
        cell = self.table[self.origin.paths][self.rows[index]].as_py()
        path = find_picture(Path(self.origin.path).parent, cell)
        return None if path is None else _decoded(path)

    def _fields(self, index: int) -> dict[str, Any]:
        hidden = (self.origin.label, self.origin.paths)
        names = [name for name in self.table.column_names if name not in hidden]
        return {name: self.table[name][self.rows[index]].as_py() for name in names}


class _Arrays(Instances):
    """Images or vectors in an array."""

    def __init__(self, rows: Sequence[int], origin: Origin) -> None:
        super().__init__(rows)
        path = Path(origin.path)
        if origin.labels is None:
            arrays = open_npz(path)
            self.x = arrays[instances_name(path, arrays)]
        else:
            self.x = open_npy(path)
        self.span = span_of(self.x) if self.x.ndim > 2 else (0.0, 255.0)

    def _image(self, index: int) -> "Image | None":
        x = self.x[self.rows[index]]
        return None if x.ndim < 2 else image_of(x, self.span)

    def _fields(self, index: int) -> dict[str, Any]:
        x = self.x[self.rows[index]]
        return {str(place): float(value) for place, value in enumerate(x)} if x.ndim == 1 else {}


class _HuggingFace(Instances):
    """Rows of a split, with the image where there is a column of images."""

    def __init__(self, rows: Sequence[int], origin: Origin) -> None:
        super().__init__(rows)
        folder = Path(origin.path)
        splits = open_splits(folder)
        if origin.part not in splits:
            raise DataError(f"{folder} has no split '{origin.part}' any more")
        self.table = arrow(splits[origin.part])
        self.images = image_columns(splits[origin.part])
        self.label = origin.label

    def _image(self, index: int) -> "Image | None":
        return _decoded(Embedded(self.table[self.images[0]], self.rows[index])) if self.images else None

    def _fields(self, index: int) -> dict[str, Any]:
        names = [name for name in self.table.column_names if name not in (self.label, *self.images)]
        return {name: self.table[name][self.rows[index]].as_py() for name in names}


class _Kept(Instances):
    """What was kept of instances in the run folder: of the most suspect ones, their picture and their fields."""

    def __init__(self, rows: Sequence[int], origin: Origin) -> None:
        super().__init__(rows)
        self.table = open_table(Path(origin.path))
        self.place = {row: place for place, row in enumerate(self.table["row"].to_pylist())}

    def _image(self, index: int) -> "Image | None":
        place = self.place.get(self.rows[index])
        return None if place is None else _decoded(Embedded(self.table["picture"], place))

    def _fields(self, index: int) -> dict[str, Any]:
        place = self.place.get(self.rows[index])
        if place is None:
            return {"": f"is not among the {len(self.place)} most suspect, of which alone the run kept what they are"}
        fields: dict[str, Any] = json.loads(self.table["fields"][place].as_py())
        return fields


Span = tuple[float, float]


def span_of(x: npt.NDArray[Any]) -> Span:
    """The numbers of images that are shown black and white."""
    if x.dtype == np.uint8:
        return 0.0, 255.0
    low, high = float(np.nanmin(x)), float(np.nanmax(x))
    if low < 0 or high > 255 or x.dtype.kind == "f":
        # 0..1 is black to white, and so is whatever else the numbers span.
        return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    return 0.0, 255.0


def image_of(x: npt.NDArray[Any], span: Span) -> "Image":
    """Numbers (H, W), (H, W, C) or (C, H, W) as an image."""
    from PIL import Image

    if x.ndim == 3:
        x = x.transpose(1, 2, 0) if channels_first(x.shape) else x
        x = x[..., 0] if x.shape[-1] == 1 else x[..., :3]
    low, high = span
    scaled = (x.astype(np.float64) - low) / ((high - low) or 1.0) * 255
    return Image.fromarray(np.nan_to_num(scaled).round().clip(0, 255).astype(np.uint8)).convert("RGB")


def _decoded(picture: Picture) -> "Image":
    from PIL import ImageOps

    with open_picture(picture) as image:
        return as_rgb(ImageOps.exif_transpose(image))


def encoded(image: "Image", largest: int) -> bytes:
    """A PNG or JPEG, no larger than `largest` on either side."""
    image.thumbnail((largest, largest))
    file = io.BytesIO()
    if max(image.size) <= SMALL:
        image.save(file, "PNG")
    else:
        image.save(file, "JPEG", quality=88)
    return file.getvalue()


def as_text(value: Any) -> str:
    """A cell as it is shown."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"
