"""Parameters the paper tuned without printing what it found: ours, from results/tuned.json.

The file is a list; each entry names problem, noise and method as the settings of a run do, and the `options` found:

    [{"data": "cat-dog", "noise": "symmetric", "rate": 0.2, "method": "gce", "options": {"q": 0.7}, "folds": 5}, ...]

`marvel tune ... --save results/tuned.json` adds to it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marvel.config import Config, as_plain

FILES = (Path(__file__).resolve().parent.parent / "results" / "tuned.json", Path("results/tuned.json"))
PROBLEM = ("data", "noise", "rate", "rates")


def tuned(problem: Config, method: str, files: Sequence[Path] = FILES) -> dict[str, Any] | None:
    """The entry of a method on a problem; None where nobody has looked."""
    usual, here = as_plain(Config().facts()), as_plain(problem.facts())
    wanted = [method, *(here[key] for key in PROBLEM)]
    for file in files:
        for entry in json.loads(file.read_text(encoding="utf-8")) if file.exists() else ():
            if [entry["method"], *(entry.get(key, usual[key]) for key in PROBLEM)] == wanted:
                return dict(entry)
    return None


def note(entry: dict[str, Any] | None) -> str:
    """What a table says of it."""
    if entry is None:
        return "not tuned"
    found = ", ".join(f"{name} {value:g}" for name, value in entry["options"].items())
    return f"{found}, one fold" if entry.get("folds") == 1 else found
