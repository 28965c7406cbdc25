"""Write a dataset of image files as shards: looked at once, copied once, read from then on.

A shard is written under another name and gets its own when it is whole; shards.json names it after that. So whatever
interrupts a preparation, the same command goes on with the shard that was not finished.
"""

import io
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from marvel.data.images import ORIENTATION, Watch, as_rgb, look, open_picture
from marvel.data.listing import Listing, Part
from marvel.data.origin import SetAside
from marvel.data.shards import (
    MANIFEST,
    SUFFIX,
    Manifest,
    Shard,
    file_digest,
    instances_digest,
    is_shards,
    read_manifest,
)
from marvel.errors import FolderError, InvalidInput
from marvel.runs import as_json, write_atomically

ROWS = 4096
"""Instances a shard."""
QUALITY = 95
"""Of the JPEGs that images become where they are made smaller."""
BATCH = 128
"""Instances of an Arrow batch: what is in memory at a time."""
SEEN = 32
"""The size at which images are decoded to see whether they can be: all of a JPEG's bytes are looked at even so."""
MISSING = "there is no such file"


@dataclass(frozen=True)
class Counted:
    """One part: what it should hold, what its lists name, and what became of that."""

    listed: int
    expected: int | None = None
    written: int = 0
    missing: tuple[str, ...] = ()
    """Ids of files that are not there."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Id and reason."""

    @property
    def whole(self) -> bool:
        return not self.missing and not self.unreadable and self.expected in (None, self.listed)


@dataclass(frozen=True)
class Prepared:
    """What was written."""

    out: Path
    shards: int
    kept: int
    """Shards that were there already."""
    bytes: int
    parts: dict[str, Counted] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts.values())


def count(listing: Listing, watch: Watch | None = None) -> dict[str, Counted]:
    """Which of the files that are listed are there; none is opened."""
    total, done, found = sum(map(len, listing.parts.values())), 0, {}
    for name, part in listing.parts.items():
        missing = []
        for path, id in zip(part.paths, part.ids, strict=True):
            done += 1
            if not path.is_file():
                missing.append(id)
            if watch is not None:
                watch("looking for files", done, total)
        found[name] = Counted(len(part), listing.expected.get(name), missing=tuple(missing))
    return found


def prepare(
    listing: Listing,
    out: str | Path,
    *,
    short_side: int | None = None,
    quality: int = QUALITY,
    rows: int = ROWS,
    workers: int | None = None,
    watch: Watch | None = None,
) -> Prepared:
    """Write `listing` as shards into the folder `out`, or go on doing so.

    short_side  images whose shorter side is longer are made smaller, and become JPEGs of `quality`; others, and all
                where it is None, are stored as they are, byte for byte
    rows        instances a shard
    workers     threads that decode and encode; by default one a core
    """
    for name, value, least in (("rows", rows, 1), ("workers", workers, 1), ("short_side", short_side, 8)):
        if value is not None and value < least:
            raise InvalidInput(f"{name} must be at least {least}, got {value}")
    if not 1 <= quality <= 100:
        raise InvalidInput(f"quality lies in 1..100, got {quality}")
    out = Path(out)
    settings: dict[str, Any] = {"rows": rows, "short_side": short_side, "quality": quality if short_side else None}
    manifest = _begin(listing, out, settings)
    done = {shard.file: shard for shard in manifest.shards if _is_there(out, shard)}
    manifest = replace(manifest, shards=tuple(done.values()), complete=False)
    kept, total = len(done), sum(map(len, listing.parts.values()))
    for left in out.glob(f".*{SUFFIX}.part"):
        left.unlink()
    with warnings.catch_warnings(), ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        warnings.filterwarnings("ignore", module=r"PIL\.")  # about damaged EXIF data and the like
        try:
            for file, name, first, last, before in _shards_of(listing, rows):
                if file not in done:
                    writer = _Writer(out / file, listing.parts[name], settings, pool)
                    for row in writer.write(first, last):
                        if watch is not None:
                            watch(f"writing {name}", before + row + 1, total)
                    manifest = _with(manifest, writer.shard(name, first, last), writer.aside)
                    write_atomically(out / MANIFEST, as_json(manifest.facts(), indent=1))
        finally:
            pool.shutdown(cancel_futures=True)
    manifest = replace(manifest, shards=tuple(sorted(manifest.shards, key=_order)), complete=True)
    write_atomically(out / MANIFEST, as_json(manifest.facts(), indent=1))
    return Prepared(
        out,
        len(manifest.shards),
        kept,
        sum(shard.bytes for shard in manifest.shards),
        counted(manifest, listing.expected),
        (*listing.notes, *listing.counted()),
    )


