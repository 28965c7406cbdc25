"""What has been run of the experiments, and what is left."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from marvel.cost import seconds
from marvel.experiment import Experiment
from marvel.experiment.finding import inside, load
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING
from marvel.results import identity, identity_of, with_seed

ORDER = (
    *("binary-symmetric", "binary-asymmetric", "cifar-symmetric", "cifar-asymmetric", "human-noise", "control"),
    *("baselines", "resnet34", "warmup", "wait", "precision-recall", "boot-network", "binary-batch", "real-world"),
)
"""As docs/reproduction.md says to run them; others come after."""


def progress(folder: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """One row an experiment of the folder: cells, those with a run, seeds, and the hours of an H200 that are left."""
    done = {identity_of(record) for record in records}
    found = [load(path) for path in inside(folder).values()]
    place = {name: k for k, name in enumerate(ORDER)}
    found.sort(key=lambda one: (place.get(one.name, len(ORDER)), one.name))
    rows = [_row(experiment, done) for experiment in found]
    headings = ["experiment", "cells", "run at least once", "runs done", "left: first seed", "left: all seeds"]
    return markdown_table(headings, rows)


def _row(experiment: Experiment, done: set[str]) -> list[str]:
    cells: list[list[str]] = []
    costs: dict[str, float] = {}
    for cell in experiment.cells:
        run, cost = identity(cell.config), seconds(cell.config) or 0
        cells.append([with_seed(run, seed) for seed in experiment.seeds])
        costs |= dict.fromkeys(cells[-1], cost)
    firsts = {runs[0] for runs in cells}
    once = sum(not done.isdisjoint(runs) for runs in cells)
    left = {run: cost for run, cost in costs.items() if run not in done}
    return [
        f"`{experiment.name}`",
        str(len(experiment.cells)),
        str(once),
        f"{len(costs) - len(left)} of {len(costs)}",
        duration(sum(cost for run, cost in left.items() if run in firsts)),
        duration(sum(left.values())),
    ]


def duration(of: float) -> str:
    """Seconds as people say them."""
    if of <= 0:
        return NOTHING
    if of < 90:
        return f"{of:.0f} s"
    return f"{of / 60:.0f} min" if of < 5400 else f"{of / 3600:.1f} h"
