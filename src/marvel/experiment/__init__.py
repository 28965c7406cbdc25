"""An experiment: the grid of settings behind a table, and the paper's number beside each.

    experiments/wait.py      EXPERIMENT = Experiment(...)     Marvel's own
    mine.toml                a grid, see `grid.read_grid`     for data of one's own

`finding.find("wait")` looks in ./experiments, then among those that come with Marvel; a path is taken as it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from marvel.config import Config, filled
from marvel.data import DATASETS
from marvel.paper import PaperNumber, paper_number
from marvel.presets import PRESETS

MEASURES = {
    "test_accuracy": "test accuracy",
    "memorisation_ratio": "memorisation ratio",
    "label_precision": "label precision",
    "label_recall": "label recall",
    "detection_precision": "detection precision",
    "detection_recall": "detection recall",
    "detection_f1": "detection F1",
    "detection_auroc": "detection AUROC",
    "detection_ap": "detection AP",
    "detection_best_f1": "best detection F1",
    "suggestion_accuracy": "suggestions right",
}
"""What can be shown of a run: shares, of its final numbers."""


@dataclass(frozen=True)
class Cell:
    """A place in a table: one setting, run with several seeds."""

    group: str  # which part of the table: a dataset, as a rule
    column: str  # the noise, as a rule
    row: str  # the method, as a rule
    config: Config
    paper: tuple[str, str, str, str] | None = None
    """Where the paper's number for it is: table, dataset, column, method."""
    note: str | None = None
    """What a reader must know, such as a parameter that was not tuned."""

    @property
    def theirs(self) -> PaperNumber | None:
        return None if self.paper is None else paper_number(*self.paper)

    @property
    def resolved(self) -> Config:
        """The settings with the preset's filled in, where there is one."""
        preset = PRESETS.get(self.config.data)
        return self.config if preset is None else filled(self.config, preset)

    @property
    def missing(self) -> str | None:
        """Why it cannot be run here, as far as its name tells."""
        data = self.config.data
        return None if data in DATASETS or Path(data).exists() else f"no dataset '{data}' here"


@dataclass(frozen=True)
class Aim:
    """What a cell is to come to, in percent."""

    group: str
    column: str
    row: str
    floor: float | str
    """It must not be below: a number, or the mean of another row of the same column."""
    aim: float | None = None
    """What is hoped for, where that is more."""
    measure: str = "test_accuracy"


@dataclass(frozen=True)
class Experiment:
    """All cells of a table, and the seeds that make it complete."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...] = (0,)
    measures: tuple[str, ...] = ("test_accuracy",)
    """What is shown of each run, as its record names it; the paper's numbers are of the first."""
    headings: tuple[str, str, str] = ("problem", "noise", "method")
    readings: bool = False
    """Whether its cells read the same cells of the paper in several ways, of which one at most can be right."""
    aims: tuple[Aim, ...] = ()
    """Set before it was run."""
    file: Path | None = None
    """Where it was found."""

    def runs(self, seeds: Iterable[int] | None = None) -> list[Config]:
        """All runs, the first seed of every cell before the second of any."""
        return [c.config.but(seed=seed) for seed in (self.seeds if seeds is None else seeds) for c in self.cells]
