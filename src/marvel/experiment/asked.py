"""Which runs of an experiment are asked for: by condition, by seed, by share."""

import re
from collections.abc import Sequence
from dataclasses import replace

from marvel.config import Config
from marvel.errors import InvalidInput, UnknownName
from marvel.experiment import Cell, Experiment
from marvel.experiment.grid import as_text


def only(experiment: Experiment, conditions: Sequence[str]) -> Experiment:
    """The cells that meet all of `data=cifar10,method=marvel,ce`: keys are settings, parameters, or the table's. Where
    such lists are several, the cells that meet any of them."""
    if not conditions:
        return experiment
    found = {id(cell) for condition in conditions for cell in _meeting(experiment, condition)}
    return replace(experiment, cells=tuple(cell for cell in experiment.cells if id(cell) in found))


def shard(runs: Sequence[Config], which: str) -> list[Config]:
    """`2/4`: the second, sixth, tenth ... run: four machines that take 1/4 to 4/4 do all of them once."""
    found = re.fullmatch(r"(\d+)/(\d+)", which)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InvalidInput(f"a shard is written 1/4 (the first of four) up to 4/4, got {which!r}")
    return list(runs[int(found[1]) - 1 :: int(found[2])])


def numbers(text: str) -> tuple[int, ...]:
    """`0,1,4-6` -> 0, 1, 4, 5, 6"""
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise InvalidInput(f"seeds are written 0,1,2 or 0-9, got {text!r}")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(dict.fromkeys(found))


def _meeting(experiment: Experiment, condition: str) -> list[Cell]:
    cells = list(experiment.cells)
    for key, wanted in _parts(condition).items():
        if all(_value(cell, key) is None for cell in experiment.cells):
            raise UnknownName("setting", key, _keys(experiment.cells))
        there = dict.fromkeys(_value(cell, key) for cell in cells)
        cells = [cell for cell in cells if _meets(_value(cell, key), wanted)]
        if not cells:
            said = "; ".join(str(value) for value in there if value is not None)
            raise InvalidInput(f"nothing in {experiment.name} has {key}={','.join(wanted)}; there is: {said}")
    return cells


def _parts(condition: str) -> dict[str, list[str]]:
    """`data=cifar10,method=marvel,ce` -> data: [cifar10], method: [marvel, ce]"""
    found: dict[str, list[str]] = {}
    for word in condition.split(","):
        key, given_one, value = word.partition("=")
        if given_one:
            found.setdefault(key.strip().replace("-", "_"), []).append(value.strip())
        elif found:
            found[list(found)[-1]].append(word.strip())
        else:
            raise InvalidInput(f"a condition is written data=cifar10,method=marvel,ce; got {condition!r}")
    return found


def _value(cell: Cell, key: str) -> str | None:
    places = {"group": cell.group, "column": cell.column, "row": cell.row}
    if key in places:
        return places[key]
    settings = {**cell.resolved.facts(), **cell.resolved.options}
    return as_text(settings[key]) if key in settings and key not in ("options", "seed") else None


def _keys(cells: Sequence[Cell]) -> list[str]:
    names = {name for cell in cells for name in (*cell.config.facts(), *cell.resolved.options)}
    return sorted(names - {"options", "seed"} | {"group", "column", "row"})


def _meets(value: str | None, wanted: Sequence[str]) -> bool:
    """Any of those wanted, or all of them where the value is itself several: rates=0.4,0."""
    return value is not None and (value in (texts := [_normal(one) for one in wanted]) or value == ",".join(texts))


def _normal(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
