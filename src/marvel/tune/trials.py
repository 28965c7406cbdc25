"""What was tried and what came of it, in an Optuna study: a database in the folder that survives any interruption.

A trial is a point with a score for each fold. The score of a fold is written when that fold is done, so an interrupted
trial goes on with its next fold.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from marvel.errors import FolderError, MissingExtra
from marvel.runs import Facts
from marvel.tune.space import Point, Space, Span, are_numbers

DATABASE = "tune.sqlite"
STUDY = "marvel"


@dataclass(frozen=True)
class Trial:
    """A point, and its score in each fold: the accuracy on the instances held out."""

    point: Point
    scores: tuple[float, ...]
    failed: str | None = None
    """Why there is no score, where its training failed."""

    @property
    def score(self) -> float | None:
        return fmean(self.scores) if self.scores and self.failed is None else None

    @property
    def sd(self) -> float | None:
        return stdev(self.scores) if len(self.scores) > 1 and self.failed is None else None

    def facts(self) -> Facts:
        return {
            "point": self.point,
            "score": self.score,
            "sd": self.sd,
            "folds": list(self.scores),
            "failed": self.failed,
        }


class Study:
    """The trials of a folder; without one, they are kept in memory."""

    def __init__(self, folder: Path | None, seed: int, draws: bool = False) -> None:
        try:
            import optuna
        except ImportError:
            raise MissingExtra("marvel tune", "Optuna", "tune") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            storage = f"sqlite:///{(folder / DATABASE).resolve()}"
        try:
            self._study = optuna.create_study(
                storage=storage, study_name=STUDY, direction="maximize", load_if_exists=True
            )
        except Exception as error:  # SQLAlchemy's own, of which there are many
            raise FolderError(f"{folder}/{DATABASE} cannot be read: {error}") from None
        # A search that goes on draws other points than it began with.
        self._study.sampler = optuna.samplers.TPESampler(seed=seed + len(self._trials()))
        self._optuna, self._draws, self._folder = optuna, draws, folder
        self._open: dict[str, Any] = {}

    # ------------------------------------------------------------ what is known

    def scores(self, point: Mapping[str, Any]) -> dict[int, float]:
        """The score of each fold that was done for a point, in whichever trial."""
        found: dict[int, float] = {}
        for trial in self._trials():
            if _point(trial) == dict(point):
                found |= {int(key[5:]): value for key, value in trial.user_attrs.items() if key.startswith("fold ")}
        return found

    def failure(self, point: Mapping[str, Any]) -> str | None:
        """Why a point's training failed."""
        said = [t.user_attrs.get("failed") for t in self._trials() if _point(t) == dict(point)]
        return next((reason for reason in reversed(said) if reason is not None), None)

    def drawn(self) -> list[Point]:
        """All points there are, in the order they were first tried."""
        unique = {_key(_point(trial)): _point(trial) for trial in self._trials() if trial.params}
        return list(unique.values())

    def ended(self) -> int:
        """How many trials came to an end, in a score or in a failure."""
        complete = self._optuna.trial.TrialState.COMPLETE
        return sum(trial.state == complete or "failed" in trial.user_attrs for trial in self._trials())

    def refuse_others(self, space: Space) -> None:
        """Values of another kind than those tried before cannot join them in one study."""
        wanted = self._distributions(space)
        for name in wanted:
            before = [trial.distributions[name] for trial in self._trials() if name in trial.distributions]
            try:
                for old in before:
                    self._optuna.distributions.check_distribution_compatibility(old, wanted[name])
            except ValueError:
                raise FolderError(
                    f"{self._folder} holds a search over other values of {name}, to which these cannot be added: name "
                    "another folder"
                ) from None

    def _trials(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    # ------------------------------------------------------------ writing

    def draw(self, space: Space) -> Point:
        """A new point, where the trials so far make it promising."""
        trial = self._study.ask(self._distributions(space))
        point = _point(trial)
        self._open[_key(point)] = trial
        return point

    def begin(self, point: Point, space: Space) -> None:
        """A trial of this point, with the folds that an interrupted one of it has done."""
        if _key(point) in self._open:
            return
        known = self.scores(point)
        for old in self._trials():  # what was going on when it was interrupted
            if _point(old) == point and old.state == self._optuna.trial.TrialState.RUNNING:
                self._study.tell(old.number, state=self._optuna.trial.TrialState.FAIL)
        self._study.enqueue_trial({name: _kept(value) for name, value in point.items()})
        trial = self._study.ask(self._distributions(space))
        while _point(trial) != point:  # one that was waiting when it was interrupted
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            trial = self._study.ask(self._distributions(space))
        for fold, score in known.items():
            trial.set_user_attr(f"fold {fold}", score)
        self._open[_key(point)] = trial

    def note(self, point: Point, fold: int, score: float) -> None:
        self._open[_key(point)].set_user_attr(f"fold {fold}", score)

    def end(self, point: Point, folds: int) -> None:
        """All its folds are done."""
        scores = self.scores(point)
        self._study.tell(self._open.pop(_key(point)), fmean(scores[fold] for fold in range(folds)))

    def fail(self, point: Point, why: str) -> None:
        trial = self._open.pop(_key(point))
        trial.set_user_attr("failed", why)
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def _distributions(self, space: Space) -> dict[str, Any]:
        """Numbers of a grid are told as numbers between its ends, so that a finer grid may follow in the same study."""
        found: dict[str, Any] = {}
        kinds = self._optuna.distributions
        for name, values in space.items():
            if isinstance(values, Span):
                kind = kinds.IntDistribution if isinstance(values.low, int) else kinds.FloatDistribution
                found[name] = kind(values.low, values.high, log=values.by_powers)
            elif self._draws or not are_numbers(values):
                found[name] = kinds.CategoricalDistribution([_kept(value) for value in values])
            else:
                whole = all(isinstance(value, int) for value in values)
                found[name] = (kinds.IntDistribution if whole else kinds.FloatDistribution)(min(values), max(values))
        return found


def _kept(value: Any) -> Any:
    """As Optuna can write it down: of several numbers, their text."""
    return json.dumps(list(value)) if isinstance(value, tuple | list) else value


def _point(trial: Any) -> Point:
    """What was tried, as it was before it was written down."""
    return {
        name: tuple(json.loads(value)) if isinstance(value, str) and value.startswith("[") else value
        for name, value in trial.params.items()
    }


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(dict(point), sort_keys=True)
