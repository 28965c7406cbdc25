"""The command `marvel`: one function a verb, each calling the library function of the same name.

What is slow to import (torch, matplotlib) is imported inside the verbs, so that `--help` answers at once. Results go to
stdout, progress and mistakes to stderr. A mistake is one line and exit code 2.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

import typer

from marvel import __version__
from marvel.errors import InvalidInput, MarvelError
from marvel.flags import EXTRA, Grouped, flag_values, own_values, with_settings

if TYPE_CHECKING:
    from marvel.config import Config
    from marvel.noise import Corruption

MISTAKE, INTERRUPTED = 2, 130
LARGEST_MATRIX = 12
"""Classes up to which a transition matrix is printed."""

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
"""What Typer raises about the command line itself; it has no public name in all versions."""

app = typer.Typer(
    help="Train classifiers on labels you cannot trust, find the wrong labels, and fix them.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"marvel {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def marvel(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# ------------------------------------------------------------ marvel demo


@app.command(cls=Grouped)
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
    from marvel.progress import Progress

    with Progress() as progress:
        from marvel import demo as demonstration

        shown = demonstration.demo(out, seed, watch=progress.of)
    if as_json:
        _print_json(shown.facts())
        return
    from marvel.report.figures import NAMES

    rows = shown.rows()
    headings = ["", *(_words(key) for key in demonstration.NUMBERS)]
    _print_table(headings, [[NAMES[method], *map(_percent, row.values())] for method, row in rows.items()])
    before, after = rows["ce"], shown.records["marvel+"]["final"]
    typer.echo(
        f"Cross entropy learned {_percent(before['memorisation_ratio'])} of the wrong labels by heart. MARVEL+ learned "
        f"{_percent(after['memorisation_ratio'])},\nfound {_percent(after['detection_recall'])} of them, "
        f"and kept {_percent(after['label_recall'])} of the right ones."
    )
    typer.echo(f"The curves are in {shown.picture}, the runs beside it. Next: marvel train --help")


# ------------------------------------------------------------ marvel train


@app.command(cls=Grouped, context_settings=EXTRA)
@with_settings
def train(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file; flags override it.", metavar="FILE.toml")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder; default: runs/DATA-NOISE-RATE-METHOD-sSEED.", metavar="FOLDER"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder; its settings need not be repeated.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
    **given: Any,
) -> None:
    """Train a classifier that does not memorise wrong labels.

    The method's own parameters are flags too: --wait 8, --noise-rate 0.2 (`marvel methods` lists them). What is not
    given comes from the problem's preset, the paper's protocol. Ctrl-C leaves a folder that --resume continues.

    \b
    marvel train --noise symmetric --rate 0.4
    marvel train --data cifar10 --noise symmetric --rate 0.4 --method marvel+ --wait 8 --seed 1
    marvel train --data mine.npz --network resnet18 --epochs 100 --out runs/mine
    torchrun --nproc-per-node 4 -m marvel train --data cifar10 --noise symmetric --rate 0.4
    """
    from marvel.progress import Progress

    flags = flag_values({**given, "config": _text(config), "out": _text(out)})
    with Progress(quiet or _process() > 0) as progress:
        from marvel.distributed import together

        with together(str(flags.get("--device", "auto"))):
            settings, folder = _settings(flags, context.args, resume)

            from marvel.run import train as run_training

            run = run_training(settings, folder, resume, progress.of(settings.method))
    if _process() > 0:
        return
    assert run.record is not None
    if as_json:
        _print_json({"folder": str(folder), **{key: run.record[key] for key in ("final", "chosen", "seconds")}})
    elif not quiet:
        _print_table(["", ""], _final_rows(run.record["final"]))
        if run.record["chosen"]:
            chosen = ", ".join(f"{_words(key)} {value}" for key, value in run.record["chosen"].items())
            typer.echo(f"{settings.method} ran with {chosen}.")
        typer.echo(f"The run is in {folder} ({run.record['seconds']:.0f} s).")


def _settings(flags: dict[str, Any], words: Sequence[str], resume: bool) -> "tuple[Config, Path]":
    """The settings, from the run that goes on, then the file, then the flags; and the folder."""
    from marvel.config import Config, config_from, read_config
    from marvel.distributed import ask_first
    from marvel.errors import pick
    from marvel.methods import METHODS
    from marvel.runs import RunFolder

    file, out = flags.pop("--config", None), flags.pop("--out", None)
    layers: list[dict[str, Any]] = []
    if resume and out is not None and (before := ask_first(lambda: RunFolder(out).config)) is not None:
        layers.append(before["config"])
    if file is not None:
        layers.append(read_config(file))
    named = {"method": Config.method}
    for layer in layers:
        named |= {"method": layer.get("method", named["method"])}
    kind = pick("method", str(flags.get("--method", named["method"])), METHODS)
    settings = config_from(*layers, flags, own_values(words, kind))
    return settings, Path(out) if out is not None else default_folder(settings)


def default_folder(config: "Config") -> Path:
    """runs/digits-symmetric-0.4-marvel-s0"""
    data = Path(config.data).stem if config.data.endswith(".npz") else config.data
    rate = "-".join(f"{rate:g}" for rate in config.rates or (config.rate,))
    if config.noise_file is not None:
        rate = Path(config.noise_file).stem
    return Path("runs") / f"{data}-{config.noise}-{rate}-{config.method}-s{config.seed}"


def _final_rows(final: dict[str, Any]) -> list[list[str]]:
    """What a reader asks first, in words, as far as it is known."""
    shares = (
        *("test_accuracy", "train_accuracy", "memorisation_ratio", "label_precision", "label_recall"),
        *("detection_precision", "detection_recall", "detection_f1", "detection_auroc"),
    )
    rows = [[_words(key), _percent(final[key])] for key in shares if final.get(key) is not None]
    return [*rows, ["removed", str(final["removed"])]]


# ------------------------------------------------------------ marvel methods


@app.command(cls=Grouped)
def methods(as_json: AsJson = False) -> None:
    """List the methods, their papers and parameters."""
    from marvel.catalogue import catalogue

    found = catalogue()
    if as_json:
        _print_json(found)
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
    _print_table(headings, rows, lines=True)
    typer.echo("Train with one: marvel train --method KEY --PARAMETER VALUE")


# ------------------------------------------------------------ marvel noise


@app.command(cls=Grouped)
def noise(
    labels: Annotated[
        Path | None,
        typer.Argument(metavar="[LABELS]", help="A .npy, .npz (its array y), .csv or .txt file of clean labels."),
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

    source = read_labels(labels, column)
    if source.names is not None and classes not in (None, len(source.names)):
        raise InvalidInput(
            f"{labels} names {len(source.names)} classes, which cannot be {classes}: leave out --classes"
        )
    options: dict[str, Any] = {
        "rate": rate,
        "exact": exact,
        "rates": None if rates is None else _numbers("rates", rates),
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
        _print_json({"file": str(out), "classes": source.names or len(corruption.transition), **facts})
    else:
        _print_corruption(corruption, source.names)
        typer.echo(f"The labels are in {out}.")


def _list_noise(as_json: bool) -> None:
    from marvel.noise import NOISE

    lines = {name: (convention.__doc__ or "").partition("\n")[0] for name, convention in NOISE.items()}
    if as_json:
        _print_json(lines)
    else:
        _print_table(["noise", "what it does"], [[name, line] for name, line in lines.items()])


def _print_corruption(corruption: "Corruption", names: tuple[str, ...] | None) -> None:
    """The realised rate, and where the labels of each class went."""
    wrong, n = int(corruption.wrong.sum()), len(corruption.labels)
    typer.echo(f"{wrong} of {n} labels are wrong ({_percent(corruption.realised_rate)}), by noise '{corruption.name}'.")
    classes = [str(name) for name in names or range(len(corruption.transition))]
    if len(classes) <= LARGEST_MATRIX:
        rows = [[name, *map(_percent, row)] for name, row in zip(classes, corruption.transition, strict=True)]
        _print_table(["clean \\ given", *classes], rows)


# ------------------------------------------------------------ what they share


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"{name} should be numbers with commas between, got {text!r}: write 0.4,0.1") from None


def _words(key: str) -> str:
    """`detection_f1` -> `detection F1`, as people write it."""
    special = {"warmup": "warm-up", "detection_f1": "detection F1", "detection_auroc": "detection AUROC"}
    return special.get(key, key.replace("_", " "))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _print_json(facts: Any) -> None:
    typer.echo(json.dumps(facts, indent=2, allow_nan=False))


def _print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], lines: bool = False) -> None:
    """A table on stdout; the first column is of names, columns of numbers are set right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    table = Table(box=box.SIMPLE_HEAD, show_header=any(headings), show_lines=lines, padding=(0, 1, 0, 0))
    for column, heading in enumerate(headings):
        numbers = column > 0 and all(row[column][:1].isdigit() or row[column] == "–" for row in rows)
        widest = max(map(len, heading.split()), default=0)
        side: Literal["left", "right"] = "right" if numbers else "left"
        table.add_column(heading, justify=side, min_width=widest, no_wrap=column == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Rich takes a pipe for a terminal of 80 columns, too few for some tables.
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    Console(width=120 if piped else None).print(table)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; what goes wrong becomes one line and an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(words, prog_name="marvel", standalone_mode=False)
    except UsageError as error:
        asked = error.ctx.command_path if error.ctx is not None else "marvel"
        _fail(f"{error.format_message().rstrip('.')} (see {asked} --help)")
    except (MarvelError, MemoryError) as error:
        _fail(str(error))
    except BrokenPipeError:
        # Whoever read has had enough. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        again = words if "--resume" in words else [*words, "--resume"]
        going_on = f"; go on with: {shlex.join(['marvel', *again])}" if words[:1] == ["train"] else ""
        _fail(f"interrupted{going_on}", INTERRUPTED)
    sys.exit(code)


def _process() -> int:
    """Which of the processes that torchrun started this is; the first alone reports. Torch need not be there to ask."""
    return int(os.environ.get("RANK", 0)) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else 0


def _fail(message: str, code: int = MISTAKE) -> NoReturn:
    speaker = f"marvel, process {_process()}:" if _process() > 0 else "marvel:"
    print(speaker, " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
