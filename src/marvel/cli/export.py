"""`marvel export`"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from marvel.cli.show import AsJson, print_json
from marvel.errors import amount


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder of `marvel clean`, or of `marvel train`.")],
    out: Annotated[Path, typer.Option(help="The new folder to write; it must not be there yet.", metavar="FOLDER")],
    accept_all: Annotated[
        bool, typer.Option("--accept-all", help="Accept the suggestions that nobody has decided about, unreviewed.")
    ] = False,
    accept_above: Annotated[
        float | None,
        typer.Option(help="The same, where the label is wrong with more than this probability.", metavar="X"),
    ] = None,
    keep_aside: Annotated[
        bool, typer.Option("--keep-aside", help="Mark what was set aside instead of leaving it out.")
    ] = False,
    link: Annotated[
        str, typer.Option(help="How images come along: copy, or links, hard or symbolic.", metavar="HOW")
    ] = "copy",
    as_json: AsJson = False,
) -> None:
    """Write the data with its labels corrected.

    In the format it came in. What was decided in `marvel review` counts. The input stays as it is; in the new folder
    are the data and corrections.csv, which `marvel train --corrections` and `marvel clean --corrections` read.

    \b
    marvel export runs/photos --out photos-corrected
    marvel export runs/photos --out photos-corrected --accept-above 0.9 --link hard
    """
    from marvel.cli.progress import Progress

    with Progress() as progress:
        from marvel.export import export as write

        done = write(
            run,
            out,
            accept_all=accept_all,
            accept_above=accept_above,
            keep_aside=keep_aside,
            link=link,
            watch=progress.work,
        )
    if as_json:
        print_json(done.facts())
        return
    unreviewed = f", {done.unreviewed:,} of them unreviewed" if done.unreviewed else ""
    before = f", and {done.before:,} before this run" if done.before else ""
    if not done.listed:
        typer.echo("The run lists no suspects: nothing is left to decide.")
    typer.echo(
        f"{amount(done.changed, 'label')} corrected{unreviewed}{before}; {amount(done.aside, 'instance')} set aside, "
        f"{'kept and marked' if keep_aside else 'and left out'}."
    )
    if done.undecided:
        still = (
            "is not decided about, and stays as it is" if done.undecided == 1 else "are undecided, and stay as they are"
        )
        typer.echo(f"{amount(done.undecided, 'suspect')} {still}: marvel review {shlex.quote(str(run))}")
    for old, new in list(done.renamed.items())[:10]:
        typer.echo(f"renamed: {old} -> {new}")
    if len(done.renamed) > 10:
        typer.echo(f"renamed: {len(done.renamed) - 10} more")
    if done.label is not None:
        typer.echo(f"The corrected labels are in '{done.label}'.")
    if done.elsewhere:
        typer.echo(f"{amount(done.elsewhere, 'image')} outside of the table's folder not carried along.")
    typer.echo(f"{amount(done.written, 'instance')} written to {out}; the decisions are in {out / done.decisions}.")
