"""`marvel report`"""

from pathlib import Path
from typing import Annotated

import typer

from marvel.cli.show import AsJson, print_json


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: report.html in the run folder.", metavar="FILE")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a run as one HTML page that opens offline.

    The page holds what was found, the most suspect instances, the training, the settings and how to repeat it. Nothing
    is fetched when it is opened, so it can be mailed, archived or printed.

    \b
    marvel report runs/mine --open
    """
    from marvel.report.page import write_page
    from marvel.runs import RunFolder

    path = write_page(RunFolder(run), out)
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        typer.echo(f"The report is {path} ({path.stat().st_size / 1e6:.1f} MB).")
    if open_it:
        typer.launch(path.resolve().as_uri())
