"""How much of MARVEL's gain over cross entropy is its learning-rate schedule's (`experiments/control.py`)."""

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from marvel.experiment import Experiment
from marvel.report.compared import Line, compare
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING, mean


def schedule(experiment: Experiment, records: Iterable[Any]) -> str:
    """A row for each setting all three of CE, CE on MARVEL's schedule, and MARVEL were run on."""
    places: dict[tuple[str, str], list[Line]] = {}
    for line in compare(experiment, records):
        places.setdefault((line.cell.group, line.cell.column), []).append(line)
    rows = []
    for (group, column), lines in places.items():
        accuracies = [line.values["test_accuracy"] for line in lines]
        if len(accuracies) == 3 and all(accuracies):
            ce, late, marvel = map(fmean, accuracies)
            share = f"{100 * (late - ce) / (marvel - ce):.0f} %" if marvel > ce else NOTHING
            rows.append([group, column, *map(mean, accuracies), f"{late - ce:+.1f}", f"{marvel - ce:+.1f}", share])
    if not rows:
        return "Not run yet."
    headings = ["problem", "noise", *(line.cell.row for line in lines)]
    headings += ["gain of the schedule", "gain of MARVEL", "the schedule's share"]
    return markdown_table(headings, rows)
