"""The settings of a run: one frozen dataclass <-> TOML and JSON files <-> flags.

The fields below are the one list of settings; the command line makes its flags and their help from them. Methods are
looked up inside functions: were torch imported here, `marvel --help` would take seconds.
"""

import copy
import dataclasses
import difflib
import inspect
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from marvel.errors import InvalidInput, UnknownName, pick

if TYPE_CHECKING:
    from marvel.method import Method
    from marvel.presets import Preset


def setting(default: Any, help: str) -> Any:
    """A field with the line that `--help` prints."""
    return field(default=default, metadata={"help": help})


LARGEST_SIZE = 4096
"""Of an image's side: a mistyped one would fill the memory, 200 MB an image at this one, until the system kills us."""
WHOLE = ("epochs", "batch", "seed", "threads", "workers", "size", "checkpoint_every", "checkpoint_every_steps")
REAL = ("rate", "lr", "momentum", "weight_decay", "hold_out")


@dataclass(frozen=True)
class Config:
    """What a run is told. None: taken from the preset of the problem (`marvel.presets`)."""

    data: str = setting("digits", "a problem by name, or the path of data: a folder, a table, arrays (docs/data.md)")
    root: str | None = setting(None, "the folder the datasets lie in; default: $MARVEL_DATA, then ~/.cache/marvel")
    label: str | None = setting(None, "the column or array of labels; default: label, labels, target, class or y")
    paths: str | None = setting(None, "the column of images' paths; default: the one whose cells are names of images")
    id: str | None = setting(None, "the column or array that names instances; default: their paths, or row numbers")
    labels: str | None = setting(None, "the file of labels that belongs to an .npy file")
    columns: str | None = setting(
        None, "how a table's columns are taken, where the guess is wrong: age=number,zip=category,notes=text,code=leave"
    )
    corrections: str | None = setting(
        None, "a table of corrected labels, as `marvel export` writes it: id or row, corrected, action"
    )
    noise: str = setting("none", "how labels are made wrong: symmetric, circular, pair, ... (`marvel noise --list`)")
    rate: float = setting(0.0, "the share of labels to make wrong")
    rates: tuple[float, ...] = setting((), "pair noise: the share of the first class, and of the second")
    noise_file: str | None = setting(None, "for noise 'file' and 'transition': the labels, or the matrix, to read")
    method: str = setting("marvel", "the method (`marvel methods` lists them)")
    oracle_rate: bool = setting(False, "tell methods that must know the noise rate the true one")
    network: str | None = setting(None, "the network; default: the problem's own")
    weights: str | None = setting(None, "a file of weights to start the network from")
    epochs: int | None = setting(None, "how many epochs; default: the problem's own")
    batch: int = setting(128, "instances a step")
    lr: float | None = setting(None, "learning rate; default: the problem's own")
    drops: tuple[int, ...] | None = setting(None, "epochs after which lr falls to a tenth; default: the problem's own")
    schedule: str = setting(
        "drops", "how lr falls: drops (of marvel-semi cosine, unless --drops are given), cosine or constant"
    )
    optimizer: str = setting("sgd", "sgd or adamw")
    momentum: float = setting(0.9, "of SGD")
    nesterov: bool = setting(False, "Nesterov's momentum")
    weight_decay: float = setting(2e-4, "on every parameter")
    precision: str = setting("auto", "float32, bf16 (autocast), or auto: bf16 on a GPU")
    fast: bool = setting(True, "on a GPU, capture the training step as a graph")
    compile: bool = setting(False, "compile the network with torch.compile")
    hold_out: float = setting(0.0, "share of the training set to hold out, with clean labels, as a validation set")
    protocol: str = setting("final", "which epoch counts: final, validation (its lowest error) or last10 (their mean)")
    size: int | None = setting(
        None, "the side of images in files, in pixels; default: the median shorter side, at most 224"
    )
    source: str = setting("auto", "where the data lives: resident (on the device), streamed (read by workers), or auto")
    on_bad_data: str = setting("stop", "at shards that are not as they were written: stop, or skip them")
    workers: int | None = setting(
        None, "processes that read a streamed source; default: one a core for files, else none"
    )
    seed: int = setting(0, "one seed for noise, initialisation, order and views")
    device: str = setting("auto", "cpu, cuda, or auto")
    threads: int = setting(1, "CPU threads; small networks are fastest on one")
    ledger: bool = setting(False, "keep every instance's margin and weight of every epoch")
    checkpoint_every: int = setting(1, "epochs between checkpoints; 0: none")
    checkpoint_every_steps: int = setting(0, "for long epochs: steps between checkpoints in their midst; 0: none")
    options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "the method's own parameters"})

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if (plain := _plain(value)) is not value:
                object.__setattr__(self, name, plain)
        self._check_names()
        self._check_kinds()
        self._check_numbers()
        self._check_noise()
        known = options_of(_methods()[self.method])
        for name in self.options:
            if name not in known:
                raise UnknownName(f"parameter of {self.method}", name, known or ["(it has none)"])
            kinds = _kinds(known[name].annotation)
            if not any(_fits(self.options[name], kind) for kind in kinds):
                raise InvalidInput(f"{name} should be {_say(kinds)}, got {self.options[name]!r}")

    def _check_names(self) -> None:
        from marvel.noise import NOISE

        pick("method", self.method, _methods())
        pick("noise", self.noise, NOISE)
        choices = {
            "schedule": ("drops", "cosine", "constant"),
            "optimizer": ("sgd", "adamw"),
            "precision": ("auto", "float32", "bf16"),
            "protocol": ("final", "validation", "last10"),
            "source": ("auto", "resident", "streamed"),
            "on_bad_data": ("stop", "skip"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UnknownName(name, str(getattr(self, name)), known)
        if self.protocol == "validation" and self.hold_out == 0:
            raise InvalidInput("protocol 'validation' needs a validation set: add --hold-out 0.1")

    def _check_kinds(self) -> None:
        if not isinstance(self.options, Mapping):
            raise InvalidInput(f"options should be a table of the method's own parameters, got {self.options!r}")
        for name, kinds in _texts_and_lists().items():
            value = getattr(self, name)
            if value is None and type(None) in kinds:
                continue
            if kinds[0] in (str, bool):
                fits = isinstance(value, kinds[0])
            else:
                fits = isinstance(value, tuple) and all(map(_is_number, value))
            if not fits:
                raise InvalidInput(f"{name} should be {_say(kinds)}, got {value!r}")

    def _check_numbers(self) -> None:
        for names, kind, said in ((WHOLE, Integral, "a whole number"), (REAL, Real, "a number")):
            for name in names:
                value = getattr(self, name)
                if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                    raise InvalidInput(f"{name} must be {said}, got {value!r}")
        for name, least in (
            ("epochs", 1),
            ("batch", 2),
            ("threads", 1),
            ("workers", 0),
            ("size", 8),
            ("checkpoint_every", 0),
            ("checkpoint_every_steps", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidInput(f"{name} must be at least {least}, got {value}")
        if self.size is not None and self.size > LARGEST_SIZE:
            raise InvalidInput(f"size is the side of images in pixels, at most {LARGEST_SIZE}; got {self.size}")
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise InvalidInput(f"lr must be positive and finite, got {self.lr}")
        for name in ("hold_out", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        if not 0 <= self.weight_decay < math.inf:
            raise InvalidInput(f"weight_decay must be finite and not negative, got {self.weight_decay}")
        if self.nesterov and self.momentum == 0:
            raise InvalidInput("nesterov needs a momentum above 0: add --momentum 0.9")

    def _check_noise(self) -> None:
        """What a noise does not take is refused: a rate that nobody reads would pass for a noisy run that went well."""
        takes = told_by(self.noise)
        for name in ("rate", "rates", "noise_file"):
            if getattr(self, name) and name != takes:
                instead = "add --noise symmetric" if self.noise == "none" else f"it takes {takes}"
                raise InvalidInput(f"noise '{self.noise}' takes no {name}, got {getattr(self, name)}: {instead}")
        if takes == "noise_file" and not self.noise_file:
            raise InvalidInput(f"noise '{self.noise}' is read from a file: add --noise-file FILE")

    def but(self, **changes: Any) -> "Config":
        """The same, but for some settings."""
        return dataclasses.replace(self, **changes)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self) | {"options": copy.deepcopy(self.options)}  # the others cannot be changed


def _plain(value: Any) -> Any:
    """What programs hand over, as JSON and a comparison know it: paths as text, NumPy's numbers as Python's."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list) or getattr(value, "ndim", 0) == 1:
        return tuple(map(_plain, value))
    return value.item() if getattr(value, "ndim", None) == 0 else value


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Config, localns={"Mapping": Mapping})


@cache
def _texts_and_lists() -> dict[str, tuple[Any, ...]]:
    """The settings that are text, yes or no, or several numbers, each with the kinds it may be."""
    found = {name: _kinds(kind) for name, kind in _hints().items()}
    return {name: kinds for name, kinds in found.items() if kinds[0] in (str, bool) or get_origin(kinds[0]) is tuple}


def _kinds(kind: Any) -> tuple[Any, ...]:
    """`int | None` -> (int, None's type)"""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a parameter of a method is of that kind; NaN and infinity are no numbers, and no JSON file takes them."""
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(part, get_args(kind)[0]) for part in value)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return _is_number(value) and math.isfinite(value)
    if get_origin(kind) is Callable:
        return callable(value)
    return not isinstance(kind, type) or kind is inspect.Parameter.empty or isinstance(value, kind)


GROUPS: dict[str, tuple[str, ...]] = {
    "Data": (
        *("data", "root", "label", "paths", "id", "labels", "columns", "corrections"),
        *("size", "source", "workers", "on_bad_data"),
    ),
    "Noise": ("noise", "rate", "rates", "noise_file"),
    "Method": ("method", "oracle_rate"),
    "Training": (
        *("network", "weights", "epochs", "batch", "lr", "drops", "schedule"),
        *("optimizer", "momentum", "nesterov", "weight_decay", "seed"),
    ),
    "Judging": ("hold_out", "protocol"),
    "Machine": (
        *("device", "threads", "precision", "fast", "compile"),
        *("ledger", "checkpoint_every", "checkpoint_every_steps"),
    ),
}
"""The settings as `--help` groups them."""


HOW = {
    *("root", "on_bad_data", "device", "precision", "fast", "compile", "threads", "workers", "source"),
    *("ledger", "checkpoint_every", "checkpoint_every_steps"),
}
"""Settings of where a run is computed and how much is written down, not of what it is: they may change on the way."""


def as_plain(value: Any) -> Any:
    """Tuples as lists, so that settings compare equal to those read back from JSON; a function by its name."""
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return [as_plain(item) for item in value] if isinstance(value, list | tuple) else value


def filled(config: Config, preset: "Preset") -> Config:
    """What was left open, as the problem's preset has it; a change of epochs stretches its schedule."""
    epochs = config.epochs or preset.epochs
    stretch = epochs / preset.epochs
    options = dict(config.options)
    if "warmup" in options_of(_methods()[config.method]):
        warmup = preset.warmup_for(config.method)
        options.setdefault("warmup", warmup if isinstance(warmup, str) else max(1, round(warmup * stretch)))
    drops, schedule = config.drops, config.schedule
    if drops is None:
        schedule = preset.schedule_for(config.method) if schedule == "drops" else schedule
        # At least 1: a short run too begins with the learning rate as it is.
        drops = tuple(max(1, round(drop * stretch)) for drop in preset.drops_for(config.method))
    network, lr = config.network or preset.network, config.lr or preset.lr_for(config.method)
    return config.but(network=network, epochs=epochs, lr=lr, drops=drops, schedule=schedule, options=options)


def options_of(method: type["Method"]) -> Mapping[str, inspect.Parameter]:
    """A method's own parameters: the keyword-only ones of its constructor and of those it extends, but for `needs`."""
    hashable: Any = method  # which mypy does not take a class of a torch module for
    return _parameters_of(hashable)


@cache
def _parameters_of(method: Any) -> Mapping[str, inspect.Parameter]:
    from marvel.method import Method

    found: dict[str, inspect.Parameter] = {}
    for owner in method.__mro__:
        if not issubclass(owner, Method) or "__init__" not in vars(owner):
            continue
        parameters = inspect.signature(owner.__init__).parameters.values()
        found |= {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in found}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return {name: p for name, p in found.items() if name not in ("clean",)}


def config_from(*layers: Mapping[str, Any]) -> Config:
    """Settings from the values of files, flags or programs, the later layers over the earlier.

    Keys that are no settings are taken as the method's own parameters. A key may be spelled `noise_rate`, `noise-rate`
    or, as a flag, `--noise-rate`; values may be text.
    """
    hints = _hints()
    names = set(hints) - {"options"}
    settings: dict[str, Any] = {}
    options: dict[str, tuple[str, Any]] = {}
    for layer in layers:
        for key, value in layer.items():
            name = key.lstrip("-").replace("-", "_")
            if name == "options":
                if not isinstance(value, Mapping):
                    raise InvalidInput(f"options should be a table of the method's own parameters, got {value!r}")
                options |= {own.replace("-", "_"): (own, item) for own, item in value.items()}
            elif name in names:
                settings[name] = _as(name, value, hints[name])
            else:
                options[name] = (key, value)
    method = pick("method", settings.get("method", Config.method), _methods())
    known = options_of(method)
    for name, (key, _) in options.items():
        if name not in known:
            raise InvalidInput(_no_setting(key, settings.get("method", Config.method), names, known))
    typed = {name: _as(name, value, known[name].annotation) for name, (_, value) in options.items()}
    config = Config(**settings, options=typed)
    takes = told_by(config.noise)
    if takes in ("rate", "rates") and takes not in settings:  # none of it may be meant, but is then said
        example = "--rate 0.4" if takes == "rate" else "--rates 0.4,0.1"
        raise InvalidInput(f"how much noise '{config.noise}' there is must be said: add {example}")
    return config


def told_by(noise: str) -> str | None:
    """The setting that a noise is told by how much, or from where."""
    special = {"none": None, "pair": "rates", "transition": "noise_file", "file": "noise_file"}
    return special.get(noise, "rate")


def _no_setting(key: str, method: str, names: set[str], known: Mapping[str, object]) -> str:
    """The line about a key that nobody knows, spelled as it was given."""
    near = difflib.get_close_matches(key.lstrip("-").replace("-", "_"), [*names, *known], n=1)
    what, hint = "setting", f"; did you mean '{near[0]}'?" if near else "."
    if key.startswith("-"):
        what, hint = "flag", f"; did you mean '--{near[0].replace('_', '-')}'?" if near else "."
    own = f"also takes {', '.join(known)}" if known else "has none of its own"
    return f"no {what} '{key}'{hint} --help lists them; method '{method}' {own}"


def read_config(path: str | Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text())
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}") from None


def _methods() -> "dict[str, type[Method]]":
    from marvel.methods import METHODS

    return METHODS


def _as(name: str, value: Any, kind: Any) -> Any:
    """`value`, perhaps a flag's text, as the first of the types in `kind` that it fits."""
    kinds = _kinds(kind)
    for one in kinds:
        try:
            return _as_one(value, one)
        except (ValueError, TypeError):
            continue
    raise InvalidInput(f"{name} should be {_say(kinds)}, got {value!r}")


def _as_one(value: Any, kind: Any) -> Any:
    if kind is type(None):
        if value in (None, "none"):
            return None
    elif get_origin(kind) is tuple:
        parts = [p for p in value.replace(",", " ").split() if p] if isinstance(value, str) else list(value)
        return tuple(_as_one(part, get_args(kind)[0]) for part in parts)
    elif kind is bool:
        truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in truths:
            return truths[value.lower()]
    elif kind is int:
        if not isinstance(value, bool | float):
            return int(value)
    elif kind is float:
        if not isinstance(value, bool):
            return float(value)
    elif kind is str:
        if isinstance(value, str):
            return value
    elif isinstance(value, Mapping) or callable(value):
        return value
    raise ValueError


def _say(kinds: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return " or ".join(words.get(k) or ("numbers" if get_origin(k) is tuple else "a function") for k in kinds)
