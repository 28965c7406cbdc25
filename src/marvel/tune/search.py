"""The search: try every point of a space, and judge it as one of the paper's three protocols does.

    cv         k folds of the given labels (binary problems: 5); folds = 1: one fold of five, for a small budget
    hold-out   a quarter of the instances, with their given labels; coarse, then finer (real-world data)
    clean      a tenth of the instances with clean labels, which the noise spares (ResNet-34)

A trial's score is its accuracy on what was held out, in the last epoch; on a clean validation set, in its best epoch.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from marvel.config import HOW, Config, as_plain
from marvel.data.core import Data
from marvel.errors import FolderError, InvalidInput, NonFinite, UnknownName
from marvel.fast import pack
from marvel.run import Run, read, resolve
from marvel.runs import Facts, as_json, write_atomically
from marvel.trainer import Epoch
from marvel.tune.folds import Folds, settings_of_fold
from marvel.tune.space import (
    Point,
    Space,
    Span,
    are_numbers,
    facts_of,
    points,
    refuse_other_settings,
    usual_space,
    with_values,
)
from marvel.tune.trials import Study, Trial

PROTOCOLS = ("cv", "hold-out", "clean")
FOLDS = 5
QUARTER = 0.25
"""How much is held out, as the paper does it."""
CLEAN_SHARE = 0.1
NOTE = "tune.json"

Watch = Callable[[str], Callable[[Epoch], None]]
"""Given the name of a training, what is shown its epochs."""


@dataclass(frozen=True)
class Tuned:
    """What a search came to."""

    config: Config
    by: str
    folds: int
    """How many scores a trial has."""
    trials: list[Trial]
    best: Trial

    @property
    def command(self) -> str:
        """Trains with the best values."""
        return train_command(with_values(self.config, self.best.point))

    def facts(self) -> Facts:
        """For JSON."""
        return {
            "config": as_plain(self.config.facts()),
            "by": self.by,
            "folds": self.folds,
            "trials": [trial.facts() for trial in self.trials],
            "best": self.best.facts(),
            "command": self.command,
        }

    def entry(self) -> Facts:
        """Problem, method and what was found, as `results/tuned.json` collects it."""
        told = as_plain(self.config.facts())
        return {key: told[key] for key in ("data", "noise", "rate", "rates", "method")} | {
            "options": as_plain({**self.config.options, **self.best.point}),
            "by": self.by,
            "folds": self.folds,
            "seed": self.config.seed,
            "score": self.best.score,
        }


def tune(
    config: Config,
    space: Space | None = None,
    *,
    by: str = "cv",
    folds: int = FOLDS,
    share: float | None = None,
    fine: bool | None = None,
    around: int | None = None,
    trials: int | None = None,
    width: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    data: Data | None = None,
) -> Tuned:
    """Find good values of hyper-parameters.

    `space`: what to try; default: the paper's grid. `folds`: of "cv"; 1: one of five. `share`: of "clean", how much is
    held out. `fine`: whether a finer grid follows around the best value, by default for "hold-out". `around`: MARVEL's
    wait, near which MARVEL+'s is sought. `trials`: draw so many points, where the space has ranges. `width`: how many
    trainings take turns on a device. `out`: a folder from which it goes on with `resume`.
    """
    if by not in PROTOCOLS:
        raise UnknownName("protocol", by, PROTOCOLS)
    for name, value in (("folds", folds), ("width", width), ("trials", 1 if trials is None else trials)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}")
    data = read(config) if data is None else data
    resolved = resolve(config, data)
    space = usual_space(resolved, around) if space is None else space
    refuse_other_settings(space)
    if fine is None:
        listed = [values for values in space.values() if not isinstance(values, Span) and are_numbers(values)]
        fine = by == "hold-out" and len(space) == 1 == len(listed)
    if fine:
        _check_finer(space)
    judge = _judge(config, data, by, folds, share)
    # Said before anything is trained: a name or a value that cannot be.
    grid = None if trials is not None else points(space)
    corner = {name: values.low if isinstance(values, Span) else values[0] for name, values in space.items()}
    judge.refuse_what_cannot_be([corner] if grid is None else grid)
    folder = None if out is None else Path(out)
    asked = {"config": as_plain(config.facts()), "by": by, "folds": folds, "share": share, "fine": fine}
    asked |= {"space": facts_of(space), "draws": trials}
    if folder is not None:
        claim(folder, asked, resume)
    study = Study(folder, config.seed, draws=grid is None)
    study.refuse_others(space)
    search = _Search(study, judge, width, watch)
    if grid is None:
        assert trials is not None
        search.draw(space, trials)
    else:
        search.all(grid, space)
        if fine:
            search.all(points(finer(space, search.done(grid))), space)
    done = search.done(study.drawn())
    whole = [trial for trial in done if trial.score is not None]
    if not whole:
        raise NonFinite(f"no trial came to an end; the first: {done[0].failed}" if done else "nothing was tried")
    tuned = Tuned(config, by, judge.folds, done, max(whole, key=lambda trial: trial.score or 0.0))
    if folder is not None:
        write_atomically(folder / NOTE, as_json({**tuned.facts(), **asked}, indent=2))
    return tuned


def finer(space: Space, done: Sequence[Trial]) -> Space:
    """Between the best value and the better of its neighbours, in thirds of their distance: the paper's
    {18, 30, 42, 54, 66} becomes {54, 58, 62, 66}."""
    name, values = _check_finer(space)
    scores = {trial.point[name]: trial.score for trial in done if trial.score is not None}
    known = sorted(scores)
    if len(known) < 2:
        return {name: tuple(known)}
    best = max(known, key=lambda value: scores[value] or 0.0)
    beside = [known[k] for k in (known.index(best) - 1, known.index(best) + 1) if 0 <= k < len(known)]
    other = max(beside, key=lambda value: scores[value] or 0.0)
    low, high = sorted((best, other))
    between = [low + (high - low) * k / 3 for k in range(4)]
    if all(isinstance(value, int) for value in values):
        return {name: tuple(dict.fromkeys(round(value) for value in between))}
    return {name: tuple(low if k == 0 else high if k == 3 else round(v, 10) for k, v in enumerate(between))}


def _check_finer(space: Space) -> tuple[str, tuple[Any, ...]]:
    """The one parameter of which a finer grid may follow, and its values."""
    if len(space) > 1:
        raise InvalidInput(f"a finer grid is for one parameter, and {len(space)} are tried: add --no-fine")
    ((name, values),) = space.items()
    if isinstance(values, Span) or not are_numbers(values):
        raise InvalidInput(f"a finer grid is for numbers, which the values of {name} are not: add --no-fine")
    return name, values


# ------------------------------------------------------------ how a point is judged


@dataclass(frozen=True)
class _Judge:
    """A protocol: `folds` trainings a point, each of some settings on some data, and the score of a record."""

    settings: Callable[[Point], Config]
    data: Callable[[int], Data]
    folds: int
    score: Callable[[Facts], float]

    def refuse_what_cannot_be(self, wanted: Sequence[Point]) -> None:
        """Build every method, before anything is trained."""
        run: Run | None = None
        for point in wanted:
            if run is None:
                run = Run(self.settings(point), data=self.data(0))
            run.config = resolve(self.settings(point), run.data)
            run.build_method()


def _judge(config: Config, data: Data, by: str, folds: int, share: float | None) -> _Judge:
    if by == "clean":
        if config.noise == "none" and data.clean is None:
            raise InvalidInput(f"which labels of {config.data} are clean is not known: use --by cv, which needs none")
        share = (config.hold_out or CLEAN_SHARE) if share is None else share
        _check_share(share)
        held = config.but(hold_out=share, protocol="validation", checkpoint_every=0)
        best: Callable[[Facts], float] = lambda record: max(record["curves"]["validation_accuracy"])  # noqa: E731
        return _Judge(lambda point: with_values(held, point), lambda fold: data, 1, best)
    if share is not None and by == "cv":
        raise InvalidInput("--share is of --by hold-out and --by clean; cross-validation holds out one fold of --folds")
    if by == "hold-out":
        share, folds = QUARTER if share is None else share, 1
        _check_share(share)
    dealt = Folds(config, data, FOLDS if folds == 1 else folds, share)
    last: Callable[[Facts], float] = lambda record: float(record["final"]["test_accuracy"])  # noqa: E731
    return _Judge(lambda point: settings_of_fold(with_values(config, point)), dealt.without, folds, last)


def _check_share(share: float) -> None:
    if not 0 < share <= 0.5:
        raise InvalidInput(f"the share to hold out is above 0 and at most 0.5, got {share}")


# ------------------------------------------------------------ trying


class _Search:
    def __init__(self, study: Study, judge: _Judge, width: int, watch: Watch | None) -> None:
        self.study, self.judge, self.width, self.watch = study, judge, width, watch

    def all(self, wanted: Sequence[Point], space: Space) -> None:
        """Try every point that is not done."""
        todo = [(point, fold) for point in wanted for fold in self.left(point)]
        count = len(wanted)
        place = {id(point): number for number, point in enumerate(wanted, 1)}

        def going() -> Iterator[Iterator[Any]]:
            for point, fold in todo:
                if self.study.failure(point) is not None:  # in another fold
                    yield iter(())
                    continue
                self.study.begin(point, space)
                yield self.steps(point, fold)

        for which, shown in pack(going(), self.width):
            point, fold = todo[which]
            if isinstance(shown, Epoch) and self.watch is not None:
                self.watch(f"{place[id(point)]}/{count} {name_of(point, fold, self.judge.folds)}")(shown)
            elif isinstance(shown, float):
                if self.study.failure(point) is not None:
                    continue
                self.study.note(point, fold, shown)
                if len(self.study.scores(point)) == self.judge.folds:
                    self.study.end(point, self.judge.folds)
            elif isinstance(shown, NonFinite):
                if self.study.failure(point) is None:
                    self.study.fail(point, str(shown))
            elif isinstance(shown, Exception):
                raise shown

    def draw(self, space: Space, trials: int) -> None:
        """Try points drawn one after the other, each where those before it make it promising."""
        for point in self.study.drawn():  # what was going on when it was interrupted
            self.all([point], space)
        while self.study.ended() < trials:
            point = self.study.draw(space)
            failed = self.study.failure(point)
            if failed is not None:
                self.study.fail(point, failed)
            elif not self.left(point):  # drawn before
                self.study.end(point, self.judge.folds)
            else:
                self.all([point], space)

    def left(self, point: Point) -> list[int]:
        if self.study.failure(point) is not None:
            return []
        return [fold for fold in range(self.judge.folds) if fold not in self.study.scores(point)]

    def steps(self, point: Point, fold: int) -> Iterator[Any]:
        """One training, and at last its score."""
        run = Run(self.judge.settings(point), data=self.judge.data(fold))
        yield from run.steps()
        assert run.record is not None
        yield self.judge.score(run.record)

    def done(self, wanted: Sequence[Point]) -> list[Trial]:
        found = []
        for point in wanted:
            scores, failed = self.study.scores(point), self.study.failure(point)
            if failed is not None or len(scores) == self.judge.folds:
                found.append(Trial(point, tuple(scores[fold] for fold in sorted(scores)), failed))
        return found


def name_of(point: Mapping[str, Any], fold: int, folds: int) -> str:
    """`q 0.3, fold 2/5`"""
    told = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in point.items()
    )
    return f"{told}, fold {fold + 1}/{folds}" if folds > 1 else told


# ------------------------------------------------------------ the folder, and the command


def claim(folder: Path, now: Facts, resume: bool) -> None:
    """Write down what is searched, or see that it is the same search that goes on."""
    note = folder / NOTE
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file: name a folder for the search")
    before = read_note(folder)
    if before is None:
        write_atomically(note, as_json(now, indent=2))
        return
    if not resume:
        raise FolderError(f"{folder} holds a search already: add --resume to go on, or name another folder")
    for key in ("by", "folds", "share"):
        if before.get(key) != now[key]:
            raise FolderError(
                f"{folder} holds a search with {key} = {before.get(key)}, not {now[key]}: name another folder"
            )
    for key, old in before["config"].items():
        if key not in HOW and now["config"].get(key) != old:
            raise FolderError(
                f"{folder} holds a search with {key} = {old}, not {now['config'].get(key)}: name another folder"
            )


def read_note(folder: Path) -> Facts | None:
    """What a search in the folder wrote down; None where there is none."""
    import json

    path = folder / NOTE
    if not path.exists():
        return None
    try:
        facts: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise FolderError(f"{path} is damaged: {error}") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("config"), dict):
        raise FolderError(f"{path} is not of a search: name another folder")
    return facts


def train_command(config: Config) -> str:
    """`marvel train` with these settings, those at their defaults left out."""
    words = ["marvel", "train"]
    usual = Config()
    for field in fields(Config):
        value = getattr(config, field.name)
        if field.name == "options" or value == getattr(usual, field.name):
            continue
        flag = "--" + field.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += _told(flag, value)
    for name, value in config.options.items():
        words += _told("--" + name.replace("_", "-"), value)
    return shlex.join(words)


def _told(flag: str, value: object) -> list[str]:
    """As the command reads it. A value that begins with a dash would be taken for a flag."""
    said = ",".join(map(str, value)) if isinstance(value, tuple | list) else "none" if value is None else str(value)
    return [f"{flag}={said}"] if said.startswith("-") else [flag, said]
