"""`marvel review`"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marvel.cli.show import AsJson, print_json
from marvel.errors import FolderError

if TYPE_CHECKING:
    from marvel.runs import Facts


def review(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The run folder of `marvel clean`, or of `marvel train`.", show_default=False
        ),
    ],
    port: Annotated[
        int, typer.Option(help="The port; default: one that is free.", metavar="N", show_default=False)
    ] = 0,
    open_it: Annotated[
        bool,
        typer.Option("--open/--no-open", help="Whether to open the page in the browser.  [yes]", show_default=False),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Look at the suspect labels of a run, and decide.

    One by one or as a grid, in a page that is served to this machine only, under an address nobody can guess. Every
    decision is on the disk at once, in decisions.sqlite of the run folder, with its history. Ctrl-C ends it; start it
    again to go on.

    \b
    marvel review runs/mine
    marvel review runs/mine --no-open --port 8123     over ssh -L 8123:127.0.0.1:8123
    """
    from marvel.report.page import shown
    from marvel.review.decisions import Decisions
    from marvel.review.server import address, create_app, listen, new_token, serve
    from marvel.runs import RunFolder

    folder = RunFolder(run)
    config, instances = folder.config, shown(folder)
    if config is None:
        raise FolderError(f"there is no run in {run}: name the folder that clean or train wrote")
    if instances is None:
        raise FolderError(
            f"{run} is a run on data that is known by its name: marvel review is for files and folders of your own"
        )
    with Decisions(folder.decisions_file, of=config["data"]["fingerprint"]) as decisions:
        if decisions.restored is not None:
            typer.echo(
                f"{folder.decisions_file} was damaged: it is made anew from its copy, and now {decisions.restored}",
                err=True,
            )
        token = new_token()
        app = create_app(folder, decisions, instances, token)
        listener = listen(port)
        url = address(listener, token)

        def started() -> None:
            if as_json:
                print_json({"url": url})
            else:
                typer.echo(f"The page is at {url}\n{_so_far(app.state.suspects.progress())} Ctrl-C ends the page.")
            if open_it:
                typer.launch(url)

        serve(app, listener, started)
        progress = app.state.suspects.progress()
    if not as_json:
        quoted = shlex.quote(str(run))
        done = progress["decided"] or not progress["listed"]
        following = f"marvel export {quoted} --out FOLDER" if done else f"marvel review {quoted}"
        typer.echo(f"\n{_so_far(progress)} Next: {following}")


def _so_far(progress: "Facts") -> str:
    if not progress["listed"]:
        return "No suspects are listed: nothing is left to decide."
    return f"{progress['decided']:,} of {progress['listed']:,} suspects are decided; every decision is saved."
