"""`marvel noise`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marvel.cli.flags import as_numbers
from marvel.cli.show import AsJson, percent, print_json, print_table
from marvel.errors import InvalidInput

if TYPE_CHECKING:
    from marvel.noise import Corruption

LARGEST_MATRIX = 12
"""Classes up to which a transition matrix is printed."""


def noise(
    labels: Annotated[
        Path | None,
        typer.Argument(metavar="[LABELS]", help="A .npy, .npz (its array y), .csv, .tsv or .txt file of clean labels."),
    ] = None,
    noise: Annotated[
        str, typer.Option(help="The convention (--list says what there is).", metavar="NAME")
    ] = "symmetric",
    rate: Annotated[float | None, typer.Option(help="The share of labels to make wrong.", metavar="X")] = None,
    rates: Annotated[
        str | None, typer.Option(help="Pair noise: the share of the first class, and of the second.", metavar="X,X")
    ] = None,
    noise_file: Annotated[
        Path | None, typer.Option(help="For 'file' and 'transition': the labels, or the matrix.", metavar="FILE")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="How many classes; default: as many as the labels show.", metavar="N")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of a .csv file, by its heading.", metavar="NAME")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed makes the same labels wrong as in `marvel train`.", metavar="N")
    ] = 0,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--no-exact",
            help="Whether each class gets an exact number of wrong labels; default: for two classes only.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write, in the same format.", metavar="FILE")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List the conventions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make some labels of a file wrong, and say what it came to.

    Labels may be whole numbers from 0, or names. All else in the file stays as it is; an .npz file also gets the labels
    as they were, in its array `clean`, so that `marvel train` can judge by them.

    \b
    marvel noise labels.csv --column species --rate 0.2 --out noisy.csv
    """
    from marvel import noise as conventions

    if as_list:
        _list_noise(as_json)
        return
    if labels is None or out is None:
        missing = "a file of labels" if labels is None else "the file to write"
        raise InvalidInput(f"{missing} is missing: marvel noise LABELS --rate 0.2 --out FILE")
    if out.exists() and not force:
        raise InvalidInput(f"{out} is there already: add --force to write over it")

    import numpy as np

    from marvel.labels import read_labels
    from marvel.plan import seed_of

    _check_flags(noise, {"--rate": rate, "--rates": rates, "--noise-file": noise_file})
    source = read_labels(labels, column)
    if source.names is not None and classes not in (None, len(source.names)):
        raise InvalidInput(
            f"{labels} names {len(source.names)} classes, which cannot be {classes}: leave out --classes"
        )
    options: dict[str, Any] = {
        "rate": rate,
        "exact": exact,
        "rates": None if rates is None else as_numbers("rates", rates),
    }
    if noise_file is not None:
        reads = noise == "transition"
        options["matrix" if reads else "path"] = conventions.read_matrix(noise_file) if reads else noise_file
    corruption = conventions.corrupt(
        source.labels,
        noise,
        np.random.default_rng(seed_of(seed, "noise")),
        classes=classes or source.classes,
        **{name: value for name, value in options.items() if value is not None},
    )
    source.write(out, corruption.labels)
    if as_json:
        facts = {**corruption.describe(), "transition": corruption.transition.tolist()}
        print_json({"file": str(out), "classes": source.names or len(corruption.transition), **facts})
    else:
        _print_corruption(corruption, source.names)
        typer.echo(f"The labels are in {out}.")


def _check_flags(noise: str, given: dict[str, Any]) -> None:
    """Each noise is told by one flag by how much, or from where."""
    from marvel.config import told_by

    if noise == "instance":
        raise InvalidInput(
            "noise 'instance' follows the instances themselves, which a file of labels does not hold: "
            "marvel train --noise instance --rate 0.2"
        )
    takes = told_by(noise)
    if takes is None:
        return
    flag = f"--{takes.replace('_', '-')}"
    example = {"--rate": "0.2", "--rates": "0.4,0.2", "--noise-file": "FILE"}[flag]
    if given[flag] is None:
        raise InvalidInput(f"noise '{noise}' is told by {flag}, which is missing: add {flag} {example}")
    for other, value in given.items():
        if value is not None and other != flag:
            raise InvalidInput(f"noise '{noise}' takes no {other}: {flag} {example} is all that it is told by")


def _list_noise(as_json: bool) -> None:
    from marvel.noise import NOISE

    lines = {name: (convention.__doc__ or "").partition("\n")[0] for name, convention in NOISE.items()}
    if as_json:
        print_json(lines)
    else:
        print_table(["noise", "what it does"], [[name, line] for name, line in lines.items()])


def _print_corruption(corruption: "Corruption", names: tuple[str, ...] | None) -> None:
    """The realised rate, and where the labels of each class went."""
    wrong, n = int(corruption.wrong.sum()), len(corruption.labels)
    typer.echo(f"{wrong} of {n} labels are wrong ({percent(corruption.realised_rate)}), by noise '{corruption.name}'.")
    classes = [str(name) for name in names or range(len(corruption.transition))]
    if len(classes) <= LARGEST_MATRIX:
        rows = [[name, *map(percent, row)] for name, row in zip(classes, corruption.transition, strict=True)]
        print_table(["clean \\ given", *classes], rows)
