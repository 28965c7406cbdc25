"""Shards: a dataset of encoded images in a few large files, as `marvel data prepare` writes them.

    SHARDS/shards.json               what it is, and the length, checksum and instances of each shard
    SHARDS/train-00000.arrow, ...    an Arrow file: index, label, id, crc and image of some thousand instances

An instance is known by its `index`, its place in the dataset that was prepared, wherever it is stored. Where the bytes
of each image lie is read from the shards once; after that any order of instances is as good as any other, since one
image is one read of one place of one file.

Nothing is trained on that is not what was written. Opening looks at the length, the instances and the labels of every
shard; the checksum of an image is looked at whenever it is read, the checksum of whole shards by `marvel data check`
and where bad ones are to be left out.
"""

import hashlib
import json
import os
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from marvel.data.classes import check_classes
from marvel.data.core import Data
from marvel.data.images import (
    HELD,
    LARGEST,
    SMALLEST,
    Encoded,
    ImageFiles,
    Picture,
    Pictures,
    Watch,
    check_images,
    usual_side,
)
from marvel.data.listing import SIZE
from marvel.data.origin import Origin, SetAside
from marvel.errors import DataError, amount

MANIFEST = "shards.json"
FORMAT = 1
SUFFIX = ".arrow"
ON_BAD_DATA = ("stop", "skip")
OPEN_FILES = 128
"""How many shards a process keeps open; usual limits are 1,024 files."""
NAMED = 3
"""How many faults an error names."""

Places = npt.NDArray[np.int64]


# ---------------------------------------------------------------------------------------------- what is written down


@dataclass(frozen=True)
class Shard:
    """One file, as it was written."""

    file: str
    part: str
    first: int
    """The first index it may hold, and the last."""
    last: int
    count: int
    bytes: int
    sha256: str
    instances: str
    """A sha256 of its indices and labels."""


@dataclass(frozen=True)
class Manifest:
    """shards.json."""

    name: str
    classes: tuple[str, ...]
    listed: Mapping[str, int]
    """How many instances each part should have."""
    listing: str
    """The digest of the listing it was prepared from."""
    augment: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    settings: Mapping[str, Any]
    """Those of the preparation that decide what is written."""
    notes: tuple[str, ...] = ()
    set_aside: tuple[tuple[str, SetAside], ...] = ()
    """Part and instance, of what could not be read."""
    shards: tuple[Shard, ...] = ()
    complete: bool = False
    format: int = field(default=FORMAT)

    @property
    def test(self) -> str | None:
        return next((name for name in ("test", "val") if name in self.listed), None)

    def facts(self) -> dict[str, Any]:
        aside = [{"part": part, **asdict(one)} for part, one in self.set_aside]
        return {**asdict(self), "set_aside": aside}


