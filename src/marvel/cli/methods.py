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
    headings = ["method", "paper", "parameters", "changes, works in"]
    rows = []
    for method in found:
        parameters = [p["name"] if p["required"] else f"{p['name']}={p['default']}" for p in method["parameters"]]
        needs = [f"needs {', '.join(method['needs'])}"] if method["needs"] else []
        rows.append(
            [
                f"{method['key']}\n{method['class']}",
                "\n".join([method["paper"], *needs]),
                " ".join(parameters),
                "\n".join([" ".join(method["overrides"]) or "nothing", method["works_in"]]),
            ]
        )
    print_table(headings, rows, lines=True)
    typer.echo("Train with one: marvel train --method KEY --PARAMETER VALUE")
