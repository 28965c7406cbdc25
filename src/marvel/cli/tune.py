"""`marvel tune`"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marvel.cli.flags import as_text, flag_values, own_values, said_what, with_settings
from marvel.cli.show import AsJson, percent, print_json, print_table
from marvel.errors import FolderError, InvalidInput, amount

if TYPE_CHECKING:
    from marvel.cli.progress import Progress
    from marvel.config import Config
    from marvel.runs import Facts, RunFolder
    from marvel.trainer import Epoch
    from marvel.tune import Tuned
    from marvel.tune.space import Space


@with_settings
def tune(
    context: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A run folder, to read off it what it tells without training."),
    ] = None,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            help="What to try: q=0.1,0.5 or wait=3..7 or lr=0.001:0.1 (a range); again for each parameter. "
            "Default: the paper's grid for the method.",
            metavar="NAME=VALUES",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="How a trial is judged: cv, hold-out (given labels both), or clean  [cv]", metavar="TEXT"),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Of cv; 1: one fold of five, for a small budget  [5]", metavar="N")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(help="How much is held out; default: 0.25 of hold-out, 0.1 of clean.", metavar="X"),
    ] = None,
    fine: Annotated[
        bool | None,
        typer.Option("--fine/--no-fine", help="Whether a finer grid follows around the best; default: of hold-out."),
    ] = None,
    around: Annotated[
        int | None, typer.Option(help="MARVEL's wait, near which that of MARVEL+ is sought.", metavar="N")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Draw so many points, where there are ranges to try.", metavar="N")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(help="Trainings that take turns on the device; default: 8 on a GPU, else 1.", metavar="N"),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option(help="With RUN: warm-ups or waits to replay on its ledger: wait=2..20.", metavar="NAME=VALUES"),
    ] = None,
    until: Annotated[int | None, typer.Option(help="With RUN: look at its first epochs only.", metavar="N")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file; flags override it.", metavar="FILE.toml")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the search; default: runs/tune-DATA-NOISE-RATE-METHOD-sSEED.", metavar="FOLDER"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the search in the folder; its settings need not be repeated.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Add what was found to a JSON file, as results/tuned.json has it.", metavar="FILE"),
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
    **given: Any,
) -> None:
    """Find good values of hyper-parameters.

    Trains with each of some values and judges by instances held out: five folds of the given labels (cv), a quarter of
    them and then a finer grid (hold-out), or a tenth with clean labels (clean), the paper's three protocols. Without
    --try it takes the paper's own grid. Ctrl-C leaves a folder that --resume continues.

    With RUN it trains nothing: it reads the warm-up off the run's curves and, with --replay, says what any wait would
    have removed (needs a run with --ledger that removed nothing).

    \b
    marvel tune --data cat-dog --noise symmetric --rate 0.2 --method gce
    marvel tune --method sce --noise symmetric --rate 0.4 --folds 1
    marvel tune --method marvel --noise symmetric --rate 0.4 --try wait=2..8/2 --try lr=0.01,0.03
    marvel tune runs/ce --replay wait=2..20
    """
    if run is not None:
        searched: dict[str, Any] = {
            "--try": tries,
            "--by": by,
            "--folds": folds,
            "--share": share,
            "--fine": fine,
            "--around": around,
        }
        searched |= {"--trials": trials, "--width": width, "--config": config, "--out": out, "--save": save}
        named = [name for name, value in (searched | flag_values(given)).items() if value is not None]
        if named or resume:
            raise InvalidInput(
                f"{named[0] if named else '--resume'} is of a search, and RUN is only read: leave out one"
            )
        _read_off(run, replay or (), until, context.args, as_json)
        return
    if replay or until is not None:
        raise InvalidInput("--replay and --until are of a run: marvel tune RUN --replay wait=2..20")
    from marvel.cli.progress import Progress

    flags = flag_values({**given, "config": as_text(config)})
    if save is not None:
        _entries(save)  # a file of another kind is said before anything is trained
    with Progress(quiet) as progress:
        asked, settings, space = _asked(flags, context.args, out, resume, tries or ())
        if save is not None and (known := [name for name in space or () if hasattr(settings, name)]):
            raise InvalidInput(f"--save keeps parameters of the method, and {known[0]} is a setting: leave it out")
        told = {"by": by, "folds": folds, "share": share, "fine": fine, "trials": trials}
        asked |= {name: value for name, value in told.items() if value is not None}

        from marvel.cli.train import default_folder
        from marvel.distributed import device_for
        from marvel.tune import tune as search

        folder = out or default_folder(settings).with_name(f"tune-{default_folder(settings).name}")
        if width is None:
            width = 8 if device_for(settings.device).startswith("cuda") else 1
        found = search(
            settings,
            space,
            **asked,
            around=around,
            width=width,
            out=folder,
            resume=resume,
            watch=_watch(progress),
        )
    if save is not None:
        _save(save, found.entry())
    if as_json:
        print_json({"folder": str(folder), **found.facts()})
    elif not quiet:
        _show(found)
        typer.echo(f"The search is in {folder}. Train with the best: {found.command}")


def _asked(
    flags: dict[str, Any], words: Sequence[str], out: Path | None, resume: bool, tries: Sequence[str]
) -> "tuple[dict[str, Any], Config, Space | None]":
    """How trials are judged, the settings, what is tried: from the search that goes on, the file, then the flags."""
    from marvel.config import Config, config_from, read_config
    from marvel.errors import FolderError, pick
    from marvel.methods import METHODS
    from marvel.tune.search import read_note
    from marvel.tune.space import read_space, space_from

    file = flags.pop("--config", None)
    before = read_note(out) if resume and out is not None else None
    layers: list[dict[str, Any]] = [] if before is None else [before["config"]]
    if file is not None:
        layers.append(read_config(file))
    named = {"method": Config.method}
    for layer in layers:
        named |= {"method": layer.get("method", named["method"])}
    kind = pick("method", str(flags.get("--method", named["method"])), METHODS)
    settings = config_from(*layers, flags, own_values(words, kind))
    if resume and out is not None and not (layers or tries or said_what(flags, words)):
        raise FolderError(f"there is no search in {out} to go on with: name its folder, or leave out --resume")
    space = read_space(tries, settings) if tries else None
    asked: dict[str, Any] = {}
    if before is not None:
        asked = {"by": before["by"], "folds": before["folds"], "share": before["share"], "fine": before["fine"]}
        asked |= {"trials": before["draws"]}
        space = space_from(before["space"]) if space is None else space
    return asked, settings, space


def _watch(progress: "Progress") -> "Callable[[str], Callable[[Epoch], None]]":
    """A bar for each training under way; elsewhere a line for each that is done."""

    def of(name: str) -> "Callable[[Epoch], None]":
        def watch(epoch: "Epoch") -> None:
            over = epoch.epoch == epoch.epochs and "/" not in epoch.stage
            if progress.bars is not None:
                progress.show(name, epoch)
                if over:
                    progress.forget(name)
            elif progress.lines and over:
                held = epoch.metrics.get("validation_accuracy") or epoch.metrics.get("test_accuracy")
                print(f"{name}: {percent(held)} of those held out", file=sys.stderr, flush=True)

        return watch

    return of


def _show(found: "Tuned") -> None:
    # A search that went on with other parameters has trials of both.
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.point))
    rows = []
    for trial in found.trials:
        told = "failed" if trial.failed is not None else percent(trial.score)
        sd = "–" if trial.sd is None else f"{100 * trial.sd:.1f}"
        values = [_written(trial.point[name]) if name in trial.point else "–" for name in names]
        rows.append([*values, told, sd, "best" if trial is found.best else ""])
    held = {"cv": "given labels", "hold-out": "given labels", "clean": "clean labels"}[found.by]
    print_table([*names, f"accuracy, {held}", "sd", ""], rows)
    for trial in found.trials:
        if trial.failed is not None:
            typer.echo(f"{trial.point}: {trial.failed}", err=True)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _entries(path: Path) -> "list[Facts]":
    """What was found before."""
    import json

    try:
        entries = json.loads(path.read_bytes()) if path.exists() else []
    except ValueError as error:
        raise FolderError(f"{path} is not JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FolderError(f"{path} is no list of what searches found: name another file for --save")
    return entries


def _save(path: Path, entry: "Facts") -> None:
    """In place of what was found for the same method and problem before."""
    from marvel.runs import as_json, write_atomically

    same = ("data", "noise", "rate", "rates", "method")
    rest = [old for old in _entries(path) if [old.get(key) for key in same] != [entry[key] for key in same]]
    write_atomically(path, as_json([*rest, entry], indent=1))


# ------------------------------------------------------------ what a run tells


def _read_off(path: Path, replay: Sequence[str], until: int | None, words: Sequence[str], as_json: bool) -> None:
    from marvel.runs import RunFolder

    folder = RunFolder(path)
    if folder.config is None:
        raise FolderError(f"{path} is no run folder: there is no config.json in it")
    if words and not replay:
        raise InvalidInput(f"{words[0]} means something with --replay only: marvel tune RUN --replay wait=2..20")
    told: dict[str, Any] = {"folder": str(path), "warmup": _warmups(folder, None if replay else until)}
    if replay:
        told["replay"] = [one.facts() for one in _replay(folder, replay, until, words)]
    if as_json:
        print_json(told)
        return
    print_table(["warm-up", "epoch"], [[name, "–" if at is None else str(at)] for name, at in told["warmup"].items()])
    if replay:
        _show_replay(told["replay"])


def _warmups(folder: "RunFolder", until: int | None) -> dict[str, int | None]:
    """The warm-up that each way of reading the run's curves, up to an epoch, gives."""
    from marvel.warmup import SMOOTH, automatic, knee, peak

    assert folder.config is not None
    config, lines = folder.config["config"], folder.metrics()[:until]
    if len(lines) < SMOOTH:
        raise FolderError(f"{folder.path} has {amount(len(lines), 'epoch')}, and a curve is read from {SMOOTH} on")
    training = [line["train_accuracy"] for line in lines]
    falls = config["drops"] if config["schedule"] == "drops" else []
    before_drop = falls[0] if falls and falls[0] >= SMOOTH else None
    found: dict[str, int | None] = {
        "training accuracy, as auto sees it": automatic(training, config["epochs"], folder.config["data"]["n"]),
        "training accuracy, its knee": knee(training, before_drop),
    }
    validation = [line.get("validation_accuracy") for line in lines]
    if None not in validation:
        found["validation accuracy, its peak"] = peak([value for value in validation if value is not None], before_drop)
    if lines[-1].get("warmup") is not None:
        found["the run's own"] = lines[-1]["warmup"]
    return found


