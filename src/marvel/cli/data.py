"""`marvel data prepare` and `marvel data check`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marvel.cli.flags import Grouped, as_text
from marvel.cli.show import AsJson, print_json, print_table
from marvel.errors import amount

if TYPE_CHECKING:
    from marvel.prepare import Counted

NAMED = 10
"""Files that are named on the terminal."""
UNWELL = 1
"""The exit code of a check that found something."""

data = typer.Typer(help="Write large sets of images as shards, and check them.", rich_markup_mode=None)

Root = Annotated[
    Path | None,
    typer.Option(help="The folder the datasets lie in; default: $MARVEL_DATA, then ~/.cache/marvel.", metavar="FOLDER"),
]


@data.callback(invoke_without_command=True)
def alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data.command(cls=Grouped)
def prepare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FOLDER", help="webvision50, clothing100k, clothing1m, or a folder of class folders."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of shards, a new one or one to go on with.", metavar="SHARDS")],
    root: Root = None,
    short_side: Annotated[
        int | None,
        typer.Option(help="Make larger images smaller, to this shorter side; 256 suits crops of 224.", metavar="N"),
    ] = None,
    quality: Annotated[int, typer.Option(help="Of the JPEGs they become.", metavar="N")] = 95,
    augment: Annotated[
        str | None,
        typer.Option(
            help="How a folder of your own is trained on: crop-flip, or resized-crop-flip for photographs.",
            metavar="HOW",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Instances a shard.", metavar="N")] = 4096,
    workers: Annotated[int | None, typer.Option(help="Threads; default: one a core.", metavar="N")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
) -> None:
    """Write a dataset of image files as shards, which train and clean read.

    Every image is decoded once; what is missing or cannot be read is named and left out. The same command goes on after
    an interruption, and writes shards anew that are gone or cut short.

    \b
    marvel data prepare webvision50 --out shards/webvision50 --short-side 256
    marvel data prepare photos --out shards/photos --augment resized-crop-flip
    marvel train --data shards/photos --network resnet50
    """
    from marvel.cli.process import refuse_torchrun
    from marvel.cli.progress import Progress

    refuse_torchrun("data prepare")
    with Progress(quiet) as progress:
        from marvel.data import listing
        from marvel.prepare import prepare as write

        done = write(
            listing(source, as_text(root), augment),
            out,
            short_side=short_side,
            quality=quality,
            rows=rows,
            workers=workers,
            watch=progress.work,
        )
    if as_json:
        print_json(
            {"out": str(out), "shards": done.shards, "bytes": done.bytes, "whole": done.whole, **_facts(done.parts)}
        )
    elif not quiet:
        _show(done.parts)
        for note in done.notes:
            typer.echo(note)
        kept = f", {done.kept} of them from before" if done.kept else ""
        typer.echo(f"{amount(done.shards, 'shard is', 'shards are')} in {out} ({done.bytes / 2**20:,.1f} MiB){kept}.")


@data.command(cls=Grouped)
def check(
    source: Annotated[
        str, typer.Argument(metavar="SHARDS|NAME|FOLDER", help="A folder of shards, or what they would be made of.")
    ],
    root: Root = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
) -> None:
    """See whether a dataset is whole: shards byte for byte, image files by whether they are there.

    The exit code is 1 where something is missing.

    \b
    marvel data check shards/webvision50
    marvel data check clothing1m --root datasets
    """
    from marvel.cli.progress import Progress

    with Progress(quiet) as progress:
        from marvel.data import listing
        from marvel.data.shards import is_shards, open_shards
        from marvel.prepare import count, counted

        folder = Path(source).expanduser()
        faults: list[str] = []
        notes: tuple[str, ...] = ()
        if is_shards(folder):
            opened = open_shards(folder, thorough=True, watch=progress.work)
            faults, parts = [str(fault) for fault in opened.faults], counted(opened.manifest, {})
        else:
            whole = listing(source, as_text(root))
            parts, notes = count(whole, progress.work), (*whole.notes, *whole.counted())
    good = not faults and all(part.whole for part in parts.values())
    if as_json:
        print_json({"whole": good, "faults": faults, **_facts(parts)})
    elif not quiet:
        _show(parts)
        for line in (*notes, *faults):
            typer.echo(line)
        typer.echo("All is as it should be." if good else "Something is missing.")
    raise typer.Exit(0 if good else UNWELL)


def _facts(parts: "dict[str, Counted]") -> dict[str, Any]:
    return {
        "parts": {
            name: {
                **{key: getattr(part, key) for key in ("expected", "listed", "written")},
                "missing": list(part.missing),
                "unreadable": [{"id": id, "reason": reason} for id, reason in part.unreadable],
            }
            for name, part in parts.items()
        }
    }


def _show(parts: "dict[str, Counted]") -> None:
    rows = []
    for name, part in parts.items():
        expected = "–" if part.expected is None else f"{part.expected:,}"
        numbers = (part.listed, part.written, len(part.missing), len(part.unreadable))
        rows.append([name, expected, *(f"{number:,}" for number in numbers)])
    print_table(["part", "expected", "listed", "written", "missing", "unreadable"], rows)
    wrong = [(id, "there is no such file") for part in parts.values() for id in part.missing]
    wrong += [pair for part in parts.values() for pair in part.unreadable]
    for id, reason in wrong[:NAMED]:
        typer.echo(f"{id}: {reason}")
    if len(wrong) > NAMED:
        typer.echo(f"and {len(wrong) - NAMED:,} more; --json names all of them")
