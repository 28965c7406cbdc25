"""Many runs: leave out what is done, and let the rest take turns on the device.

Results are lines of JSON, one record a run. A run is known by its settings, so what was interrupted goes on.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from marvel import data as datasets
from marvel.config import Config
from marvel.data.core import Data
from marvel.fast import pack
from marvel.run import Run, as_plain
from marvel.runs import Facts, as_json
from marvel.trainer import Epoch

HOW = ("root", "device", "precision", "fast", "compile", "threads", "workers", "source", "ledger", "checkpoint_every")
"""Settings that say how a run is computed, not what it is."""


def what(settings: Facts) -> str:
    """What a run is: its settings as asked for, less those of how it is computed."""
    return json.dumps({key: value for key, value in as_plain(settings).items() if key not in HOW}, sort_keys=True)


def records(results: Path) -> list[Facts]:
    """The records so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def bench(
    configs: Iterable[Config],
    results: str | Path,
    width: int = 8,
    watch: Callable[[Config, Epoch], None] | None = None,
) -> list[tuple[Config, Exception]]:
    """Do the runs that `results` lacks, `width` at a time, and add their records to it; returns what failed."""
    results = Path(results)
    done = {what(record["asked"]) for record in records(results)}
    todo = [config for config in configs if what(config.facts()) not in done]
    loaded: dict[tuple[str, str | None], Data] = {}
    failed: list[tuple[Config, Exception]] = []

    def steps(config: Config) -> Iterator[Any]:
        at = config.data, config.root
        if at not in loaded:
            loaded[at] = datasets.load(*at)
        run = Run(config, data=loaded[at])
        yield from run.steps()
        results.parent.mkdir(parents=True, exist_ok=True)
        with open(results, "ab") as file:
            file.write(as_json({"asked": as_plain(config.facts()), **(run.record or {})}))

    for which, shown in pack((steps(config) for config in todo), width):
        if isinstance(shown, Exception):
            failed.append((todo[which], shown))
        elif shown is not None and watch is not None:
            watch(todo[which], shown)
    return failed
