"""`marvel clean`"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marvel.cli.flags import as_text, flag_values, own_values, with_settings
from marvel.cli.process import process
from marvel.cli.show import AsJson, percent, print_json, print_source, print_table

if TYPE_CHECKING:
    from marvel.clean import Cleaned
    from marvel.data import Data

SHOWN = 10
"""Classes and pairs that the summary names."""


@with_settings
def clean(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A folder, table or file of arrays, or a dataset's name.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The run folder; default: runs/DATA-clean-sSEED.", metavar="FOLDER")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="List as many as can be expected to be wrong to this share.", metavar="X")
    ] = None,
    top: Annotated[int | None, typer.Option(help="List this many.", metavar="N")] = None,
    canaries: Annotated[
        str | None,
        typer.Option(
            help="Labels made wrong on purpose to measure by: a number, a share, or 0. "
            "[a fiftieth, at least 60, at most a twentieth]",
            metavar="N|SHARE",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file; flags override it.", metavar="FILE.toml")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the run in the folder; its settings, but for DATA, need not be repeated."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
    **given: Any,
) -> None:
    """Find the wrong labels in your own data.

    Trains one network by MARVEL and writes issues.csv, the suspect labels with a suggestion each; report.html; and how
    many labels are wrong, with an interval. What is not given suits the data, whatever defaults are named below: a CPU
    gets smaller images and networks, and little data smaller batches. The method's own parameters are flags too: --wait
    4. Ctrl-C leaves a folder that --resume continues.

    \b
    marvel clean photos
    marvel clean people.csv --label income --out runs/people
    marvel clean embeddings.npz --precision 0.9
    marvel clean photos --network resnet18 --weights resnet18.safetensors --size 224
    """
    from marvel.cli.progress import Progress

    flags = flag_values({**given, "config": as_text(config), "out": as_text(out), "canaries": canaries})
    with Progress(quiet or process() > 0) as progress:
        from marvel.clean import clean as find

        how: dict[str, Any] = {"precision": precision, "top": top}
        settings, folder, how = _settings(data, flags, context.args, resume, how)

        def loaded(read: "Data") -> None:
            if not quiet:
                print_source(read)

        def expect(seconds: float) -> None:
            progress.say(f"This will take about {_time(seconds)}.")

        found = find(
            data,
            folder,
            **how,
            resume=resume,
            watch=progress.of(str(settings.get("--method", settings.get("method", "marvel")))),
            expect=expect,
            reading=progress.work,
            loaded=loaded,
            **{key: value for key, value in settings.items() if key != "data"},
        )
    if process() > 0:
        return
    if as_json:
        print_json({"folder": str(folder), "report": as_text(found.report), **found.found})
    elif not quiet:
        _summary(found)


def _settings(
    data: str, flags: dict[str, Any], words: Sequence[str], resume: bool, how: dict[str, Any]
) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """The settings that were given, from the run that goes on, then the file, then the flags; the folder; and `how`,
    which says what is listed, with the canaries."""
    from marvel.config import Config, read_config
    from marvel.distributed import ask_first
    from marvel.errors import InvalidInput, pick
    from marvel.methods import METHODS
    from marvel.run import settings_of
    from marvel.runs import RunFolder

    file, out, canaries = (flags.pop(name, None) for name in ("--config", "--out", "--canaries"))
    settings: dict[str, Any] = read_config(file) if file is not None else {}
    if "precision" in settings:
        raise InvalidInput(
            f"{file}: to marvel clean, precision is that of the list; give it as a flag, --precision 0.9"
        )
    settings |= flags
    folder = (
        Path(out) if out is not None else default_folder(data, str(settings.get("--seed", settings.get("seed", 0))))
    )
    before = ask_first(lambda: RunFolder(folder).config) if resume else None
    known = {} if before is None else settings_of(before)
    named = known.get("method", Config.method)
    kind = pick("method", str(settings.get("--method", settings.get("method", named))), METHODS)
    own = own_values(words, kind)
    how = {"canaries": _number(canaries), **how}
    if before is not None:
        known.pop("precision", None)  # of its arithmetic
        settings = {**known, **settings}
        was = before.get("clean") or {}
        if how["canaries"] is None:
            how["canaries"] = was.get("canaries")
        if how["precision"] is None and how["top"] is None:
            how |= {"precision": was.get("precision"), "top": was.get("top")}
    return settings | own, folder, how


def _number(text: str | None) -> float | None:
    from marvel.errors import InvalidInput

    if text is None:
        return None
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(f"canaries is a number of labels, a share, or 0 for none; got {text!r}") from None


def default_folder(data: str, seed: str) -> Path:
    """runs/photos-clean-s0"""
    path = Path(data).resolve()
    tables = (".npz", ".npy", ".csv", ".tsv", ".parquet", ".pq")
    return Path("runs") / f"{path.stem if path.suffix in tables else path.name}-clean-s{seed}"


def _time(seconds: float) -> str:
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"


def _summary(found: "Cleaned") -> None:
    facts, estimate = found.found["found"], found.estimate
    if estimate is None:
        listed = f"{facts['flagged']:,} of {found.found['n']:,} labels look{'s' if facts['flagged'] == 1 else ''} wrong"
        if found.found["top"] is not None:
            listed = f"The {facts['flagged']:,} most suspect of {found.found['n']:,} labels are listed"
        typer.echo(f"{listed}. How many really are wrong is not estimated.")
    else:
        wrong = estimate["wrong"]
        typer.echo(
            f"About {wrong['value']:,.0f} of {found.found['n']:,} labels are wrong ({wrong['level']:.0%} interval: "
            f"{wrong['low']:,.0f} to {wrong['high']:,.0f}), judging by {found.found['canaries']} labels that were "
            "flipped on purpose (canaries)."
        )
        listed = f"{facts['flagged']:,} label{' is' if facts['flagged'] == 1 else 's are'} listed"
        if facts["flagged"]:
            listed += f"; {percent(estimate['precision'])} of the list is expected to be wrong"
            if estimate["recall"] is not None:
                listed += f", and {percent(estimate['recall'])} of all wrong labels is on it"
        typer.echo(f"{listed}.")
    rows = sorted((row for row in facts["by_class"] if row["flagged"]), key=lambda row: -row["flagged"])
    if rows:
        shown = [[row["name"], str(row["n"]), str(row["flagged"]), percent(row["flagged"] / row["n"])] for row in rows]
        print_table(["class", "labels", "listed", "share"], shown[:SHOWN])
        _more(len(shown), "class", "classes", found)
        pairs = [[f"{pair['given']} -> {pair['suggested']}", str(pair["count"])] for pair in facts["pairs"][:SHOWN]]
        print_table(["given -> suggested", "listed"], pairs)
        _more(len(facts["pairs"]), "pair", "pairs", found)
    for warning in found.found["warnings"]:
        typer.echo(f"Note: {warning}.")
    assert found.folder is not None
    report = f", the report {found.report}" if found.report is not None else ""
    typer.echo(f"The list is {found.folder / 'issues.csv'}{report} ({found.found['seconds']:.0f} s).")
    if facts["flagged"] and found.found["origin"] is not None:
        typer.echo(f"Next: marvel review {shlex.quote(str(found.folder))}")


def _more(number: int, one: str, many: str, found: "Cleaned") -> None:
    """How many a table has left out, and where they are."""
    if number > SHOWN:
        left = number - SHOWN
        where = "issues.csv has them all" if found.report is None else "the report shows more of them"
        typer.echo(f" and {left:,} more {one if left == 1 else many}; {where}\n")
