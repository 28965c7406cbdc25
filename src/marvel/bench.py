"""Many runs: leave out what is done, and let the rest take turns on the device.

Results are lines of JSON, one record a run. A run is known by its settings, so what was interrupted goes on.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from marvel import data as datasets
from marvel.config import HOW, Config
from marvel.data.core import Data
from marvel.errors import InvalidInput
from marvel.fast import pack
from marvel.run import Run, as_plain
from marvel.runs import Facts, as_json
from marvel.trainer import Epoch


def what(settings: Facts) -> str:
    """What a run is: its settings as asked for, less those of how it is computed."""
    return json.dumps({key: value for key, value in as_plain(settings).items() if key not in HOW}, sort_keys=True)


def records(results: Path) -> list[Facts]:
    """The records so far; a line cut short by a crash is left out."""
    return [json.loads(line) for line in results.read_bytes().split(b"\n")[:-1]] if results.exists() else []


def add(results: Path, record: Facts) -> None:
    """Add a record, in place of a line that a crash cut short."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with open(results, "a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(as_json(record))
        file.flush()
        os.fsync(file.fileno())


def bench(
    configs: Iterable[Config],
    results: str | Path,
    width: int = 8,
    watch: Callable[[Config, Epoch], None] | None = None,
) -> list[tuple[Config, Exception]]:
    """Do the runs that `results` lacks, `width` at a time, and add their records to it; returns what failed."""
    if width < 1:
        raise InvalidInput(f"width must be at least 1, got {width}")
    results = Path(results)
    done = {what(record["asked"]) for record in records(results)}
    asked = {what(config.facts()): config for config in configs}  # each once
    todo = [config for key, config in asked.items() if key not in done]
    loaded: dict[tuple[str, str | None], Data] = {}
    failed: list[tuple[Config, Exception]] = []

    def steps(config: Config) -> Iterator[Any]:
        at = config.data, config.root
        if at not in loaded:
            loaded[at] = datasets.load(*at)
        run = Run(config, data=loaded[at])
        yield from run.steps()
        add(results, {"asked": as_plain(config.facts()), **(run.record or {})})

    for which, shown in pack((steps(config) for config in todo), width):
        if isinstance(shown, Exception):
            failed.append((todo[which], shown))
        elif shown is not None and watch is not None:
            watch(todo[which], shown)
    return failed
