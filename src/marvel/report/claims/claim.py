"""A claim of the paper's prose, and what our runs say to it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marvel.report.cells import Cell, Runs

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """Our figure, and whether the claim holds by its rule."""

    figure: str
    holds: bool
    part: str = ""
    """How much of what the claim is about was run, where not all was: "3 of 32 settings"."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we take it to mean, and the function of records that judges it."""

    name: str
    where: str
    said: str
    rule: str
    needs: str
    """The runs, in words."""
    judge: Callable[[Runs], Finding | None]
    """None where the runs are not there."""
    own: Callable[[], str] | None = None
    """What the paper's own tables come to by the rule, where it is about their numbers."""

    def verdict(self, runs: Runs) -> str:
        found = self.judge(runs)
        if found is None:
            return "not run"
        return ("holds" if found.holds else "does not hold") + (" so far" if found.part else "")


# ------------------------------------------------------------ numbers of runs


def curve(runs: Runs, cell: Cell, key: str) -> Values | None:
    """A curve in percent, the mean over the seeds; None where there is no run."""
    lines = [record["curves"][key] for record in runs.of(cell) if key in record["curves"]]
    rows = [[np.nan if value is None else value for value in line] for line in lines]
    return 100 * np.array(rows, dtype=np.float64).mean(axis=0) if rows else None


def final(runs: Runs, cell: Cell, key: str = "test_accuracy") -> float | None:
    """A final number in percent, the mean over the seeds."""
    mean = runs.mean(cell, key)
    return None if mean is None else 100 * mean


def finals(runs: Runs, cells: Iterable[Cell], key: str = "test_accuracy") -> list[float] | None:
    """The same of several cells; None where one of them lacks it."""
    found = [final(runs, cell, key) for cell in cells]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


def noisy_left(runs: Runs, cell: Cell, kind: str = "noisy") -> Values | None:
    """The share of the wrongly (or rightly) labelled not yet removed, by epoch, in percent."""
    counts = curve(runs, cell, f"{kind}_remaining")
    return None if counts is None else 100 * counts / counts[0]


# ------------------------------------------------------------ words


def seeds(runs: Runs, *cells: Cell) -> str:
    """`1 seed`, `3 to 5 seeds`"""
    counts = [len(runs.of(cell)) for cell in cells]
    low, high = min(counts), max(counts)
    return f"{low} seed{'s' if low != 1 else ''}" if low == high else f"{low} to {high} seeds"


def part_of(there: Sequence[object], wanted: Sequence[object], what: str) -> str:
    """What `Finding.part` says: nothing where all was run."""
    return "" if len(there) == len(wanted) else f"{len(there)} of {len(wanted)} {what}"
