"""How results are shown: as JSON, as a table, and numbers as people write them."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from unicodedata import category

import typer

if TYPE_CHECKING:
    from marvel.data import Data

MOST_NAMED = 10
"""Instances that were set aside and are named on the terminal."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]


def words(key: str) -> str:
    """`detection_f1` -> `detection F1`, as people write it."""
    special = {"warmup": "warm-up", "detection_f1": "detection F1", "detection_auroc": "detection AUROC"}
    return special.get(key, key.replace("_", " "))


def visible(text: str) -> str:
    """Names and labels are data: a line break in one tears a table apart, and an escape commands the terminal."""
    return "".join(repr(sign)[1:-1] if category(sign) == "Cc" else sign for sign in text)


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def print_json(facts: Any) -> None:
    typer.echo(json.dumps(facts, indent=2, allow_nan=False))


def print_source(data: "Data") -> None:
    """What reading the data brought up, on stderr."""
    for note in data.notes:
        typer.echo(visible(note), err=True)
    for one in data.set_aside[:MOST_NAMED]:
        name = f"instance {one.id}" if one.id.isdigit() else one.id
        typer.echo(visible(f"set aside: {name}: {one.reason}"), err=True)
    if len(data.set_aside) > MOST_NAMED:
        typer.echo(f"set aside: {len(data.set_aside) - MOST_NAMED} more, all in config.json", err=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], lines: bool = False) -> None:
    """A table on stdout; the first column is of names, columns of numbers are set right. `lines` between the rows are
    for cells of several."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    headings = [visible(heading) for heading in headings]
    rows = [list(row) if lines else [visible(cell) for cell in row] for row in rows]
    # Rich takes a pipe for a terminal of 80 columns, too few for some tables.
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    # Names are data: brackets and colons in them are no markup.
    console = Console(width=120 if piped else None, markup=False, emoji=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_header=any(headings), show_lines=lines, padding=(0, 1, 0, 0))
    longest = [
        max((cell_len(word) for cell in (heading, *(row[column] for row in rows)) for word in cell.split()), default=0)
        for column, heading in enumerate(headings)
    ]
    unbroken = sum(longest) + 2 * len(headings) <= console.width  # room for each column's longest word
    for column, heading in enumerate(headings):
        numbers = column > 0 and all(row[column][:1].isdigit() or row[column] == "–" for row in rows)
        widest = max([*map(len, heading.split()), *(len(row[column]) for row in rows if numbers)], default=0)
        widest = max(widest, longest[column]) if unbroken else widest
        side: Literal["left", "right"] = "right" if numbers else "left"
        # Names that leave no room for the numbers beside them are folded.
        whole = column == 0 and max((cell_len(row[0]) for row in rows), default=0) <= console.width / 2
        table.add_column(heading, justify=side, min_width=widest, no_wrap=whole, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