def _replay(folder: "RunFolder", words: Sequence[str], until: int | None, own: Sequence[str]) -> list[Any]:
    from marvel.config import Config
    from marvel.methods import METHODS
    from marvel.tune import replay_folder
    from marvel.tune.space import Span, read_space

    space = read_space(words, Config(method="marvel"))
    wrong = [name for name, values in space.items() if name not in ("wait", "warmup") or isinstance(values, Span)]
    if wrong:
        raise InvalidInput(f"waits and warm-ups can be replayed, and lists of them only, got {wrong[0]}: wait=2..20")
    values = {
        name: [_epochs(name, value) for value in found] for name, found in space.items() if not isinstance(found, Span)
    }
    if until is not None and until < 1:
        raise InvalidInput(f"--until is a number of epochs, at least 1, got {until}")
    told = own_values(own, METHODS["marvel"])
    if set(told) - {"--warmup"}:
        raise InvalidInput(f"with RUN only --warmup can be told, got {', '.join(sorted(set(told) - {'--warmup'}))}")
    if "--warmup" in told:
        values.setdefault("warmup", [_epochs("warmup", told["--warmup"])])
    return replay_folder(folder, values.get("wait", list(range(2, 21))), values.get("warmup"), until)


def _epochs(name: str, value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidInput(f"{name} is a number of epochs here, got {value!r}") from None


def _show_replay(rows: Sequence["Facts"]) -> None:
    known = any(row["label_precision"] is not None for row in rows)
    headings = ["warm-up", "wait", "first removal", "removed then"]
    headings += ["label precision", "label recall"] if known else []
    headings += ["removed by the end"] + (["label precision", "label recall"] if known else [])
    shown = []
    for row in rows:
        first = ["–"] if row["first"] is None else [f"epoch {row['first']}"]
        line = [str(row["warmup"]), str(row["wait"]), *first, str(row["removed_first"])]
        line += [percent(row["label_precision_first"]), percent(row["label_recall_first"])] if known else []
        line += [str(row["removed"])]
        line += [percent(row["label_precision"]), percent(row["label_recall"])] if known else []
        shown.append(line)
    print_table(headings, shown)
    typer.echo(
        "The first removal is what MARVEL would have done; after it, a run with removals would have gone its own way."
    )
