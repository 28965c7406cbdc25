"""Where an export goes: a folder that is there whole or not at all, and files in it under names that stay inside."""

import errno
import glob
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from marvel.data.images import Watch
from marvel.data.origin import Origin
from marvel.errors import FolderError, InvalidInput, UnknownName
from marvel.held import abandoned, hold
from marvel.runs import TEMPORARY

LINKS = ("copy", "hard", "symbolic")
LONGEST = 255
"""Bytes of a file's name, on every file system in use."""


@dataclass(frozen=True)
class Written:
    """What one format wrote."""

    n: int
    label: str | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    elsewhere: int = 0


@contextmanager
def new_folder(out: Path, origin: Origin) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when all went well, and is gone when not."""
    target = out.expanduser().absolute()
    if os.path.lexists(target):
        raise FolderError(f"{out} is there already: name a new folder, nothing is written over")
    origin.check_outside(out.expanduser())
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if TEMPORARY.fullmatch(left.name) and left.is_dir() and abandoned(left):
            shutil.rmtree(left, ignore_errors=True)  # of an export that was killed
    building = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    building.mkdir()
    held = hold(building)
    try:
        yield building
        try:
            os.rename(building, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FolderError(f"{out} has come to be meanwhile: name another folder") from None
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
        del held


def free_name(folder: Path, name: str) -> str:
    """`corrections.csv`, and where that is taken `corrections_2.csv`."""
    number, free = 2, name
    while os.path.lexists(folder / free):
        free, number = f"{Path(name).stem}_{number}{Path(name).suffix}", number + 1
    return free


def put(source: Path, target: Path, link: str) -> None:
    """One file, copied or linked; never over another."""
    if os.path.lexists(target):
        raise FolderError(f"{target} is there already")
    target.parent.mkdir(parents=True, exist_ok=True)
    if link == "symbolic":
        target.symlink_to(source.resolve())
    elif link == "hard":
        try:
            os.link(source.resolve(), target)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise InvalidInput(f"{source} cannot be hard-linked from there ({error.strerror}): copy it") from None
            raise
    else:
        shutil.copy2(source, target)


def tell(watch: Watch | None, done: int, total: int) -> None:
    if watch is not None:
        watch("writing files", done, total)


def check_link(link: str) -> None:
    if link not in LINKS:
        raise UnknownName("way to link", link, LINKS)


def folder_name(name: str, taken: Collection[str] = ()) -> str:
    """The name of a class as that of a folder: itself where it can be one, else the nearest that is not taken."""
    safe = "".join("_" if sign in "/\\\0" or not sign.isprintable() else sign for sign in name) or "_"
    if safe[0] == ".":  # hidden, or the way out
        safe = "_" + safe[1:]
    safe = _cut(safe, LONGEST)
    number, free = 2, safe
    while free in taken:
        free, number = _cut(safe, LONGEST - 8) + f"_{number}", number + 1
    return free


def _cut(name: str, bytes: int) -> str:
    return name.encode(errors="replace")[:bytes].decode(errors="ignore")
