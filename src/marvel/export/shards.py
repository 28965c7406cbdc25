"""Shards again, with other labels; and images that lists name, as a table."""

import os
from dataclasses import replace
from pathlib import Path

from marvel.data.csv_text import guarded, line_of
from marvel.data.images import Watch
from marvel.data.origin import SetAside
from marvel.data.shards import MANIFEST, Shard, open_shards
from marvel.errors import FolderError
from marvel.export.decided import Decided
from marvel.export.place import Written, put, tell
from marvel.prepare import relabel
from marvel.runs import as_json, write_atomically

TABLE = "labels.csv"


def write_shards(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """The images byte for byte, each with the label it now has; other parts as they were.

    What is set aside is named in the manifest, as what could not be read is; `keep_aside` has nothing to add to that.
    """
    folder = Path(what.origin.path)
    opened = open_shards(folder)
    if opened.faults:
        raise FolderError(f"{folder}: {opened.faults[0]}; bring it back, or run again")
    manifest = opened.manifest
    number = {name: label for label, name in enumerate(manifest.classes)}

    def label_of(index: int, label: int) -> int | None:
        name = what.label_of(index, manifest.classes[label])
        return None if name is None else number[name]

    shards: list[Shard] = []
    for done, shard in enumerate(manifest.shards, 1):
        if shard.part == "train":
            shards.append(relabel(folder / shard.file, place / shard.file, shard, label_of))
        else:
            put(folder / shard.file, place / shard.file, link)
            shards.append(shard)
        tell(watch, done, len(manifest.shards))
    known = {one.row for part, one in manifest.set_aside if part == "train"}
    aside = [SetAside(what.ids[row], reason, row) for row, reason in what.aside.items() if row not in known]
    written = replace(
        manifest,
        shards=tuple(shards),
        set_aside=(*manifest.set_aside, *(("train", one) for one in aside)),
        listing=f"corrected {manifest.listing}",  # or `marvel data prepare` would go on with the labels as they were
    )
    write_atomically(place / MANIFEST, as_json(written.facts(), indent=1))
    return Written(sum(shard.count for shard in shards if shard.part == "train"))


def write_listed(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """A table of the training images, where they lie, and their labels. The lists of a dataset are its authors'."""
    folder = Path(what.origin.path)
    lines = [line_of(("path", "label"))]
    for done, row in enumerate(sorted(what.given), 1):
        label = what.corrected.get(row)
        if label is not None or keep_aside:
            path = os.path.join(folder, what.ids[row])
            lines.append(line_of((guarded(path), guarded(label or ""))))
        tell(watch, done, len(what.given))
    write_atomically(place / TABLE, "".join(lines).encode("utf-8", "backslashreplace"))
    return Written(len(lines) - 1, "label")
