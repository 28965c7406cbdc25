"""A page for each method: its docstrings, its declared facts, and our runs beside the paper's numbers."""

import inspect
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from extension.described import described
from marvel import METHODS
from marvel.catalogue import describe
from marvel.experiment import Experiment
from marvel.experiment.finding import load
from marvel.report.compared import Line, compare
from marvel.report.sheet import markdown_table as table
from marvel.report.tables import accuracy, detection
from marvel.report.words import judgement, mean, paper_mean
from marvel.results import by_run, identity, identity_of, whatever_seed

TABLES = ("binary_symmetric", "binary_asymmetric", "cifar_symmetric", "cifar_asymmetric", "resnet34", "human_noise")
"""The experiments that are tables of results; the others vary one setting of theirs."""
ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def page_of(key: str) -> str:
    """The name of a method's page: `marvel+` would be no good address."""
    return key.replace("+", "-plus").replace("_", "-")


def keys_of(name: str) -> list[str]:
    """The methods that a class is."""
    return [key for key, kind in METHODS.items() if kind.__name__ == name]


def method_pages(root: Path) -> dict[str, str]:
    return {f"method/{page_of(key)}.md": method_page(key, root) for key in METHODS}


def method_page(key: str, root: Path) -> str:
    facts = describe(key)
    said = inspect.cleandoc(sys.modules[METHODS[key].__module__].__doc__ or "")
    paper, _, rest = said.partition("\n\n")
    parts = [
        f"# `{key}`",
        ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", paper),
        _facts(facts),
        "## Use it",
        _use(facts),
        "## What it computes",
        rest,
        "## The class",
        described("marvel", facts["class"], members=()),
        "## Measured",
        *measured(key, root),
    ]
    return "\n\n".join(parts) + "\n"


def overview() -> str:
    """All methods in a table, each with a link to its page."""
    rows = [
        [
            f"[`{key}`]({'method/' + page_of(key)}.md)",
            one["paper"],
            ", ".join(one["needs"]) or "nothing",
            one["works_in"],
        ]
        for key in in_order()
        for one in [describe(key)]
    ]
    return table(["method", "paper", "must be told", "works in"], rows)


def in_order() -> list[str]:
    """Ours first."""
    return sorted(METHODS, key=lambda key: not key.startswith("marvel"))


def _facts(facts: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"- Must be told: {', '.join(facts['needs']) or 'nothing'}.",
            f"- Works in {facts['works_in']}.",
            f"- Overrides {', '.join(f'`{level}`' for level in facts['overrides']) or 'nothing'}"
            " ([what that means](../adding-a-method.md)).",
        ]
    )


def _use(facts: dict[str, Any]) -> str:
    told = " --oracle-rate" if "noise_rate" in facts["needs"] else ""
    train = f"```sh\nmarvel train --noise symmetric --rate 0.4 --method {facts['key']}{told}\n```"
    if not facts["works_in"].startswith("any loop"):
        return train
    given = ", ".join(["n=len(train)", "classes=10", "epochs=120", *_required(facts)])
    own = [
        f"from marvel import {facts['class']}",
        "",
        f"criterion = {facts['class']}({given})",
        "loss = criterion(network(x), y, index)  # each step; criterion.step() once an epoch",
    ]
    return "\n\n".join([train, "```python\n" + "\n".join(own) + "\n```"])


def _required(facts: dict[str, Any]) -> list[str]:
    examples = {"noise_rate": "noise_rate=0.4", "clean": "clean=right"}
    required = {one["name"] for one in facts["parameters"] if one["required"]} | set(facts["needs"])
    return [examples[name] for name in sorted(required)]


# ------------------------------------------------------------ numbers


def measured(key: str, root: Path) -> list[str]:
    """Our runs of a method beside the paper's numbers, then all of the paper's, then all other runs of ours."""
    records = _records(root)
    lines = [(one, line) for one, line in _lines(root) if line.cell.config.method == key]
    done = [line for _, line in lines if line.seeds]
    parts = [READING] if done or any(line.theirs for _, line in lines) else []
    if done:
        rows = [[line.cell.group, line.cell.column, *_numbers(line)] for line in done]
        parts.append(table(["problem", "noise", "ours", "paper", "difference", "verdict"], rows))
    theirs = [(one, line) for one, line in lines if line.theirs is not None]
    if theirs:
        parts += ["### The paper's numbers", *_by_table(theirs)]
    shown = {whatever_seed(identity(line.cell.config)) for line in done}
    others = [record for run, record in records.items() if record["config"]["method"] == key]
    rest = [record for record in others if whatever_seed(identity_of(record)) not in shown]
    if rest:
        parts += ["### Other runs", "Settings that are in none of the paper's tables.", accuracy(rest)]
    if others:
        parts += ["### Finding the wrong labels", "Means over the runs, percent.", detection(others)]
    if not parts:
        parts = ["Neither the paper nor we have numbers of this method on the paper's problems yet. "]
    return [
        *parts,
        "Made from the records in `results` and the paper's tables (`marvel.paper`) when the site was built.",
    ]


READING = (
    "Test accuracy in percent: mean (standard deviation, runs). † marks what the paper took from Pleiss et al., which "
    "allows no verdict. [Reproduction](../reproduction.md) says how the verdict is reached and what has been run."
)


def _numbers(line: Line) -> list[str]:
    ours = next(iter(line.values.values()))
    return [mean(ours), paper_mean(line.theirs), *judgement(ours, line.theirs, line.judged)]


def _by_table(lines: Sequence[tuple[Experiment, Line]]) -> list[str]:
    """A small table for each of the paper's: a row a problem, a column a noise."""
    parts = []
    for title in dict.fromkeys(one.title for one, _ in lines):
        cells = {(line.cell.group, line.cell.column): line for one, line in lines if one.title == title}
        columns = list(dict.fromkeys(column for _, column in cells))
        rows = [
            [
                group,
                *(paper_mean(cells[group, column].theirs) if (group, column) in cells else "" for column in columns),
            ]
            for group in dict.fromkeys(group for group, _ in cells)
        ]
        parts += [f"{title.removesuffix(': test accuracy')}:", table(["problem", *columns], rows)]
    return parts


@cache
def _records(root: Path) -> dict[str, Any]:
    return by_run(root / "results")


@cache
def _lines(root: Path) -> list[tuple[Experiment, Line]]:
    found = (load(root / "experiments" / f"{name}.py") for name in TABLES)
    return [(one, line) for one in found for line in compare(one, _records(root).values())]
