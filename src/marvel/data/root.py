"""Where dataset files are, and what to say when they are not there."""

import os
from collections.abc import Iterable
from pathlib import Path

from marvel.errors import DataError

VARIABLE = "MARVEL_DATA"
DEFAULT = Path("~/.cache/marvel")


def data_root(root: str | Path | None = None) -> Path:
    """The folder named, else the one MARVEL_DATA names, else ~/.cache/marvel."""
    return Path(root or os.environ.get(VARIABLE) or DEFAULT).expanduser()


def not_found(what: str, looked_for: Iterable[Path], get: str) -> DataError:
    """The error for missing files: what was looked for, how to get it, how to say where it is."""
    paths = " or ".join(str(path) for path in looked_for)
    return DataError(f"{what} not found: looked for {paths}. {get}; --root or {VARIABLE} names the folder.")
