"""Everything Marvel raises on purpose, and how it words it: what was given, what was expected, what to do.

MarvelError
├── InvalidInput  (ValueError)       an argument, label, index or shape that cannot be meant
│   └── UnknownName                  a name that is in no list; says the nearest one
├── DataError     (ValueError)       a dataset that cannot be read
├── FolderError   (RuntimeError)     a run folder or checkpoint that is missing, damaged or of another run
│   └── FolderInUse                  a run folder in which another process is at work
├── NonFinite     (ArithmeticError)  the network put out NaN or infinity
├── PartnerLost   (RuntimeError)     one of several processes has ended, hangs, or never came
└── MissingExtra  (ImportError)      an optional package is not installed

Interrupted       (KeyboardInterrupt)  no mistake: a run that was asked to stop has done so, saved
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class MarvelError(Exception):
    """The root: `except marvel.MarvelError` catches every mistake Marvel knows how to explain."""


class InvalidInput(MarvelError, ValueError):
    """An argument, label, index or shape that cannot be meant."""


class UnknownName(InvalidInput):
    """A name that is in no list; `besides` says what else it could have been, and is not."""

    def __init__(self, what: str, name: Any, known: Iterable[str], besides: str = "") -> None:
        known = sorted(known)
        if not isinstance(name, str):
            super().__init__(f"a {what} is said by its name, got {name!r}. Known: {', '.join(known)}")
            return
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        super().__init__(f"no {what} '{name}'{besides}{hint} Known: {', '.join(known)}")


class DataError(MarvelError, ValueError):
    """A dataset that cannot be read."""


class FolderError(MarvelError, RuntimeError):
    """A run folder or checkpoint that is missing, damaged or of another run."""


class FolderInUse(FolderError):
    """A run folder in which another process is at work."""


class NonFinite(MarvelError, ArithmeticError):
    """The network put out NaN or infinity."""


class PartnerLost(MarvelError, RuntimeError):
    """One of several processes that train together has ended, hangs, or never came."""


class MissingExtra(MarvelError, ImportError):
    """An optional package is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'marvel-learn[{extra}]'")


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop and has done so in the midst of an epoch, saved."""


def amount(number: int, what: str, many: str = "") -> str:
    """`1 epoch`, `1,200 epochs`; `many` where that is not `what` with an s."""
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def pick(what: str, name: Any, known: Mapping[str, T]) -> T:
    """The entry of that name, or an error that says the nearest one."""
    if not isinstance(name, str) or name not in known:
        raise UnknownName(what, name, known)
    return known[name]
