"""The cells, of all experiments, that stand beside the paper's numbers: how many agree, and which do not."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from marvel.experiment import Experiment
from marvel.experiment.finding import inside, load
from marvel.paper import METHODS
from marvel.report.compared import Line, compare
from marvel.report.sheet import markdown_table
from marvel.report.words import judgement, mean, paper_mean
from marvel.results import identity

NONE = "Nothing has been run."


def agreement(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """One row a method: the cells that were judged, those within the bound, and how far ours is from the paper's."""
    apart: dict[str, list[tuple[bool, float]]] = {}
    for _, line in judged(folder, records):
        assert line.judged is not None
        apart.setdefault(line.cell.config.method, []).append((line.judged.agrees, line.judged.difference))
    rows = []
    for method in sorted(apart, key=list(METHODS).index):
        agrees, differences = zip(*apart[method], strict=True)
        numbers = [fmean(differences), min(differences), max(differences)]
        rows.append([METHODS[method], str(len(agrees)), str(sum(agrees)), *(f"{number:+.1f}" for number in numbers)])
    headings = ["method", "cells", "within the bound", "mean difference", "lowest", "highest"]
    return markdown_table(headings, rows) if rows else NONE


def outside(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """The cells that are not within the bound, and of how many."""
    rows, cells = [], 0
    for experiment, line in judged(folder, records):
        assert line.judged is not None
        cells += 1
        if not line.judged.agrees:
            ours, cell = line.values[experiment.measures[0]], line.cell
            place = [f"`{experiment.name}`", cell.group, cell.column, cell.row]
            rows.append([*place, mean(ours), paper_mean(line.theirs), *judgement(ours, line.theirs, line.judged)])
    if not rows:
        return f"None of {cells}." if cells else NONE
    headings = ["experiment", "problem", "noise", "method", "ours", "paper", "difference", "verdict"]
    return f"{len(rows)} of {cells}:\n\n{markdown_table(headings, rows)}"


def judged(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[tuple[Experiment, Line]]:
    """Each run once, though several tables may have it; not those that read the paper in several ways."""
    records = list(records)
    found: dict[str, tuple[Experiment, Line]] = {}
    for experiment in map(load, inside(folder).values()):
        for line in [] if experiment.readings else compare(experiment, records):
            if line.judged is not None:
                found.setdefault(identity(line.cell.config), (experiment, line))
    return list(found.values())
