"""Who is at work in a folder: a mark that ends with its process, however that ends.

It is a lock of the system's on the folder itself, so a killed process leaves none behind, and no file is needed. Where
a file system knows no such locks, nothing is known, and nobody is kept out.
"""

import os
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from marvel.errors import FolderInUse


class Held:
    """A folder of this process's, for as long as somebody here keeps this. `sure`: nobody else can have it."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self._close = finalize(self, os.close, self.descriptor)
        self.sure = _lock(self.descriptor, path)


_ours: WeakValueDictionary[tuple[int, int], Held] = WeakValueDictionary()


def hold(path: Path) -> Held:
    """Keep other processes out of a folder; runs of one process may follow each other in it."""
    known = os.stat(path)
    key = known.st_dev, known.st_ino
    held = _ours.get(key) or Held(path)
    _ours[key] = held
    return held


def abandoned(path: Path) -> bool:
    """Whether the process that held the folder is gone for certain."""
    known = os.stat(path)
    if (known.st_dev, known.st_ino) in _ours:
        return False
    try:
        return Held(path).sure
    except FolderInUse:
        return False


def alive(process: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _lock(descriptor: int, path: Path) -> bool:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderInUse(
            f"another process is at work in {path}: wait for it to end, or end it; or name another folder"
        ) from None
    except OSError:
        return False
    return True


def _forget() -> None:
    """A forked process (one that reads batches, say) does not keep the folder of its parent."""
    for held in list(_ours.values()):
        held._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
