"""`marvel demo`"""

from pathlib import Path
from typing import Annotated

import typer

from marvel.cli.process import refuse_torchrun
from marvel.cli.show import AsJson, percent, print_json, print_table, words


def demo(
    out: Annotated[
        Path, typer.Option(help="The folder; what a demo before wrote there is written anew.", metavar="FOLDER")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(help="One seed for noise, initialisation and order.", metavar="N")] = 0,
    as_json: AsJson = False,
) -> None:
    """See it work, in a minute, on digits with wrong labels.

    Cross entropy, what everybody does, beside MARVEL and MARVEL+, with 40 % of the labels wrong: a table, and a picture
    of the curves.
    """
    from marvel.cli.progress import Progress

    refuse_torchrun("demo")
    with Progress() as progress:
        from marvel import demo as demonstration

        shown = demonstration.demo(out, seed, watch=progress.of)
    if as_json:
        print_json(shown.facts())
        return
    from marvel.report.figures import NAMES

    rows = shown.rows()
    headings = ["", *(words(key) for key in demonstration.NUMBERS)]
    print_table(headings, [[NAMES[method], *map(percent, row.values())] for method, row in rows.items()])
    before, after = rows["ce"], shown.records["marvel+"]["final"]
    typer.echo(
        f"Cross entropy learned {percent(before['memorisation_ratio'])} of the wrong labels by heart. MARVEL+ learned "
        f"{percent(after['memorisation_ratio'])},\nfound {percent(after['detection_recall'])} of them, "
        f"and kept {percent(after['label_recall'])} of the right ones."
    )
    typer.echo(f"The curves are in {shown.picture}, the runs beside it. Next: marvel train --help")
