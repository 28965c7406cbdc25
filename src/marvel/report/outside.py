"""The cells, of all experiments, in which we and the paper differ."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from marvel.experiment.finding import inside, load
from marvel.report.compared import compare
from marvel.report.sheet import markdown_table
from marvel.report.words import judgement, mean, paper_mean
from marvel.results import identity


def outside(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """Each run once, though several tables may have it; and of how many that were judged."""
    records = list(records)
    judged: dict[str, list[str] | None] = {}
    for experiment in map(load, inside(folder).values()):
        for line in [] if experiment.readings else compare(experiment, records):
            run = identity(line.cell.config)
            if line.judged is not None and run not in judged:
                ours, cell = line.values[experiment.measures[0]], line.cell
                place = [f"`{experiment.name}`", cell.group, cell.column, cell.row]
                numbers = [mean(ours), paper_mean(line.theirs), *judgement(ours, line.theirs, line.judged)]
                judged[run] = None if line.judged.agrees else [*place, *numbers]
    rows = [row for row in judged.values() if row is not None]
    if not rows:
        return f"None of {len(judged)}." if judged else "Nothing has been run."
    headings = ["experiment", "problem", "noise", "method", "ours", "paper", "difference", "verdict"]
    return f"{len(rows)} of {len(judged)}:\n\n{markdown_table(headings, rows)}"
