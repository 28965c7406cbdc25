"""A grid written down in a TOML file, for data of one's own.

    title = "Which method suits my data?"
    seeds = [0, 1, 2]

    [settings]                              # of all runs
    data = "mine.npz"
    epochs = 60

    [grid]                                  # every combination is run
    batch = [64, 128]
    method = ["ce", "marvel", "marvel+"]

    [options.marvel]                        # a method's own parameters; of a list each is tried
    wait = [4, 8]

Files are named from where the command is given.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from marvel.config import HOW, Config, as_plain, config_from, read_config
from marvel.errors import InvalidInput, UnknownName, pick
from marvel.experiment import MEASURES, Cell, Experiment

PARTS = ("title", "seeds", "measures", "settings", "grid", "options")


def read_grid(path: Path) -> Experiment:
    """The experiment in such a file; it is called as the file is."""
    content = read_config(path)
    for key in content:
        if key not in PARTS:
            raise UnknownName(f"part of {path}", key, PARTS)
    settings, grid, options = (_table(path, content, part) for part in ("settings", "grid", "options"))
    methods = grid.get("method", [settings.get("method", Config.method)])
    _check(path, settings, grid, options, methods)
    axes = [name for name in grid if name not in ("method", "data")]
    cells = []
    for chosen in _combinations(grid):
        method = chosen.get("method", methods[0])
        own = _table(path, options, method)
        for tried in _combinations(own):
            config = config_from(settings, chosen, {"method": method, "options": tried})
            column = _column({name: as_text(chosen[name]) for name in axes})
            row = _row(method, {name: as_text(tried[name]) for name in own if isinstance(own[name], list)})
            cells.append(Cell(config.data, column, row, config))
    seeds = content.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise InvalidInput(f"{path}: seeds should be a list of whole numbers, got {seeds!r}")
    measures = content.get("measures", list(Experiment.measures))
    if not isinstance(measures, list) or not measures:
        raise InvalidInput(f'{path}: measures should be a list of names, got {measures!r}: write ["test_accuracy"]')
    for measure in measures:
        pick("measure", measure, MEASURES)
    headings = ("data", ", ".join(axes) or "setting", "method")
    title = str(content.get("title", path.stem))
    return Experiment(path.stem, title, tuple(cells), tuple(seeds), tuple(measures), headings)


def _check(
    path: Path, settings: Mapping[str, Any], grid: Mapping[str, Any], options: Mapping[str, Any], methods: list[Any]
) -> None:
    """Said before anything is made of it: what cannot be meant."""
    told = {name.replace("-", "_") for name in settings}
    for name, values in grid.items():
        plain = name.replace("-", "_")
        if not isinstance(values, list) or not values:
            raise InvalidInput(f"{path}: {name} in [grid] should be a list of values, got {values!r}")
        if plain in told:
            raise InvalidInput(f"{path}: {name} is in [settings] and in [grid]: leave out one of them")
        if plain in HOW:  # one record would be shown as that of each
            raise InvalidInput(
                f"{path}: {name} says how a run is computed and not which one it is, so that several in [grid] would "
                "be the same run: put one into [settings]"
            )
    if "seed" in told or "seed" in grid:
        raise InvalidInput(f"{path}: seeds are those of the whole grid: write seeds = [0, 1, 2] above [settings]")
    for name in options:
        if name not in methods:
            raise InvalidInput(
                f"{path}: [options.{name}] is of a method that is not run; there is: {', '.join(map(str, methods))}"
            )


def _column(chosen: Mapping[str, str]) -> str:
    """A column of the table by what varies; where that is one setting only, its value says enough."""
    return ", ".join(chosen.values() if len(chosen) == 1 else map(" ".join, chosen.items()))


def _row(method: str, tried: Mapping[str, str]) -> str:
    """A row of the table: the method, with those of its parameters of which several are tried."""
    return f"{method} ({', '.join(map(' '.join, tried.items()))})" if tried else method


def _table(path: Path, content: Mapping[str, Any], part: str) -> dict[str, Any]:
    table = content.get(part, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{path}: [{part}] should be a table of names and values, got {table!r}")
    return table


def _combinations(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One value of each list, in every way; what is no list stays as it is."""
    lists = [value if isinstance(value, list) else [value] for value in options.values()]
    return (dict(zip(options, values, strict=True)) for values in itertools.product(*lists))


def as_text(value: Any) -> str:
    """A setting as one writes it: 0.4, or 0.4,0 where it is several."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    return ",".join(map(as_text, value)) if isinstance(value, list | tuple) else str(as_plain(value))
