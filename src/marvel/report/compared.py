"""An experiment's runs beside the paper's numbers: what `marvel report EXPERIMENT` shows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from marvel.config import as_plain
from marvel.experiment import MEASURES, Cell, Experiment
from marvel.paper import PaperNumber, Verdict, verdict
from marvel.report.sheet import Sheet
from marvel.report.words import NOT_RUN, NOTHING, judgement, mean, paper_mean
from marvel.results import identity, identity_of, whatever_seed
from marvel.runs import Facts

NOT_TUNED = "not tuned"
"""The note of a cell whose parameters the paper tuned, and we did not yet."""


@dataclass(frozen=True)
class Line:
    """One cell, and what its runs came to."""

    cell: Cell
    seeds: tuple[int, ...]
    values: Mapping[str, list[float]]
    """By measure: one for each seed that has it, in percent."""
    judged: Verdict | None
    failed: str | None
    """What was said when it was last tried, where it has not worked yet."""

    @property
    def theirs(self) -> PaperNumber | None:
        return self.cell.theirs

    @property
    def why(self) -> str | None:
        """Why there is no number, where more can be said than that nobody has run it."""
        return None if self.seeds else self.cell.missing or self.failed


def compare(experiment: Experiment, records: Iterable[Mapping[str, Any]], failed: Iterable[Facts] = ()) -> list[Line]:
    """A line for each cell. `records` are by run (`marvel.results.by_run(folder).values()`), of any experiments."""
    runs: dict[str, dict[int, Mapping[str, Any]]] = {}
    for record in records:
        runs.setdefault(whatever_seed(identity_of(record)), {})[record["config"]["seed"]] = record["final"]
    errors = {whatever_seed(line["run"]): line["error"] for line in failed}
    lines = []
    for cell in experiment.cells:
        setting = whatever_seed(identity(cell.config))
        finals = dict(sorted(runs.get(setting, {}).items()))
        values = {
            measure: [100 * final[measure] for final in finals.values() if final.get(measure) is not None]
            for measure in experiment.measures
        }
        ours, theirs = values[experiment.measures[0]], cell.theirs
        judged = verdict(ours, theirs) if ours and theirs is not None else None
        lines.append(Line(cell, tuple(finals), values, judged, errors.get(setting)))
    return lines


def sheet(experiment: Experiment, lines: Iterable[Line], only_run: bool = False) -> Sheet:
    """The table: one row a cell; with `only_run` those without a run are counted, and left out."""
    lines = list(lines)
    beside = any(line.theirs is not None for line in lines)
    first, *others = (MEASURES.get(measure, measure) for measure in experiment.measures)
    headings = [*experiment.headings, f"ours: {first}" if others or not beside else "ours"]
    headings += ["paper", "difference", "verdict"] if beside else []
    rows = []
    for line in lines:
        ours, *rest = line.values.values()
        if line.seeds or not only_run:
            name = f"{line.cell.row} ({line.cell.note})" if line.cell.note else line.cell.row
            shown = mean(ours) if ours else NOTHING if line.seeds else "failed" if line.failed else NOT_RUN
            row = [line.cell.group, line.cell.column, name, shown]
            row += [paper_mean(line.theirs), *judgement(ours, line.theirs, line.judged)] if beside else []
            rows.append([*row, *(mean(values) if values else NOTHING for values in rest)])
    return Sheet(experiment.title, [*headings, *others], rows, notes(lines, beside))


def notes(lines: list[Line], beside: bool) -> list[str]:
    """How to read it, and how it went."""
    said = ["Percent: mean (standard deviation, runs)."]
    if any(line.theirs is not None and line.theirs.source == "pleiss" for line in lines):
        said[0] += " † taken by the paper from Pleiss et al.: no verdict."
    if any(line.cell.note == NOT_TUNED for line in lines):
        said[0] += " Not tuned: the paper tuned it and does not print the values; these are the defaults."
    judged: dict[str, list[bool]] = {}
    for line in lines:
        if line.judged is not None:
            judged.setdefault(line.cell.row, []).append(line.judged.agrees)
    if beside:
        counts = ", ".join(f"{row} {sum(agree)} of {len(agree)}" for row, agree in judged.items())
        said.append(f"Within the bound: {counts or 'no cell was run'}.")
    idle = sum(not line.seeds for line in lines)
    said.append(f"{idle} of {len(lines)} cells have not been run." if idle else "Every cell has been run.")
    reasons = Counter(line.why for line in lines if line.why is not None)
    said += [f"{count} of them: {why}." for why, count in reasons.items()]
    untested = sum(bool(line.seeds) and line.values.get("test_accuracy") == [] for line in lines)
    if untested:
        one = "1 cell that was run has" if untested == 1 else f"{untested} cells that were run have"
        said.append(f"{one} no test accuracy, for want of a test set; `measures` of a grid names what else to show.")
    return said


def facts(experiment: Experiment, lines: Iterable[Line]) -> Facts:
    """For JSON."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "cells": [
            {
                **dict(
                    zip(("group", "column", "row"), (line.cell.group, line.cell.column, line.cell.row), strict=True)
                ),
                "note": line.cell.note,
                "settings": as_plain(line.cell.resolved.facts()),
                "seeds": list(line.seeds),
                "ours": {measure: _numbers(values) for measure, values in line.values.items()},
                "paper": None if line.theirs is None else vars(line.theirs),
                "verdict": None if line.judged is None else vars(line.judged),
                "why_not_run": line.why,
            }
            for line in lines
        ],
    }


def _numbers(values: list[float]) -> dict[str, Any]:
    return {
        "mean": fmean(values) if values else None,
        "sd": stdev(values) if len(values) > 1 else None,
        "runs": len(values),
        "values": values,
    }
