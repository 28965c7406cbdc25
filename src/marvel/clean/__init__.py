"""From a messy dataset to a ranked list of wrong labels: one run, with canaries that say how good the list is.

    from marvel.clean import clean

    found = clean("photos", out="runs/photos")
    found.issues[0].id, found.issues[0].suggested, found.estimate["wrong"]

The way of it: `canaries` (labels made wrong on purpose) -> a run (`run`) -> `estimate` (how many are wrong, which) ->
`cut` (how many are listed) -> the run folder.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marvel.clean.defaults import largest, suited
from marvel.clean.findings import Issue
from marvel.clean.run import CleanRun
from marvel.config import config_from
from marvel.data.core import Data
from marvel.data.images import Watch
from marvel.distributed import together, writes_files
from marvel.run import read, stoppable
from marvel.runs import Facts, RunFolder
from marvel.trainer import Epoch

__all__ = ["CleanRun", "Cleaned", "Issue", "clean", "prepare"]

IGNORED, TIMED, PATIENCE = 3, 10, 3.0
"""Steps that are not timed, steps that are, and seconds after which fewer will do."""


@dataclass(frozen=True)
class Cleaned:
    """What was found."""

    run: CleanRun
    folder: Path | None
    issues: list[Issue]
    """The list, the most suspect first."""
    found: Facts
    """What clean.json says."""
    report: Path | None

    def __repr__(self) -> str:
        """A line for whoever looks at it; `issues` and `found` have the rest."""
        wrong = "how many are wrong is not estimated"
        if self.estimate is not None:
            wrong = "about {value:.0f} wrong ({low:.0f} to {high:.0f})".format(**self.estimate["wrong"])
        where = "nothing is written" if self.folder is None else f"in {self.folder}"
        return f"Cleaned({len(self.issues)} of {self.found['n']} labels listed, {wrong}, {where})"

    @property
    def estimate(self) -> Facts | None:
        """How many labels are wrong, with an interval, and how good the list is; None: nothing is claimed."""
        estimate: Facts | None = self.found["estimate"]
        return estimate


def clean(
    data: str | Path | Data,
    out: str | Path | None = None,
    *,
    canaries: float | None = None,
    precision: float | None = None,
    top: int | None = None,
    resume: bool = False,
    watch: Callable[[Epoch], None] | None = None,
    expect: Callable[[float], None] | None = None,
    reading: Watch | None = None,
    loaded: Callable[[Data], None] | None = None,
    report: bool = True,
    **settings: Any,
) -> Cleaned:
    """Find the wrong labels of `data`: a path, a dataset's name, or `Data`.

    `canaries`, `precision` and `top` as in `CleanRun`. `settings` are those of a run and the method's own; what is not
    given suits the data. `watch` is shown every epoch, `expect` is told once how many seconds the training will take,
    `reading` how far the reading is, and `loaded` is shown the data before the training.
    """
    name = data.name if isinstance(data, Data) else str(data)
    with together(str(settings.get("device", settings.get("--device", "auto")))):
        run = prepare(
            {**settings, "data": name},
            out,
            resume,
            data if isinstance(data, Data) else None,
            reading,
            canaries=canaries,
            precision=precision,
            top=top,
        )
        if loaded is not None and writes_files():
            loaded(run.data)
        with stoppable(run):
            for epoch in timed(run, expect):
                if epoch is not None and watch is not None and writes_files():
                    watch(epoch)
        page = None
        if report and run.folder is not None and writes_files():
            page = write_report(run.folder)
        return Cleaned(run, None if run.folder is None else run.folder.path, run.issues(), run.found(), page)


def prepare(
    settings: Mapping[str, Any],
    out: str | Path | None = None,
    resume: bool = False,
    data: Data | None = None,
    reading: Watch | None = None,
    **how: Any,
) -> CleanRun:
    """The run, not yet begun; `how` are `canaries`, `precision` and `top`."""
    config = config_from(settings)
    if data is None:
        data = read(config, reading, largest(config))
    given = {key.lstrip("-").replace("-", "_") for key, value in settings.items() if value is not None}  # as flags too
    return CleanRun(suited(config, data, given), out, resume, data, **how)


def timed(run: CleanRun, expect: Callable[[float], None] | None) -> Iterator[Epoch | None]:
    """The run's steps; `expect` is told how long the rest will take as soon as a few steps were timed."""
    began: float | None = None  # at a step, never at an epoch's end: with one step an epoch every other turn is one
    counted = 0
    for k, shown in enumerate(run.steps()):
        if expect is not None and shown is None and k >= IGNORED and writes_files():
            if began is None:
                began = time.perf_counter()
            else:
                counted += 1
                passed = time.perf_counter() - began
                if counted == TIMED or passed > PATIENCE:
                    steps = math.ceil(len(run.data) / run.config.batch) * (run.trainer.epochs - run.trainer.epoch)
                    expect(passed / counted * steps)
                    expect = None
        yield shown


def write_report(folder: RunFolder) -> Path | None:
    """report.html, where there is something to report."""
    from marvel.report.page import write_page

    return None if folder.found is None else write_page(folder)
