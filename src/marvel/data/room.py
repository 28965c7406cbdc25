"""Whether there is room for what a file says it holds: a small file can claim more than any machine has."""

import os
from pathlib import Path

from marvel.errors import DataError


def check_room(path: Path, needed: int) -> None:
    """Refuse what does not fit into this machine's memory, before any of it is taken."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return
    if needed > memory:
        raise DataError(
            f"{path} would take {needed / 2**30:.0f} GiB of memory, and this machine has {memory / 2**30:.0f}: "
            "read a part of it, or images from files"
        )