def is_shards(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise DataError(f"{path} is of format {facts['format']}, and this version of Marvel reads {FORMAT}")
        aside = tuple((one.pop("part"), SetAside(**one)) for one in facts.pop("set_aside"))
        shards = tuple(Shard(**one) for one in facts.pop("shards"))
        outside = [shard.file for shard in shards if Path(shard.file).name != shard.file]
        if outside:
            raise DataError(f"{path} names a shard that does not lie beside it: '{outside[0]}'")
        tuples: dict[str, Any] = {key: tuple(facts.pop(key)) for key in ("classes", "mean", "std", "notes")}
        return Manifest(**facts, **tuples, set_aside=aside, shards=shards)
    except FileNotFoundError:
        raise DataError(f"{folder} holds no {MANIFEST}: `marvel data prepare` writes shards") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged ({error}); bring it back, or prepare the data again") from None


# ---------------------------------------------------------------------------------------------- one shard


@dataclass(frozen=True, eq=False)
class Contents:
    """What a shard holds, and where; the images themselves are not read."""

    index: Places
    label: Places
    crc: Places
    offset: Places
    length: Places
    ids: tuple[str, ...]

    def digest(self) -> str:
        return instances_digest(self.index, self.label)


def instances_digest(index: Places, label: Places) -> str:
    both = np.stack([index, label]).astype("<i8")
    return hashlib.sha256(both.tobytes()).hexdigest()


def open_shard(path: Path) -> Contents:
    """The columns of a shard; where an image lies follows from where Arrow says its memory is."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as mapped:
            whole = mapped.read_buffer()
        batches = pa.ipc.open_file(whole)
        columns: dict[str, list[Any]] = {name: [] for name in ("index", "label", "crc", "offset", "length", "ids")}
        for number in range(batches.num_record_batches):
            batch = batches.get_batch(number)
            for name in ("index", "label", "crc"):
                columns[name].append(batch.column(name).to_numpy().astype(np.int64))
            images = batch.column("image")
            ends = np.frombuffer(images.buffers()[1], np.int64)[images.offset : images.offset + len(images) + 1]
            columns["offset"].append(ends[:-1] + (images.buffers()[2].address - whole.address))
            columns["length"].append(np.diff(ends))
            columns["ids"] += batch.column("id").to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise DataError(f"cannot be read as a shard ({str(error).splitlines()[0]})") from None
    ids = tuple(columns.pop("ids"))
    return Contents(
        **{name: np.concatenate(parts) if parts else np.empty(0, np.int64) for name, parts in columns.items()}, ids=ids
    )


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------------------------------------- all shards


@dataclass(frozen=True)
class Fault:
    """A shard that is not as it was written."""

    file: str
    reason: str
    missing: int
    """How many instances the dataset loses with it."""

    def __str__(self) -> str:
        return f"{self.file} {self.reason}"


@dataclass(frozen=True)
class Opened:
    """The shards that are as they were written, and the faults of the others."""

    manifest: Manifest
    good: tuple[tuple[Shard, Contents], ...]
    faults: tuple[Fault, ...]


def open_shards(folder: Path, thorough: bool = False, watch: Watch | None = None) -> Opened:
    """Look at every shard; `thorough` reads all of their bytes.

    No index is in two of the good ones: of two shards that hold the same instance the second is at fault.
    """
    manifest = read_manifest(folder)
    good: list[tuple[Shard, Contents]] = []
    faults: list[Fault] = []
    taken: dict[str, dict[str, Places]] = {}
    listed = [shard.file for shard in manifest.shards]
    for number, shard in enumerate(manifest.shards, 1):
        contents, reason = _look_at(folder / shard.file, shard, thorough)
        before = taken.setdefault(shard.part, {})
        if contents is not None:
            again = _again(contents.index, before)
            if listed.index(shard.file) < number - 1:
                reason = "is listed twice"
            elif again is not None:
                reason = again
            elif contents.digest() != shard.instances:
                reason = "holds other instances or labels than were written"
        if contents is not None and reason is None:
            before[shard.file] = contents.index
            good.append((shard, contents))
        else:
            faults.append(Fault(shard.file, str(reason), shard.count))
        if watch is not None:
            watch("checking shards", number, len(manifest.shards))
    faults += _strays(folder, set(listed), good)
    if not manifest.complete:
        held, wanted = sum(shard.count for shard in manifest.shards), sum(manifest.listed.values())
        lost = wanted - held - len(manifest.set_aside)
        faults.append(Fault(MANIFEST, f"is of a preparation that was interrupted: {held:,} of {wanted:,}", lost))
    return Opened(manifest, tuple(good), tuple(faults))


def _look_at(path: Path, shard: Shard, thorough: bool) -> tuple[Contents | None, str | None]:
    """What the file holds, or why it cannot be taken."""
    if not path.is_file():
        return None, "is missing"
    size = path.stat().st_size
    if size < shard.bytes:
        return None, f"is truncated: {size:,} of {shard.bytes:,} bytes"
    try:
        contents = open_shard(path)
    except DataError as error:
        return None, str(error)
    reason = None if size == shard.bytes else f"has {size:,} bytes, where {shard.bytes:,} were written"
    if reason is None and thorough and file_digest(path) != shard.sha256:
        reason = "is damaged: its bytes are not those that were written"
    return contents, reason


def _again(index: Places, before: Mapping[str, Places]) -> str | None:
    """Whether a shard before has the same instances."""
    if len(np.unique(index)) != len(index):
        return "is duplicated in itself: it holds an instance twice"
    for file, other in before.items():
        both = np.intersect1d(index, other)
        if len(both):
            return f"is duplicated: {len(both):,} of its instances are in {file} too, e.g. index {both[0]}"
    return None


def _strays(folder: Path, listed: set[str], good: Sequence[tuple[Shard, Contents]]) -> list[Fault]:
    """Shards that nobody wrote down, such as copies: nothing is lost where they are left out."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name in listed:
            continue
        reason = f"is not in {MANIFEST}"
        try:
            ids = set(open_shard(path).ids)
        except DataError:
            ids = set()
        for shard, held in good:
            if both := ids.intersection(held.ids):
                reason = f"is duplicated: {len(both):,} of its instances are in {shard.file} too; it {reason}"
                break
        found.append(Fault(path.name, reason, 0))
    return found


# ---------------------------------------------------------------------------------------------- images in shards


@dataclass(frozen=True)
class _InShard(Encoded):
    """One image; its bytes are what was written, or an error says so."""

    path: Path
    index: int
    offset: int
    length: int
    crc: int

    @property
    def name(self) -> str:
        return f"{self.index} of {self.path}"

    def read(self) -> bytes:
        try:
            content = _read(self.path, self.length, self.offset)
        except OSError as error:
            raise DataError(
                f"shard {self.path} cannot be read ({error.strerror}); bring it back and --resume"
            ) from None
        if len(content) != self.length or zlib.crc32(content) != self.crc:
            raise DataError(
                f"shard {self.path}: the bytes of index {self.index} are not those that were written; "
                f"`marvel data check {self.path.parent}` looks at all of them, and --on-bad-data skip leaves such "
                "shards out"
            )
        return content


_files: dict[Path, int] = {}
_lock = threading.Lock()


def _read(path: Path, length: int, offset: int) -> bytes:
    """Bytes of a file; the last files that were read from stay open. Forked workers may share them: nothing seeks."""
    with _lock:
        if path not in _files:
            while len(_files) >= OPEN_FILES:
                os.close(_files.pop(next(iter(_files))))
            _files[path] = os.open(path, os.O_RDONLY)
        return os.pread(_files[path], length, offset)


class InShards(Pictures):
    """Images by their place in the dataset: 40 bytes each, and no object until one is asked for."""

    def __init__(self, paths: Sequence[Path], rows: npt.NDArray[np.int64]) -> None:
        self.paths, self.rows = tuple(paths), rows
        """(n, 5): shard, index, offset, length and checksum."""

    @classmethod
    def of(cls, folder: Path, shards: Iterable[tuple[Shard, Contents]]) -> "InShards":
        """In the order of their indices."""
        paths, parts = [], [np.empty((0, 5), np.int64)]
        for number, (shard, held) in enumerate(shards):
            paths.append(folder / shard.file)
            where = np.full(len(held.index), number, np.int64)
            parts.append(np.column_stack([where, held.index, held.offset, held.length, held.crc]))
        rows = np.concatenate(parts)
        return cls(paths, rows[np.argsort(rows[:, 1], kind="stable")])

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> "InShards": ...
    def __getitem__(self, index: int | slice) -> "Picture | InShards":
        if isinstance(index, slice):
            return InShards(self.paths, self.rows[index])
        shard, number, offset, length, crc = self.rows[index].tolist()
        return _InShard(self.paths[shard], number, offset, length, crc)

    def take(self, index: Sequence[int]) -> "InShards":
        return InShards(self.paths, self.rows[np.asarray(index, dtype=np.int64)])

    def facts(self) -> bytes:
        """Of what is stored, not of how it is spread over files."""
        return hashlib.sha256(np.ascontiguousarray(self.rows[:, [1, 3, 4]]).tobytes()).digest()


def read_shards(
    folder: Path,
    size: int | None = None,
    hold: bool | None = None,
    watch: Watch | None = None,
    largest: int = LARGEST,
    on_bad_data: str = "stop",
) -> Data:
    """The dataset in a folder of shards.

    on_bad_data  "stop" at a shard that is missing, truncated or damaged, or that holds instances of another; or "skip"
                 it, which reads all shards once, so that what is left out is known before the first epoch
    """
    skip = on_bad_data == "skip"
    opened = open_shards(folder, thorough=skip, watch=watch)
    if opened.faults and not skip:
        raise DataError(_refused(folder, opened.faults))
    manifest = opened.manifest
    train = [pair for pair in opened.good if pair[0].part == "train"]
    if not train:
        raise DataError(f"{folder}: no shard of the training part can be read")
    pictures, crops = InShards.of(folder, train), manifest.augment == "resized-crop-flip"
    label, ids = _in_order(train)
    images = _images(pictures, size or (SIZE if crops else None), hold, crops, watch, largest)
    test_x = test_y = None
    test = [pair for pair in opened.good if pair[0].part == manifest.test]
    if test:
        test_x = _images(InShards.of(folder, test), images.size, hold, crops, watch, largest)
        test_y = torch.from_numpy(_in_order(test)[0])
    parts = ("train", manifest.test)
    lost = [SetAside(one.file, f"{one.reason} ({amount(one.missing, 'instance')})") for one in opened.faults]
    # Rows are those of the training part: export leaves them out.
    set_aside = [
        one if part == "train" else replace(one, row=None) for part, one in manifest.set_aside if part in parts
    ]
    return Data(
        manifest.name,
        images,
        torch.from_numpy(label),
        manifest.classes,
        test_x,
        test_y,
        augment=manifest.augment,
        mean=manifest.mean,
        std=manifest.std,
        ids=ids,
        origin=Origin("shards", str(folder.resolve())).at(pictures.rows[:, 1]),
        set_aside=(*lost, *set_aside),
        notes=(*manifest.notes, *check_classes(manifest.name, label, manifest.classes)),
    )


def _refused(folder: Path, faults: Sequence[Fault]) -> str:
    named = "; ".join(map(str, faults[:NAMED])) + (f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else "")
    return (
        f"{folder}: {named}. Bring the shards back, or let `marvel data prepare` write what is missing; "
        "--on-bad-data skip goes on without them"
    )


def _in_order(shards: Sequence[tuple[Shard, Contents]]) -> tuple[Places, tuple[str, ...]]:
    """Labels and ids in the order of the indices."""
    order = np.argsort(np.concatenate([held.index for _, held in shards]), kind="stable")
    label = np.concatenate([held.label for _, held in shards])[order]
    ids = [id for _, held in shards for id in held.ids]
    return label, tuple(ids[place] for place in order.tolist())


def _images(
    pictures: InShards, size: int | None, hold: bool | None, crops: bool, watch: Watch | None, largest: int
) -> ImageFiles:
    """All were decoded when they were prepared, so only those that are held in memory are decoded here."""
    size = size or max(SMALLEST, min(largest, usual_side(pictures)))
    hold = 3 * size * size * len(pictures) <= HELD if hold is None else hold
    if crops or not hold:
        return ImageFiles(pictures, size, crops=crops)
    checked = check_images(pictures, size, True, watch)
    if checked.wrong:
        place, reason = next(iter(checked.wrong.items()))
        raise DataError(f"{pictures[place].name}: {reason}; prepare the data again")
    return ImageFiles(pictures, size, checked.images.held)
