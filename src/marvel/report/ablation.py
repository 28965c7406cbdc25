"""A method beside its controls: one table for each problem, a column for each noise, and what was not run said so."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from marvel.experiment import Experiment
from marvel.report.compared import compare
from marvel.report.sheet import markdown_table
from marvel.report.words import NOT_RUN, mean


def ablation(experiment: Experiment, records: Iterable[Any]) -> str:
    """Test accuracy, %, of every cell of an experiment: the mean, the deviation and the number of seeds."""
    values = {
        (line.cell.group, line.cell.column, line.cell.row): line.values["test_accuracy"]
        for line in compare(experiment, records)
    }
    return pivots(values)


def pivots(values: Mapping[tuple[str, str, str], Sequence[float]]) -> str:
    """(problem, noise, row) -> accuracies, as tables; rows of which nothing was run are named below."""
    parts = []
    for group in dict.fromkeys(at[0] for at in values):
        columns = list(dict.fromkeys(at[1] for at in values if at[0] == group))
        rows, lacking = [], []
        for row in dict.fromkeys(at[2] for at in values if at[0] == group):
            found = [values.get((group, column, row)) for column in columns]
            if any(found):
                rows.append([row, *("" if one is None else mean(one) if one else NOT_RUN for one in found)])
            else:
                lacking.append(row)
        if rows:
            parts.append(markdown_table([group, *columns], rows))
        if lacking:
            parts.append(f"{group}, {NOT_RUN} at all: {', '.join(lacking)}.")
    return "\n\n".join(parts)


def controls(records: Iterable[Any]) -> str:
    """The same of records alone, for a method run with several options."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        config = record["asked"]
        options = ", ".join(f"{name} {value}".lower() for name, value in config["options"].items())
        noise = f"{config['noise']} {config['rate']:.0%}" if config["rate"] else "clean"
        row = config["method"] + (f" ({options})" if options else "")
        problem = f"{config['data']}, {record['config']['network']}, {record['config']['epochs']} epochs"
        values.setdefault((problem, noise, row), []).append(100 * record["final"]["test_accuracy"])
    return pivots(values)
