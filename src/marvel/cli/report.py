"""`marvel report`"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marvel.cli.show import AsJson, print_json, print_table
from marvel.errors import FolderError, InvalidInput, UnknownName

if TYPE_CHECKING:
    from marvel.report.sheet import Sheet

FORMATS = {"terminal": "", "markdown": ".md", "latex": ".tex", "html": ".html", "json": ".json"}
"""The forms of a table, and how files of it are named."""


def report(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|EXPERIMENT", help="A run folder, or an experiment as of `bench`.", show_default=False
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="Of an experiment: terminal, markdown, latex, html or json; default: as --out is named."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; default of a run: report.html in its folder.", metavar="FILE"),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Of an experiment: the folder of records; default: results.", metavar="FOLDER"),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Of an experiment: some of its cells, as in `bench`.", metavar="KEY=VALUE,..."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open what was written in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what runs came to.

    Of an experiment, a table: ours (mean, standard deviation, runs) beside the paper's, the difference, and whether it
    is within the bound; cells that were not run say so. Of a run folder, one HTML page that opens offline.

    \b
    marvel report cifar-symmetric --only data=cifar10
    marvel report binary-symmetric --out table.tex
    marvel report runs/mine --open
    """
    written: Path | None
    if Path(what).is_dir():
        for flag, value in {"--results": results, "--only": only}.items():
            if value:
                raise InvalidInput(f"{flag} is of an experiment, and {what} is a folder: leave it out")
        written = _page(Path(what), out, form, as_json)
    elif len(Path(what).parts) > 1 and Path(what).suffix not in (".py", ".toml"):
        raise FolderError(f"there is no run folder {what}")
    else:
        written = _table(what, _form(form, as_json, out), out, results or Path("results"), only or ())
    if open_it and written is not None:
        typer.launch(written.resolve().as_uri())


def _page(folder: Path, out: Path | None, form: str | None, as_json: bool) -> Path:
    from marvel.report.page import write_page
    from marvel.runs import RunFolder

    if form not in (None, "html"):
        raise InvalidInput(f"the report of a run is an HTML page, not {form}: leave out --format")
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"the report of a run is an HTML page, not {out.name}: name it {out.with_suffix('.html')}")
    path = write_page(RunFolder(folder), out)
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        typer.echo(f"The report is {path} ({path.stat().st_size / 1e6:.1f} MB).")
    return path


def _table(what: str, form: str, out: Path | None, results: Path, only: Sequence[str]) -> Path | None:
    from marvel.experiment import asked
    from marvel.experiment.finding import find
    from marvel.report import compared, sheet
    from marvel.results import by_run, failures

    found = asked.only(find(what, ", nor a run folder of that name"), only)
    lines = compared.compare(found, by_run(results).values(), failures(results))
    if form == "json":
        content = _json(compared.facts(found, lines))
    elif form == "terminal" and out is None:
        _print(compared.sheet(found, lines))
        return None
    else:
        write: dict[str, Callable[[Sheet], str]] = {
            "markdown": sheet.markdown,
            "terminal": sheet.markdown,
            "latex": sheet.latex,
            "html": sheet.html,
        }
        content = write[form](compared.sheet(found, lines))
    if out is None:
        typer.echo(content, nl=False)
        return None
    from marvel.runs import write_atomically

    write_atomically(out, content.encode())
    typer.echo(f"The table is in {out}.", err=True)
    return out


def _form(form: str | None, as_json: bool, out: Path | None) -> str:
    """The one format that the flags ask for, the name of the file among them."""
    asked: dict[str, str] = {}
    if form is not None:
        if form not in FORMATS:
            raise UnknownName("format", form, FORMATS)
        asked[f"--format {form}"] = form
    if as_json:
        asked["--json"] = "json"
    if out is not None:
        asked |= {f"--out {out}": name for name, ending in FORMATS.items() if ending and out.suffix.lower() == ending}
    if len(set(asked.values())) > 1:
        raise InvalidInput(f"{' and '.join(asked)} ask for {' and '.join(asked.values())}: leave out one of them")
    if out is not None and not asked:
        raise InvalidInput(f"no format is known for {out.name}: add --format, or name it .md, .tex, .html or .json")
    return next(iter(asked.values()), "terminal")


def _json(facts: object) -> str:
    import json

    return json.dumps(facts, indent=2, allow_nan=False) + "\n"


def _print(shown: "Sheet") -> None:
    typer.echo(shown.title)
    print_table(shown.headings, shown.rows)
    for note in shown.notes:
        typer.echo(note)
