"""What is tried: values of settings and of the method's own parameters.

The paper's grids, from its appendix, are those taken where nothing is said:

    gce        q 0.1, 0.3, 0.5, 0.7, 0.9   (it prints "0,1, 0.3, ...", most likely a slip of the pen)
    sce        A -2, -5, -8 with alpha 0.01, 0.1, 1
    marvel     a grid of waits for each of its problems
    marvel+    the waits within 2 of MARVEL's
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from marvel.config import GROUPS, Config, config_from, options_of
from marvel.errors import InvalidInput
from marvel.methods import METHODS
from marvel.paper import BINARY, paper_cell, paper_number
from marvel.presets import PRESETS

Point: TypeAlias = dict[str, Any]
"""One value of each parameter."""


@dataclass(frozen=True)
class Span:
    """A range to choose from, by powers of ten where its ends are a hundredfold apart."""

    low: float
    high: float

    @property
    def by_powers(self) -> bool:
        return self.low > 0 and self.high >= 100 * self.low


Space: TypeAlias = dict[str, "tuple[Any, ...] | Span"]

TRIED = {*GROUPS["Method"], *GROUPS["Training"]} - {"seed"}
"""Settings that trials may differ in. All learn from the same data, with the same noise, and are judged alike."""

GCE_Q = (0.1, 0.3, 0.5, 0.7, 0.9)
SCE_A, SCE_ALPHA = (-2.0, -5.0, -8.0), (0.01, 0.1, 1.0)
WAITS = {
    "binary": (3, 4, 5, 6, 7),
    "cifar10": (4, 6, 8, 10, 12),
    "cifar10, 80 %": (10, 14, 18, 22, 26),
    "cifar100": (4, 7, 10, 13, 16, 19),
    "cifar100, 80 %": (13, 16, 19, 22, 25),
    "resnet34": (3, 4, 5, 6, 7),
    "resnet34, 80 %": (5, 10, 15, 20, 25),
    "webvision50": (18, 30, 42, 54, 66),
    "clothing100k": (12, 24, 36, 48),
}
"""The grids of MARVEL's wait in the paper; the last two are the coarse ones."""
NEIGHBOURHOOD = 2
"""MARVEL+'s wait is sought so near to MARVEL's."""


def read_space(words: Sequence[str], config: Config) -> Space:
    """`q=0.1,0.5`, `wait=3..7` (whole numbers), `wait=4..12/2` (every second), `lr=0.001:0.1` (a range) -> a space."""
    space: Space = {}
    for word in words:
        name, given, text = word.partition("=")
        if not given or not text:
            raise InvalidInput(
                f"what to try is written NAME=VALUES, got '{word}': q=0.1,0.5 or wait=3..7 or lr=0.001:0.1"
            )
        plain = name.replace("-", "_")
        refuse_other_settings([plain])
        space[plain] = _values(name, text, config)
    return space


def refuse_other_settings(names: Iterable[str]) -> None:
    """Data that is read once cannot be tried, and scores on other labels or other instances cannot be compared."""
    settings = {field.name for field in dataclasses.fields(Config)}
    for name in names:
        if name in settings - TRIED:
            raise InvalidInput(
                f"{name} cannot be tried, since all trials have the same data, noise, seed and judgement: try a "
                f"parameter of the method, or one of {', '.join(sorted(TRIED))}"
            )


def _values(name: str, text: str, config: Config) -> tuple[Any, ...] | Span:
    steps = re.fullmatch(r"(-?\d+)\.\.(-?\d+)(?:/(\d+))?", text)
    if steps:
        low, high, step = int(steps[1]), int(steps[2]), int(steps[3] or 1)
        if low > high or step < 1:
            raise InvalidInput(f"{name} runs from the smaller number to the larger, got {text}")
        return tuple(_typed(name, str(value), config) for value in range(low, high + 1, step))
    if re.fullmatch(r"[^,:]+:[^,:]+", text):
        low_end, high_end = (_typed(name, end, config) for end in text.split(":"))
        if not are_numbers((low_end, high_end)):
            raise InvalidInput(f"{name} has no range of numbers to choose from, got {text}: list values with commas")
        if not low_end < high_end:
            raise InvalidInput(f"{name} runs from the smaller number to the larger, got {text}")
        return Span(low_end, high_end)
    return tuple(dict.fromkeys(_typed(name, part, config) for part in text.split(",")))


