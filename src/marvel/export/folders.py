"""Class folders again, every image in the folder of the class it now has."""

from pathlib import Path

from marvel.data.folder import PARTS, list_folder
from marvel.data.images import Watch
from marvel.errors import FolderError
from marvel.export.decided import Decided
from marvel.export.place import Written, folder_name, put, tell

ASIDE = ".aside"
"""Where `keep_aside` puts images: hidden, so that it is not taken for a class."""


def write_folder(what: Decided, place: Path, keep_aside: bool, link: str, watch: Watch | None) -> Written:
    """The training images under their classes, and the test set as it was.

    What stays in its class keeps its name. What moves, and whose name is taken, gets that of its old class added.
    """
    found = list_folder(Path(what.origin.path))
    ids = [found.id(path) for path in found.paths]
    gone = {what.ids[row] for row in what.given} - set(ids)
    if gone:
        raise FolderError(
            f"{found.folder} has changed since the run: '{min(gone)}' is not there; bring it back, or run again"
        )
    row_of = {id: row for row, id in what.ids.items()}
    folders: dict[str, str] = {}
    for name in what.classes:
        folders[name] = folder_name(name, folders.values())
    renamed = {name: safe for name, safe in folders.items() if name != safe}
    train = place / found.part if found.part else place
    source = found.folder / found.part if found.part else found.folder
    others = [
        path for part in PARTS if found.part for path in sorted((found.folder / part).rglob("*")) if path.is_file()
    ]
    total = len(found.paths) + len(others)
    plan: list[tuple[str, Path, Path, bool]] = []
    n = 0
    for id, path in zip(ids, found.paths):
        old, *rest = path.relative_to(source).parts
        label = what.label_of(row_of.get(id, -1), old)
        if label is not None:
            plan.append((id, path, train / folders.get(label, old) / Path(*rest), label != old))
            n += 1
        elif keep_aside and path.is_file():
            plan.append((id, path, place / ASIDE / old / Path(*rest), False))
    taken = {_key(target) for _, _, target, moves in plan if not moves}
    for number, (id, path, target, moves) in enumerate(plan, 1):
        if moves:
            free = _free(target, path.relative_to(source).parts[0], taken)
            taken.add(_key(free))
            if free != target:
                renamed[id] = free.relative_to(place).as_posix()
            target = free
        put(path, target, link)
        tell(watch, number, total)
    for class_folder in folders.values():
        (train / class_folder).mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(others, len(found.paths) + 1):
        put(path, place / path.relative_to(found.folder), link)
        tell(watch, number, total)
    return Written(n, None, renamed)


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
