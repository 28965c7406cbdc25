"""Settings as flags: the fields of `Config` become options of a verb, and words nobody knows the method's parameters.

Every value is handed on as text, so that `marvel.config` alone decides what it means and words what is wrong with it.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from marvel.config import GROUPS, HOW, Config
from marvel.errors import InvalidInput

if TYPE_CHECKING:
    from marvel.method import Method

Verb = TypeVar("Verb", bound=Callable[..., None])

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a verb that takes the method's own parameters too: they are left in `context.args`."""


class Grouped(TyperCommand):
    """A verb whose `--help` shows flags in groups, in plain text: importing Rich takes longer than all else there."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Flags that only the method knows are set apart first, or the verb would take one for its argument."""
        own: list[str] = []
        if ctx.ignore_unknown_options:
            args, own = self._apart(ctx, args)
        ctx.args = [*super().parse_args(ctx, args), *own]
        return list(ctx.args)

    def _apart(self, ctx: Any, args: Sequence[str]) -> tuple[list[str], list[str]]:
        """The words of the verb, and the flags that are not its own, with the word after each that has no `=`."""
        takes = {
            name: not getattr(parameter, "is_flag", False)
            for parameter in self.get_params(ctx)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        ours: list[str] = []
        others: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            name, given, _ = word.partition("=")
            if word == "--":  # what follows are no flags
                return [*ours, word, *rest], others
            known = not name.startswith("--") or name in takes
            (ours if known else others).append(word)
            if given or not rest or not name.startswith("--"):
                continue
            if takes.get(name, not rest[0].startswith("--")):
                (ours if known else others).append(rest.pop(0))
        return ours, others

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            shown = parameter.get_help_record(ctx)
            if shown is not None:
                argument = parameter.param_type_name == "argument"
                default = "Arguments" if argument else "Options"
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(shown)
        for group, lines in groups.items():
            with formatter.section(group):
                formatter.write_dl(lines)


def with_settings(verb: Verb) -> Verb:
    """The verb, its `**given` spelled out as one flag for each setting; those not given are None.

    A parameter that the verb itself has under a setting's name is the verb's.
    """
    return with_some_settings(*(name for names in GROUPS.values() for name in names))(verb)


def with_some_settings(*names: str) -> Callable[[Verb], Verb]:
    """The same with the settings named."""

    def spelled_out(verb: Verb) -> Verb:
        own = [p for p in inspect.signature(verb).parameters.values() if p.kind is not p.VAR_KEYWORD]
        others = set(names) - {parameter.name for parameter in own}
        flags = [parameter for parameter in _parameters() if parameter.name in others]
        verb.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
        return verb

    return spelled_out


def flag(name: str) -> str:
    """`noise_rate` -> `--noise-rate`"""
    return "--" + name.replace("_", "-")


def flag_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given, by their spelling."""
    values = {flag(name): value for name, value in given.items() if value is not None}
    for name, value in values.items():
        if isinstance(value, str) and value.startswith("--"):
            raise InvalidInput(f"{name} needs a value, got the flag {value}")
    return values


def own_values(words: Sequence[str], method: type["Method"]) -> dict[str, Any]:
    """`--wait 8 --cost=gce --immediate` -> {"--wait": "8", "--cost": "gce", "--immediate": True}"""
    from marvel.config import options_of

    known = options_of(method)
    switches = {flag(name): True for name, parameter in known.items() if parameter.annotation is bool}
    switches |= {flag(f"no_{name[2:]}"): False for name in switches}
    values: dict[str, Any] = {}
    for name, value in _pairs(words):
        if value is None and name in switches:
            values[name if switches[name] else "--" + name[5:]] = switches[name]
        elif value is None and name[2:].replace("-", "_") in known:
            raise InvalidInput(f"{name} needs a value: write {name} VALUE")
        else:
            values[name] = value
    return values


def said_what(flags: Mapping[str, Any], words: Sequence[str]) -> bool:
    """Whether the flags say what to run, and not only how: then --resume may begin anew where there is nothing yet."""
    return bool(words) or any(name[2:].replace("-", "_") not in HOW for name in flags)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise InvalidInput(f"'{word}' belongs to no flag: settings are given as --name value")
        name, given, value = word.partition("=")
        if given:
            yield name, value
        else:
            yield name, rest.pop(0) if rest and not rest[0].startswith("--") else None


def _parameters() -> Iterator[inspect.Parameter]:
    fields = {field.name: field for field in dataclasses.fields(Config)}
    hints = get_type_hints(Config)
    for group, names in GROUPS.items():
        for name in names:
            kinds = get_args(hints[name]) if isinstance(hints[name], types.UnionType) else (hints[name],)
            switch = kinds == (bool,)
            option = typer.Option(
                flag(name) + (f"/{flag(f'no_{name}')}" if switch else ""),
                help=fields[name].metadata["help"] + _shown(fields[name].default),
                metavar=None if switch else _metavar(kinds[0]),
                show_default=False,
                rich_help_panel=group,
            )
            kind: Any = Annotated[bool | None if switch else str | None, option]
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _metavar(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"{_metavar(get_args(kind)[0])},..."
    return {int: "N", float: "X"}.get(kind, "TEXT")


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "  [yes]" if default else "  [no]"
    return f"  [{default:g}]" if isinstance(default, float) else f"  [{default}]" if default not in (None, ()) else ""


def as_text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def as_numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"{name} should be numbers with commas between, got {text!r}: write 0.4,0.1") from None
