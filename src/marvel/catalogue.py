"""The methods there are, described from their own code: what each is, takes, changes, and where it works."""

import inspect
import sys
from typing import Any

from marvel.config import options_of
from marvel.method import Method, needs_trainer_for
from marvel.methods import METHODS

LEVELS = ("cost", "loss", "update", "outputs", "draws", "start", "prepare")
"""What a paper may change, from least to most."""


def describe(key: str) -> dict[str, Any]:
    """One method, as plain values fit for JSON."""
    kind = METHODS[key]
    return {
        "key": key,
        "class": kind.__name__,
        "paper": (sys.modules[kind.__module__].__doc__ or "").partition("\n")[0].rstrip("."),
        "needs": [*kind.needs, *_needs_with(kind)],
        "parameters": [_parameter(parameter) for parameter in options_of(kind).values()],
        "overrides": [name for name in LEVELS if _overrides(kind, name)],
        "works_in": _works_in(kind),
    }


def catalogue() -> list[dict[str, Any]]:
    """All methods, in the order of `METHODS`."""
    return [describe(key) for key in METHODS]


def _works_in(kind: type[Method]) -> str:
    if kind.trainer_where:
        return f"any loop; our Trainer where {kind.trainer_where}"
    alone = kind.networks == 1 and kind.averaged == 0 and not needs_trainer_for(kind)
    return "any loop" if alone else "our Trainer"


def _overrides(kind: type[Method], name: str) -> bool:
    return getattr(kind, name) is not getattr(Method, name)


def _needs_with(kind: type[Method]) -> list[str]:
    return [f"{need} ({name}={value})" for (name, value), needs in kind.needs_with.items() for need in needs]


def _parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    required = parameter.default is parameter.empty
    return {"name": parameter.name, "default": None if required else parameter.default, "required": required}
