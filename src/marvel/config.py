"""The settings of a run: one frozen dataclass <-> TOML and JSON files <-> flags.

The fields below are the one list of settings; the command line makes its flags and their help from them.
"""

import dataclasses
import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from marvel.errors import InvalidInput, UnknownName, pick
from marvel.method import Method
from marvel.methods import METHODS


def setting(default: Any, help: str) -> Any:
    """A field with the line that `--help` prints."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """What a run is told. None: taken from the preset of the problem (`marvel.presets`)."""

    data: str = setting("digits", "a problem by name, or the path of an .npz file")
    root: str | None = setting(None, "the folder the datasets lie in; default: $MARVEL_DATA, then ~/.cache/marvel")
    noise: str = setting("none", "how labels are made wrong: symmetric, circular, pair, ... (`marvel noise --list`)")
    rate: float = setting(0.0, "the share of labels to make wrong")
    rates: tuple[float, ...] = setting((), "pair noise: the share of the first class, and of the second")
    noise_file: str | None = setting(None, "for noise 'file' and 'transition': the labels, or the matrix, to read")
    method: str = setting("marvel", "the method (`marvel methods` lists them)")
    oracle_rate: bool = setting(False, "tell methods that must know the noise rate the true one")
    network: str | None = setting(None, "the network")
    weights: str | None = setting(None, "a file of weights to start the network from")
    epochs: int | None = setting(None, "how many epochs")
    batch: int = setting(128, "instances a step")
    lr: float | None = setting(None, "learning rate")
    drops: tuple[int, ...] | None = setting(None, "epochs after which the learning rate falls to a tenth")
    schedule: str = setting("drops", "how the learning rate falls: drops, cosine or constant")
    optimizer: str = setting("sgd", "sgd or adamw")
    momentum: float = setting(0.9, "of SGD")
    nesterov: bool = setting(False, "Nesterov's momentum")
    weight_decay: float = setting(2e-4, "on every parameter")
    precision: str = setting("auto", "float32, bf16 (autocast), or auto: bf16 on a GPU")
    fast: bool = setting(True, "on a GPU, capture the training step as a graph")
    compile: bool = setting(False, "compile the network with torch.compile")
    hold_out: float = setting(0.0, "share of the training set to hold out, with clean labels, as a validation set")
    protocol: str = setting("final", "which epoch counts: final, validation (its lowest error) or last10 (their mean)")
    source: str = setting("resident", "where the data lives: resident (on the device) or streamed (by workers)")
    workers: int = setting(0, "worker processes of a streamed source")
    seed: int = setting(0, "one seed for noise, initialisation, order and views")
    device: str = setting("auto", "cpu, cuda, or auto")
    threads: int = setting(1, "CPU threads; small networks are fastest on one")
    ledger: bool = setting(False, "keep every instance's margin and weight of every epoch")
    checkpoint_every: int = setting(1, "epochs between checkpoints; 0: none")
    options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "the method's own parameters"})

    def __post_init__(self) -> None:
        pick("method", self.method, METHODS)
        choices = {
            "schedule": ("drops", "cosine", "constant"),
            "optimizer": ("sgd", "adamw"),
            "precision": ("auto", "float32", "bf16"),
            "protocol": ("final", "validation", "last10"),
            "source": ("resident", "streamed"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UnknownName(name, str(getattr(self, name)), known)
        for name, least in (("epochs", 1), ("batch", 2), ("threads", 1), ("workers", 0), ("checkpoint_every", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidInput(f"{name} must be at least {least}, got {value}")
        if self.lr is not None and not self.lr > 0:
            raise InvalidInput(f"lr must be positive, got {self.lr}")
        if not 0 <= self.hold_out < 1:
            raise InvalidInput(f"hold_out must lie in [0, 1), got {self.hold_out}")
        if self.protocol == "validation" and self.hold_out == 0:
            raise InvalidInput("protocol 'validation' needs a validation set: add --hold-out 0.1")
        known_options = options_of(METHODS[self.method])
        for name in self.options:
            if name not in known_options:
                raise UnknownName(f"parameter of {self.method}", name, known_options or ["(it has none)"])

    def but(self, **changes: Any) -> "Config":
        """The same, but for some settings."""
        return dataclasses.replace(self, **changes)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


def options_of(method: type[Method]) -> dict[str, inspect.Parameter]:
    """A method's own parameters: the keyword-only ones of its constructor and of those it extends, but for `needs`."""
    found: dict[str, inspect.Parameter] = {}
    for owner in method.__mro__:
        if not issubclass(owner, Method) or "__init__" not in vars(owner):
            continue
        parameters = inspect.signature(owner.__init__).parameters.values()
        found |= {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in found}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return {name: p for name, p in found.items() if name not in ("clean",)}


def config_from(values: Mapping[str, Any]) -> Config:
    """Settings from a file's or a program's values; keys that are no settings are taken as the method's parameters."""
    hints = get_type_hints(Config)
    names = {f.name for f in dataclasses.fields(Config)}
    settings, options = {}, dict(values.get("options", {}))
    for key, value in values.items():
        name = key.replace("-", "_")
        if name == "options":
            continue
        if name in names:
            settings[name] = _as(name, value, hints[name])
        else:
            options[name] = value
    method = METHODS.get(settings.get("method", "marvel"))
    known = options_of(method) if method is not None else {}
    for name in options:
        if method is not None and name not in known:
            raise UnknownName("setting", name, [*names, *known])
    return Config(**settings, options={name: _option(known.get(name), name, value) for name, value in options.items()})


def read_config(path: str | Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text())
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}") from None


def _option(parameter: inspect.Parameter | None, name: str, value: Any) -> Any:
    return value if parameter is None else _as(name, value, parameter.annotation)


def _as(name: str, value: Any, kind: Any) -> Any:
    """`value`, perhaps a flag's text, as the first of the types in `kind` that it fits."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
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
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "nothing"}
    return " or ".join(words.get(kind, "a list of numbers") for kind in kinds)
