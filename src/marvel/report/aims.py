"""What was asked of an experiment beside what it came to: the floor, the aim, ours, and the verdict."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from marvel.experiment import MEASURES, Experiment
from marvel.report.compared import compare
from marvel.report.sheet import markdown_table
from marvel.report.words import NOT_RUN, NOTHING, mean


def aims(experiment: Experiment, records: Iterable[Mapping[str, Any]]) -> str:
    """A row an aim; means over the seeds, in percent. What was not run is named below."""
    values = {(line.cell.group, line.cell.column, line.cell.row): line.values for line in compare(experiment, records)}
    rows, lacking = [], dict[tuple[str, str], dict[str, None]]()
    for one in experiment.aims:
        ours = values[one.group, one.column, one.row][one.measure]
        if not ours:
            lacking.setdefault((one.group, one.row), {})[one.column] = None
            continue
        floor, said = _floor(one.floor, values.get((one.group, one.column, str(one.floor)), {}).get(one.measure, []))
        aim = NOTHING if one.aim is None else f"{one.aim:g}"
        judged = verdict(ours, floor, one.aim)
        rows.append([one.group, one.column, one.row, MEASURES[one.measure], said, aim, mean(ours), judged])
    headings = ["problem", "labels", "method", "what", "floor", "aim", "ours", "verdict"]
    below = [f"{group}, {row}, {NOT_RUN}: {', '.join(columns)}." for (group, row), columns in lacking.items()]
    return "\n\n".join([*([markdown_table(headings, rows)] if rows else []), *below])


def verdict(ours: Sequence[float], floor: float | None, aim: float | None) -> str:
    """By the mean; where nothing more than the floor is hoped for, that is the aim."""
    if floor is None:
        return NOTHING
    # 84 is reached by the mean of 83.9 and 84.1, whatever its last bit.
    value = round(fmean(ours), 9)
    if value >= (floor if aim is None else aim):
        return "reached"
    return "above the floor" if value >= floor else "below the floor"


def _floor(floor: float | str, beside: Sequence[float]) -> tuple[float | None, str]:
    """As a number, and as it is read; that of another row is known when that was run."""
    if not isinstance(floor, str):
        return floor, f"{floor:g}"
    return (round(fmean(beside), 9), f"{floor}: {mean(beside)}") if beside else (None, f"{floor}: {NOT_RUN}")
