"""`marvel methods`"""

import typer

from marvel.cli.show import AsJson, print_json, print_table


def methods(as_json: AsJson = False) -> None:
    """List the methods, their papers and parameters."""
    from marvel.catalogue import catalogue

    found = catalogue()
    if as_json:
        print_json(found)
        return
    headings = ["method", "paper", "parameters"]
    rows = []
    for method in found:
        parameters = [p["name"] if p["required"] else f"{p['name']}={p['default']}" for p in method["parameters"]]
        needs = [f"needs {', '.join(method['needs'])}"] if method["needs"] else []
        changes = ", ".join(method["overrides"]) or "nothing"
        rows.append(
            [
                f"{method['key']}\n{method['class']}",
                "\n".join([method["paper"], *needs]),
                "\n".join([*([" ".join(parameters)] if parameters else []), f"changes {changes}", method["works_in"]]),
            ]
        )
    print_table(headings, rows, lines=True)
    typer.echo("Train with one: marvel train --method KEY --PARAMETER VALUE")
