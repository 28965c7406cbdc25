"""The command `marvel`: one file a verb, each calling the library function of the same name.

What is slow to import (torch, matplotlib) is imported inside the verbs, so that `--help` answers at once. Results go to
stdout, progress and mistakes to stderr. A mistake is one line and exit code 2.
"""

import errno
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Annotated, NoReturn, cast

import typer

from marvel import __version__
from marvel.cli.bench import bench
from marvel.cli.clean import clean
from marvel.cli.data import data
from marvel.cli.demo import demo
from marvel.cli.export import export
from marvel.cli.flags import EXTRA, Grouped
from marvel.cli.methods import methods
from marvel.cli.noise import noise
from marvel.cli.process import process
from marvel.cli.report import report
from marvel.cli.review import review
from marvel.cli.show import visible
from marvel.cli.train import train
from marvel.cli.tune import tune
from marvel.errors import MarvelError

MISTAKE, INTERRUPTED, TERMINATED = 2, 130, 143

ADVICE = {
    errno.ENOENT: "bring it back, or name another",
    errno.EEXIST: "what should be a folder is a file: name another place",
    errno.ENOTDIR: "what should be a folder is a file: name another place",
    errno.EISDIR: "what should be a file is a folder: name another place",
    errno.EACCES: "name a place that is yours, or ask for the right to it",
    errno.EPERM: "name a place that is yours, or ask for the right to it",
    errno.EROFS: "name a place that can be written to",
    errno.ENAMETOOLONG: "name a shorter one",
}
"""What to do where the system only says what is wrong."""

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)
"""What Typer raises about the command line itself; it has no public name in all versions."""

app = typer.Typer(
    help="Train classifiers on labels you cannot trust, find the wrong labels, and fix them.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


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


app.command(cls=Grouped)(demo)
app.command(cls=Grouped, context_settings=EXTRA)(train)
app.command(cls=Grouped, context_settings=EXTRA)(clean)
app.add_typer(data, name="data")
app.command(cls=Grouped)(review)
app.command(cls=Grouped)(export)
app.command(cls=Grouped)(bench)
app.command(cls=Grouped)(report)
app.command(cls=Grouped, context_settings=EXTRA)(tune)
app.command(cls=Grouped)(methods)
app.command(cls=Grouped)(noise)

RESUMABLE = {"train", "clean", "tune"}
"""Verbs whose work goes on with --resume."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; what goes wrong becomes one line and an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminated = threading.Event()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this: nobody listens
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    said = pairwise(part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word]))
    if empty := [name for name, value in said if name.startswith("--") and not value]:
        _fail(f"the value after {empty[0]} is empty")  # as a path it would be this very folder
    try:
        with _terminable(terminated), warnings.catch_warnings():
            # Where in the code one arose says nothing to who typed the command.
            warnings.showwarning = lambda message, *where: _say(str(message))
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
        advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
        _fail((f"{error.filename}: {error.strerror}" if error.filename else str(error)) + advice)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED and terminated.is_set():
        code = TERMINATED
    if code in (INTERRUPTED, TERMINATED):
        again = words if "--resume" in words else [*words, "--resume"]
        going_on = f"; go on with: {shlex.join(['marvel', *again])}" if words[:1] and words[0] in RESUMABLE else ""
        same = words[:1] == ["bench"] or words[:2] == ["data", "prepare"]
        going_on = "; the same command goes on" if same else going_on
        _fail(f"{'interrupted' if code == INTERRUPTED else 'terminated'}{going_on}", code)
    sys.exit(code)


@contextmanager
def _terminable(terminated: threading.Event) -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, in good order."""
    if threading.current_thread() is not threading.main_thread():  # signals are not for other threads
        yield
        return
    ours = os.getpid()

    def on_signal(number: int, frame: object) -> None:
        if os.getpid() == ours:
            terminated.set()
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)  # a process that was forked from here ends without a word
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int = MISTAKE) -> NoReturn:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    """A mistake or a warning, on a line."""
    speaker = f"marvel, process {process()}:" if process() > 0 else "marvel:"
    print(speaker, visible(" ".join(message.split())), file=sys.stderr)
