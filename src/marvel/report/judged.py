"""The cells, of all experiments, that stand beside the paper's numbers: how many agree, and which do not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from marvel.experiment import Experiment
from marvel.experiment.finding import inside, load
from marvel.paper import BINARY, CIFAR, METHODS, Verdict
from marvel.report.compared import Line, compare
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING, judgement, mean, paper_mean
from marvel.results import identity

NONE = "Nothing has been run."
PROBLEMS = (*BINARY.values(), *CIFAR.values())
"""In the order of the paper's tables; others come after."""
EVERYWHERE = ("ce", "marvel", "marvel+")
"""Methods that are in all of its tables of synthetic noise."""
FIRST = 0
"""The seed that every cell is run with before it has others."""


def agreement(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """One row a method: the cells that were judged, those within the bound, how many would be if each had its first
    seed alone, and how far ours is from the paper's. The last row is of the methods that the paper compares everywhere.

    Some cells have more seeds than others, and perhaps because their first was outside; that of the first seed alone
    nobody could choose."""
    records = list(records)
    methods = _by_method(judged(folder, records))
    first = _by_method(judged(folder, (record for record in records if record["config"]["seed"] == FIRST)))
    rows = [[METHODS[method], *_counted(cells, first.get(method, []))] for method, cells in methods.items()]
    if all(method in methods for method in EVERYWHERE):
        both = ([one for method in EVERYWHERE for one in found.get(method, [])] for found in (methods, first))
        rows.append([", ".join(METHODS[method] for method in EVERYWHERE), *_counted(*both)])
    headings = ["method", "cells", "within the bound", "first seed alone", "mean difference", "lowest", "highest"]
    return markdown_table(headings, rows) if rows else NONE


def by_problem(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """One row a method, a column a problem: how many cells are within the bound, and the mean difference."""
    found = judged(folder, records)
    problems = list(dict.fromkeys(one.problem for one in found))
    problems.sort(key=lambda name: PROBLEMS.index(name) if name in PROBLEMS else len(PROBLEMS))
    rows = [
        [METHODS[method], *(_said([one for one in cells if one.problem == problem]) for problem in problems)]
        for method, cells in _by_method(found).items()
    ]
    return markdown_table(["method", *problems], rows) if rows else NONE


def by_reading(experiment: Experiment, records: Iterable[Mapping[str, Any]]) -> str:
    """Of an experiment that reads the paper in several ways, one row a reading and a column a method, likewise."""
    lines = compare(experiment, list(records))
    methods = _by_method(Judged(experiment, line, line.judged) for line in lines if line.judged is not None)
    rows = []
    for reading in dict.fromkeys(line.cell.group for line in lines):
        here = [[one for one in cells if one.line.cell.group == reading] for cells in methods.values()]
        if any(here):
            rows.append([reading, *map(_said, here)])
    return markdown_table([experiment.headings[0], *(METHODS[method] for method in methods)], rows) if rows else NONE


def outside(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """The cells that are not within the bound, and of how many."""
    found = judged(folder, records)
    rows = []
    for one in found:
        if not one.agrees:
            ours, cell = one.line.values[one.experiment.measures[0]], one.line.cell
            place = [f"`{one.experiment.name}`", cell.group, cell.column, cell.row]
            said = judgement(ours, one.line.theirs, one.line.judged)
            rows.append([*place, mean(ours), paper_mean(one.line.theirs), *said])
    if not rows:
        return f"None of {len(found)}." if found else NONE
    headings = ["experiment", "problem", "noise", "method", "ours", "paper", "difference", "verdict"]
    return f"{len(rows)} of {len(found)}:\n\n{markdown_table(headings, rows)}"


@dataclass(frozen=True)
class Judged:
    """A cell that stands beside the paper's, and the verdict on it."""

    experiment: Experiment
    line: Line
    verdict: Verdict

    @property
    def problem(self) -> str:
        """As the paper calls it."""
        assert self.line.cell.paper is not None
        return self.line.cell.paper[1]

    @property
    def agrees(self) -> bool:
        return self.verdict.agrees

    @property
    def difference(self) -> float:
        return self.verdict.difference


def judged(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """Each run once, though several tables may have it; not those that read the paper in several ways."""
    records = list(records)
    found: dict[str, Judged] = {}
    for experiment in map(load, inside(folder).values()):
        for line in [] if experiment.readings else compare(experiment, records):
            if line.judged is not None:
                found.setdefault(identity(line.cell.config), Judged(experiment, line, line.judged))
    return list(found.values())


def _counted(cells: Sequence[Judged], first: Sequence[Judged]) -> list[str]:
    differences = [one.difference for one in cells]
    numbers = [fmean(differences), min(differences), max(differences)]
    return [str(len(cells)), _share(cells), _share(first), *(f"{number:+.1f}" for number in numbers)]


def _share(cells: Sequence[Judged]) -> str:
    agree = sum(one.agrees for one in cells)
    return f"{agree} ({agree / len(cells):.0%})" if cells else NOTHING


def _said(cells: Sequence[Judged]) -> str:
    agree, apart = sum(one.agrees for one in cells), [one.difference for one in cells]
    return f"{agree} of {len(cells)} ({fmean(apart):+.1f})" if cells else NOTHING


def _by_method(found: Iterable[Judged]) -> dict[str, list[Judged]]:
    """In the order of the paper's tables."""
    groups: dict[str, list[Judged]] = {}
    for one in found:
        groups.setdefault(one.line.cell.config.method, []).append(one)
    return {method: groups[method] for method in METHODS if method in groups}