def _typed(name: str, text: str, config: Config) -> Any:
    """The value as a run would read it; a name that nobody knows is refused there, with the nearest one."""
    plain = name.replace("-", "_")
    read = config_from({"method": config.method, name: text})
    return read.options[plain] if plain in read.options else getattr(read, plain)


def with_values(config: Config, point: Mapping[str, Any]) -> Config:
    """The settings with those of a point."""
    settings = {field.name for field in dataclasses.fields(Config)}
    own = {name: value for name, value in point.items() if name not in settings}
    return config.but(
        **{name: value for name, value in point.items() if name in settings}, options={**config.options, **own}
    )


def are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def facts_of(space: Space) -> dict[str, Any]:
    """For JSON: a list of values, or the ends of a range."""
    return {name: vars(values) if isinstance(values, Span) else list(values) for name, values in space.items()}


def space_from(facts: Mapping[str, Any]) -> Space:
    """The space again; a value of several numbers is a list in JSON."""
    return {
        name: Span(**values)
        if isinstance(values, Mapping)
        else tuple(tuple(value) if isinstance(value, list) else value for value in values)
        for name, values in facts.items()
    }


def points(space: Space) -> list[Point]:
    """Every combination, the first parameter changing slowest."""
    lists = []
    for name, values in space.items():
        if isinstance(values, Span):
            raise InvalidInput(f"{name} is a range, of which not every value can be tried: add --trials 20")
        lists.append(values)
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*lists)]


# ------------------------------------------------------------ the paper's grids


def usual_space(config: Config, around: int | None = None) -> Space:
    """The paper's grid for a method on a problem; `config` is resolved. `around`: the wait that MARVEL was given."""
    if config.method == "gce":
        return {"q": GCE_Q}
    if config.method == "sce":
        return {"A": SCE_A, "alpha": SCE_ALPHA}
    if config.method == "marvel":
        return {"wait": usual_waits(config)}
    if config.method == "marvel+":
        wide = _extreme(config) and config.data == "cifar10" and around is None
        return {"wait": usual_waits(config) if wide else near(config, around)}
    own = ", ".join(options_of(METHODS[config.method])) or "none"
    raise InvalidInput(
        f"the paper has no grid for '{config.method}': add --try NAME=VALUE,VALUE (its own parameters: {own}; "
        "settings such as lr can be tried too)"
    )


def usual_waits(config: Config) -> tuple[int, ...]:
    """The paper's grid where the problem is one of its own; else multiples of what "auto" would take."""
    name = _grid(config)
    if name is not None:
        return WAITS[name]
    usual = auto_wait(config)
    return tuple(sorted({max(1, round(usual * share)) for share in (0.5, 0.75, 1, 1.25, 1.5)}))


def near(config: Config, around: int | None) -> tuple[int, ...]:
    """The neighbourhood of MARVEL's wait: the one given, the paper's, or what "auto" would take."""
    if around is None:
        place = paper_cell({**config.facts(), "network": config.network})
        theirs = None if place is None else paper_number(f"{place[0]}-waits", *place[1:], "marvel")
        known = theirs is not None and theirs.mean is not None and _grid(config) is not None
        around = int(theirs.mean) if known and theirs is not None and theirs.mean is not None else auto_wait(config)
    return tuple(wait for wait in range(around - NEIGHBOURHOOD, around + NEIGHBOURHOOD + 1) if wait >= 1)


def auto_wait(config: Config) -> int:
    assert config.epochs is not None
    return max(2, round(config.epochs / 15))


def _grid(config: Config) -> str | None:
    """Which of `WAITS`; those of the paper are of its own numbers of epochs."""
    preset = PRESETS.get(config.data)
    if preset is None or config.epochs != preset.epochs:
        return config.data if config.data in WAITS and preset is None else None
    extreme = ", 80 %" if _extreme(config) else ""
    if config.data in BINARY:
        return "binary"
    if config.data == "cifar10" and config.network == "resnet34":
        return f"resnet34{extreme}"
    return next((name for name in (f"{config.data}{extreme}", config.data) if name in WAITS), None)


def _extreme(config: Config) -> bool:
    """CIFAR-10 and CIFAR-100 with 80 % symmetric noise have grids of their own, of which MARVEL+ has CIFAR-10's too."""
    return config.noise == "symmetric" and config.rate == 0.8
