"""The demonstration: scikit-learn's digits with 40 % of the labels wrong, by cross entropy, MARVEL and MARVEL+.

Small enough for a minute on a laptop, and the whole of the matter: cross entropy learns the digits first and then the
wrong labels by heart; MARVEL stops in between. Everything lies in one folder: a run folder for each method, the curves,
and `demo.json` with the numbers, which also says that the folder is the demonstration's own and may be written again.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marvel import data
from marvel.config import Config
from marvel.errors import FolderError
from marvel.report.figures import curves
from marvel.run import train
from marvel.runs import Facts, RunFolder, as_json, write_atomically
from marvel.trainer import Epoch

METHODS = ("ce", "marvel", "marvel+")
OURS = {"made_by": "marvel demo"}
"""What `demo.json` says in a folder that the demonstration may write again."""
NUMBERS = ("test_accuracy", "memorisation_ratio", "label_precision", "label_recall", "detection_f1")


@dataclass(frozen=True)
class Demo:
    """What the demonstration showed."""

    folder: Path
    records: dict[str, Facts]
    """By method."""
    picture: Path
    seconds: float

    def rows(self) -> dict[str, dict[str, float | None]]:
        """The numbers of each method, as its record has them."""
        return {name: {key: record["final"][key] for key in NUMBERS} for name, record in self.records.items()}

    def facts(self) -> Facts:
        """For JSON."""
        return {
            **OURS,
            "folder": str(self.folder),
            "picture": str(self.picture),
            "seconds": round(self.seconds, 1),
            "environment": self.records["ce"]["environment"],
            "methods": self.rows(),
        }


def settings(method: str, seed: int = 0, epochs: int | None = None) -> Config:
    """One run of it: the preset of `digits`, with wait 4."""
    options: dict[str, Any] = {} if method == "ce" else {"wait": 4}
    return Config(
        data="digits",
        noise="symmetric",
        rate=0.4,
        method=method,
        options=options,
        seed=seed,
        epochs=epochs,
        device="cpu",
        checkpoint_every=0,  # it is done sooner than it would be resumed
    )


def demo(
    out: str | Path = "demo",
    seed: int = 0,
    epochs: int | None = None,
    watch: Callable[[str], Callable[[Epoch], None]] | None = None,
) -> Demo:
    """Run it; `watch(method)` gives what is shown each epoch of that method."""
    began = time.perf_counter()
    folder = Path(out)
    claim(folder)
    digits = data.load("digits")
    records: dict[str, Facts] = {}
    for method in METHODS:
        done = train(settings(method, seed, epochs), folder / method, watch=watch and watch(method), data=digits)
        assert done.record is not None
        records[method] = done.record
    picture = folder / "curves.png"
    curves(list(records.values()), picture)
    shown = Demo(folder, records, picture, time.perf_counter() - began)
    write_atomically(folder / "demo.json", as_json(shown.facts(), indent=2))
    return shown


def claim(folder: Path) -> None:
    """Make room for the runs: clear those of a demonstration before, and refuse to write over anything else."""
    note = folder / "demo.json"
    runs = [RunFolder(folder / method) for method in METHODS]
    if _is_ours(note):
        for run in runs:
            run.clear()
        return
    for path in (note, folder / "curves.png", *(run.path for run in runs)):
        if path.exists():
            raise FolderError(f"{path} was not made by the demo: name another folder with --out")
    write_atomically(note, as_json(OURS))


def _is_ours(note: Path) -> bool:
    try:
        said = json.loads(note.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(said, dict) and said.items() >= OURS.items()
