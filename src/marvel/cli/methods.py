"""`marvel methods`"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from marvel.cli.show import AsJson, print_json, print_table


def methods(
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="One of them, to read about: what it does and what it takes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, their papers and parameters; or explain one.

    \b
    marvel methods
    marvel methods marvel-semi
    """
    from marvel.catalogue import catalogue
    from marvel.errors import pick

    found = {described["key"]: described for described in catalogue()}
    if method is not None:
        one = pick("method", method, found)
        print_json(one) if as_json else _explain(one)
        return
    if as_json:
        print_json(list(found.values()))
        return
    _list(list(found.values()))
    typer.echo("Train with one: marvel train --method KEY --PARAMETER VALUE\nRead about one: marvel methods KEY")


def _list(found: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for method in found:
        changes = ", ".join(method["overrides"]) or "nothing"
        parameters = _parameters(method)
        rows.append(
            [
                f"{method['key']}\n{method['class']}",
                "\n".join([method["paper"], *_needs(method)]),
                "\n".join([*([" ".join(parameters)] if parameters else []), f"changes {changes}", method["works_in"]]),
            ]
        )
    print_table(["method", "paper", "parameters"], rows, lines=True)


def _explain(method: Mapping[str, Any]) -> None:
    """What its file and its class say of it, and what it takes."""
    from marvel.methods import METHODS

    kind = METHODS[method["key"]]
    for said in (sys.modules[kind.__module__].__doc__, vars(kind).get("__doc__")):
        typer.echo(f"{inspect.cleandoc(said or '')}\n")
    parameters = " ".join(_parameters(method)) or "none"
    typer.echo("\n".join([f"Parameters: {parameters}", *_needs(method), f"works in: {method['works_in']}"]))
    typer.echo(f"Train with it: marvel train --method {method['key']} --PARAMETER VALUE")


def _parameters(method: Mapping[str, Any]) -> list[str]:
    return [p["name"] if p["required"] else f"{p['name']}={p['default']}" for p in method["parameters"]]


def _needs(method: Mapping[str, Any]) -> list[str]:
    return [f"needs {', '.join(method['needs'])}"] if method["needs"] else []