def _shards_of(listing: Listing, rows: int) -> Iterator[tuple[str, str, int, int, int]]:
    """Every shard: its file, its part, its first and last instance, and how many instances the parts before hold."""
    before = 0
    for name, part in listing.parts.items():
        for number, first in enumerate(range(0, len(part), rows)):
            yield f"{name}-{number:05d}{SUFFIX}", name, first, min(first + rows, len(part)) - 1, before
        before += len(part)


def counted(manifest: Manifest, expected: Any) -> dict[str, Counted]:
    """What a manifest says of each part."""
    found = {}
    for name, listed in manifest.listed.items():
        aside = [one for part, one in manifest.set_aside if part == name]
        found[name] = Counted(
            listed,
            expected.get(name),
            sum(shard.count for shard in manifest.shards if shard.part == name),
            tuple(one.id for one in aside if one.reason == MISSING),
            tuple((one.id, one.reason) for one in aside if one.reason != MISSING),
        )
    return found


def _begin(listing: Listing, out: Path, settings: dict[str, Any]) -> Manifest:
    """The manifest that is there, or a new one."""
    told: dict[str, Any] = {
        "name": listing.name,
        "classes": listing.classes,
        "listed": {name: len(part) for name, part in listing.parts.items()},
        "listing": listing.digest(),
        "augment": listing.augment,
        "mean": listing.mean,
        "std": listing.std,
        "settings": settings,
    }
    if not is_shards(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise FolderError(f"{out} is there and holds something else: name a new folder")
        if listing.origin == "folder":  # of a known dataset, shards may lie beside its lists
            listing.source().check_outside(out)
        return Manifest(**told, notes=(*listing.notes, *listing.counted()))
    before = read_manifest(out)
    for key, value in told.items():
        had = getattr(before, key)
        if had != value:
            what = "from other files or labels" if key == "listing" else f"with {key} = {had}, not {value}"
            raise FolderError(f"{out} was prepared {what}: name another folder")
    return before


def _is_there(out: Path, shard: Shard) -> bool:
    path = out / shard.file
    return path.is_file() and path.stat().st_size == shard.bytes


def _order(shard: Shard) -> tuple[str, int]:
    return {"train": "0"}.get(shard.part, shard.part), shard.first


def _with(manifest: Manifest, shard: Shard, aside: list[SetAside]) -> Manifest:
    """One shard more; what was set aside of it before, should it have been written once already, is forgotten."""
    others = [
        (part, one)
        for part, one in manifest.set_aside
        if not (part == shard.part and one.row is not None and shard.first <= one.row <= shard.last)
    ]
    others += [(shard.part, one) for one in aside]
    return replace(manifest, shards=(*manifest.shards, shard), set_aside=tuple(others))


def relabel(source: Path, target: Path, shard: Shard, label_of: Callable[[int, int], int | None]) -> Shard:
    """A shard with other labels: `label_of` says them by index and label, None of what is left out."""
    import pyarrow as pa

    index: list[int] = []
    label: list[int] = []
    with pa.memory_map(str(source)) as mapped:
        batches = pa.ipc.open_file(mapped)
        with pa.ipc.new_file(str(target), batches.schema) as sink:
            for number in range(batches.num_record_batches):
                batch = batches.get_batch(number)
                pairs = zip(batch["index"].to_pylist(), batch["label"].to_pylist(), strict=True)
                labels = [label_of(*pair) for pair in pairs]
                place = batch.schema.get_field_index("label")
                named = batch.set_column(place, batch.schema.field(place), pa.array(labels, pa.int32()))
                kept = named.filter(pa.array([one is not None for one in labels]))
                sink.write_batch(kept)
                index += kept["index"].to_pylist()
                label += kept["label"].to_pylist()
    digest = instances_digest(np.array(index, dtype=np.int64), np.array(label, dtype=np.int64))
    size = target.stat().st_size
    return replace(shard, count=len(index), bytes=size, sha256=file_digest(target), instances=digest)


class _Writer:
    """One shard on its way."""

    def __init__(self, path: Path, part: Part, settings: dict[str, Any], pool: ThreadPoolExecutor) -> None:
        self.path, self.part, self.settings, self.pool = path, part, settings, pool
        self.aside: list[SetAside] = []
        self.index: list[int] = []

    def write(self, first: int, last: int) -> Iterator[int]:
        """Yields each row when it is dealt with; the file has its name when all are."""
        import pyarrow as pa

        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.part")
        schema = pa.schema(
            [
                *(("index", pa.int64()), ("label", pa.int32()), ("id", pa.string()), ("crc", pa.uint32())),
                ("image", pa.large_binary()),
            ]
        )
        try:
            with open(temporary, "wb") as file:
                with pa.ipc.new_file(file, schema) as sink:
                    for start in range(first, last + 1, BATCH):
                        rows = range(start, min(start + BATCH, last + 1))
                        images = {}
                        for row, (content, wrong) in zip(rows, self.pool.map(self.content, rows), strict=True):
                            if content is None:
                                self.aside.append(SetAside(self.part.ids[row], str(wrong), row))
                            else:
                                images[row] = content
                            yield row
                        if images:
                            sink.write_batch(self.batch(images, schema))
                        self.index += images
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def batch(self, images: dict[int, bytes], schema: Any) -> Any:
        import pyarrow as pa

        columns = {
            "index": list(images),
            "label": [self.part.y[row] for row in images],
            "id": [self.part.ids[row] for row in images],
            "crc": [zlib.crc32(content) for content in images.values()],
            "image": list(images.values()),
        }
        return pa.record_batch([pa.array(columns[one.name], one.type) for one in schema], schema)

    def content(self, row: int) -> tuple[bytes | None, str | None]:
        """The bytes to store, or why there are none."""
        path = self.part.paths[row]
        if any("\ud800" <= character <= "\udfff" for character in str(path)):
            return None, "its name is not UTF-8: rename it"
        seen = look(path, SEEN)
        if seen.wrong is not None:
            return None, seen.wrong
        try:
            return encoded(path, self.settings["short_side"], self.settings["quality"]), None
        except Exception as error:  # decoders raise anything
            return None, f"cannot be decoded: {error}"

    def shard(self, name: str, first: int, last: int) -> Shard:
        index = np.array(self.index, dtype=np.int64)
        label = np.array([self.part.y[row] for row in self.index], dtype=np.int64)
        size = self.path.stat().st_size
        digest = instances_digest(index, label)
        return Shard(self.path.name, name, first, last, len(index), size, file_digest(self.path), digest)


def encoded(path: Path, short_side: int | None, quality: int | None) -> bytes:
    """A file's bytes; those of a smaller JPEG where its shorter side is longer than `short_side`."""
    from PIL import Image, ImageOps

    if short_side is not None:
        with open_picture(path) as image:
            if min(image.size) > short_side:
                turned = image.getexif().get(ORIENTATION, 1) >= 5
                width, height = (image.height, image.width) if turned else image.size
                scale = short_side / min(width, height)
                size = max(short_side, round(width * scale)), max(short_side, round(height * scale))
                # Twice as large as it will be, or more: what the JPEG decoder leaves out, nobody would see.
                image.draft("RGB", (2 * size[1], 2 * size[0]) if turned else (2 * size[0], 2 * size[1]))
                small = as_rgb(ImageOps.exif_transpose(image)).resize(size, Image.Resampling.LANCZOS)
                content = io.BytesIO()
                small.save(content, "JPEG", quality=quality)
                return content.getvalue()
    return path.read_bytes()
