"""What was measured: files of records, one a line, and which run a record is of.

A run is known by what it is, not by how it was computed or spelled: the settings with the preset's filled in, less
those of `HOW` and those at their defaults. So a setting that is added later, or a default that is given outright, does
not make a run that is done look like another, and tables that share a run find it wherever it was recorded.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from marvel.config import HOW, Config, as_plain, filled, options_of
from marvel.errors import DataError
from marvel.methods import METHODS
from marvel.presets import PRESETS
from marvel.runs import Facts, as_json

DIGITS, MARGIN_DIGITS = 6, 3
"""Decimals of the curves: more would be the larger part of a record, and no picture shows them."""
MARGINS = ("margin_quantiles", "margin_survivors")
FAILED = ".failed.jsonl"
"""How the file of failures is named, beside that of the records."""


# ------------------------------------------------------------ which run


def identity(config: Config) -> str:
    """Which run these settings ask for."""
    preset = PRESETS.get(config.data)
    return what((config if preset is None else filled(config, preset)).facts())


def identity_of(record: Mapping[str, Any]) -> str:
    """Which run a record is of. Where there is a preset, as it was when the run was done, and not as it is now."""
    return what(record["config"] if record["config"]["data"] in PRESETS else record.get("asked", record["config"]))


def what(settings: Mapping[str, Any]) -> str:
    """What a run with these settings is: those that differ from the defaults, less those of how it is computed."""
    settings, usual = as_plain(dict(settings)), _usual()
    told = {key: value for key, value in settings.items() if key not in HOW and value != usual.get(key)}
    kind = METHODS.get(settings["method"])
    own = {} if kind is None else {name: as_plain(p.default) for name, p in options_of(kind).items()}
    told["options"] = {k: v for k, v in settings["options"].items() if k not in own or v != own[k]}
    return json.dumps(told, sort_keys=True)


def whatever_seed(run: str) -> str:
    """What runs that differ in their seeds have in common."""
    return json.dumps({key: value for key, value in json.loads(run).items() if key != "seed"}, sort_keys=True)


def with_seed(run: str, seed: int) -> str:
    """Which run is the same with that seed."""
    told = json.loads(whatever_seed(run))
    return json.dumps(told if seed == _usual()["seed"] else told | {"seed": seed}, sort_keys=True)


@cache
def _usual() -> Facts:
    usual: Facts = as_plain(Config().facts())
    return usual


# ------------------------------------------------------------ files of records


def records(path: Path) -> list[Facts]:
    """The records of a file; a line cut short by a crash is left out."""
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1] if path.exists() else (), 1):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged in line {number}: {error}") from None
    return found


def runs_of(path: Path) -> dict[str, Facts]:
    """The records of a file, by which run they are of; what else is written there is of no run."""
    return {identity_of(record): record for record in records(path) if _of_a_run(record)}


def by_run(folder: Path) -> dict[str, Facts]:
    """The same of all files of a folder."""
    found: dict[str, Facts] = {}
    for path in sorted(folder.glob("*.jsonl")):
        if not path.name.endswith(FAILED):
            found |= runs_of(path)
    return found


def _of_a_run(record: Any) -> bool:
    """Whether it has what every record of a run has: others may lie in the same folder."""
    if not isinstance(record, dict) or not isinstance(record.get("final"), dict):
        return False
    config = record.get("config")
    return isinstance(config, dict) and {"data", "method", "options", "seed"} <= set(config)


def add(path: Path, record: Facts) -> None:
    """Add a record, in place of a line that a crash cut short."""
    with _held(path) as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(_line(short(record)))


def short(record: Facts) -> Facts:
    """The record as it is kept here: curves and the rates of single classes rounded, and no histogram of all margins
    where those of right and of wrong labels add up to it. The run folder has it in full."""
    kept = dict(record)  # an experiment of its own may keep less of a run
    if "noise" in record:
        kept["noise"] = {key: _rounded(value) for key, value in record["noise"].items()}
        kept["noise"] |= {"realised_rate": record["noise"]["realised_rate"]}
    if "curves" in record:
        digits = {key: MARGIN_DIGITS if key in MARGINS else DIGITS for key in record["curves"]}
        kept["curves"] = {key: _rounded(curve, digits[key]) for key, curve in record["curves"].items()}
    if "histograms" in record:
        kept["histograms"] = {
            epoch: {of: counts for of, counts in sets.items() if of != "all" or "clean" not in sets}
            for epoch, sets in record["histograms"].items()
        }
    return kept


def _rounded(value: Any, digits: int = DIGITS) -> Any:
    if isinstance(value, list):
        return [_rounded(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) else value


# ------------------------------------------------------------ failures


def failures(results: Path) -> list[Facts]:
    """The runs that failed when they were last tried, of a file of records, or of all in a folder."""
    files = sorted(results.glob(f"*{FAILED}")) if results.is_dir() else [beside(results)]
    return [note for file in files if file.exists() for note in _notes(file.read_bytes())]


def note_failure(results: Path, config: Config, error: Exception) -> None:
    """Write down why a run failed, in place of what was said of it before."""
    line = {
        "run": identity(config),
        "asked": as_plain(config.facts()),
        "kind": getattr(error, "kind", type(error).__name__),
    }
    _rewrite(beside(results), identity(config), line | {"error": str(error) or repr(error)})


def forget_failure(results: Path, config: Config) -> None:
    """It has worked since."""
    if beside(results).exists():
        _rewrite(beside(results), identity(config), None)


def beside(results: Path) -> Path:
    """results/wait.jsonl -> results/wait.failed.jsonl"""
    return results.with_name(results.name.removesuffix(".jsonl") + FAILED)


def _notes(content: bytes) -> list[Facts]:
    """What a file of failures says. A damaged line is left out: it stops no run, and the next try says it anew."""
    found = []
    for line in content.split(b"\n")[:-1]:
        with suppress(ValueError, RecursionError):
            note = json.loads(line)
            if isinstance(note, dict) and {"run", "error"} <= set(note):
                found.append(note)
    return found


def _rewrite(path: Path, run: str, line: Facts | None) -> None:
    with _held(path) as file:
        lines = [old for old in _notes(file.read()) if old["run"] != run] + ([] if line is None else [line])
        file.seek(0)
        file.truncate()
        file.write(b"".join(map(_line, lines)))
    if not lines:
        path.unlink(missing_ok=True)


# ------------------------------------------------------------ writing


def _line(facts: Facts) -> bytes:
    """Without blanks: a fifth less to keep."""
    return as_json(facts, compact=True)


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """The file, which nobody else writes meanwhile; on the disk when it is let go."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file
        file.flush()
        os.fsync(file.fileno())
