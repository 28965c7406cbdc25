"""Class folders again, every image in the folder of the class it now has."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from marvel.data.folder import PARTS, ClassFolders, list_folder
from marvel.data.images import Watch
from marvel.errors import FolderError
from marvel.export.decided import Decided
from marvel.export.place import Written, folder_name, put, tell

ASIDE = ".aside"
"""Where `keep_aside` puts images: hidden, so that it is not taken for a class."""


class Move(NamedTuple):
    """Where an image goes, from the folder of its class `old`."""

    id: str
    path: Path
    target: Path
    old: str
    new: str | None
    """Its class now; None: it is set aside."""

    @property
    def stays(self) -> bool:
        return self.new in (self.old, None)


def write_folder(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """The training images under their classes, and the test set as it was.

    What stays in its class keeps its name. What moves, and whose name is taken, gets that of its old class added.
    """
    found = list_folder(Path(what.origin.path))
    folders: dict[str, str] = {}
    for name in what.classes:
        # What is the name of a folder already stays so: that of the test set is the same.
        there = (found.folder / (found.part or "") / name).is_dir()
        folders[name] = name if there else folder_name(name, folders.values())
    renamed = {name: safe for name, safe in folders.items() if name != safe}
    planned = _planned(found, what, place, folders)
    plan = [move for move in planned if move.new is not None or (keep_aside and move.path.is_file())]
    tests = _test_files(found)
    total = len(found.paths) + len(tests)
    taken = {_key(move.target) for move in plan if move.stays}
    for number, move in enumerate(plan, 1):
        target = move.target
        if not move.stays:
            target = _free(move.target, move.old, taken)
            taken.add(_key(target))
            if target != move.target:
                renamed[move.id] = target.relative_to(place).as_posix()
        put(move.path, target, link)
        tell(watch, number, total)
    for class_folder in folders.values():
        (place / (found.part or "") / class_folder).mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(tests, len(found.paths) + 1):
        put(path, place / path.relative_to(found.folder), link)
        tell(watch, number, total)
    return Written(len(plan), None, renamed)


def _planned(found: ClassFolders, what: Decided, place: Path, folders: Mapping[str, str]) -> Iterator[Move]:
    """Every training image that is there, and where it belongs; `folders` are those of the classes."""
    ids = [found.id(path) for path in found.paths]
    gone = {what.ids[row] for row in what.given} - set(ids)
    if gone:
        raise FolderError(
            f"{found.folder} has changed since the run: '{min(gone)}' is not there; bring it back, or run again"
        )
    row_of = {id: row for row, id in what.ids.items()}
    part = found.part or ""
    for id, path in zip(ids, found.paths):
        old, *rest = path.relative_to(found.folder / part).parts
        new = what.label_of(row_of.get(id, -1), old)
        home = place / ASIDE / old if new is None else place / part / folders.get(new, old)
        yield Move(id, path, home / Path(*rest), old, new)


def _test_files(found: ClassFolders) -> list[Path]:
    """All that lies beside the training part."""
    parts = PARTS if found.part else ()
    return [path for part in parts for path in sorted((found.folder / part).rglob("*")) if path.is_file()]


def _free(target: Path, old: str, taken: set[str]) -> Path:
    """The path, or one beside it: `1.jpg` that comes from the cats becomes `1 (cat).jpg`."""
    number, free = 1, target
    while _key(free) in taken:
        mark = f" ({old})" if number == 1 else f" ({old} {number})"
        free, number = target.with_name(target.stem[:100] + mark[:50] + target.suffix), number + 1
    return free


def _key(path: Path) -> str:
    """Paths that some file system takes for one have one key."""
    return str(path).casefold()
