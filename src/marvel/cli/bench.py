"""`marvel bench`"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from marvel.cli.board import Board
from marvel.cli.flags import flag_values, with_some_settings
from marvel.cli.process import refuse_torchrun
from marvel.cli.progress import Progress
from marvel.cli.show import AsJson, percent, print_json, print_table
from marvel.errors import InvalidInput, UnknownName, amount
from marvel.stopping import gently

if TYPE_CHECKING:
    from marvel.config import Config
    from marvel.engines import Engine, Shown
    from marvel.experiment import Cell, Experiment
    from marvel.runs import Facts

    Places: TypeAlias = dict[str, tuple[Experiment, Cell]]
    """By run, whatever its seed."""

FAILED, LEFT, INTERRUPTED = 1, 3, 130
"""Exit codes: some runs failed; time was over before all were done, or others are at them; Ctrl-C."""
WIDTH = 8
"""How many runs fill a GPU."""
BETWEEN_CHECKPOINTS = 120.0
"""Seconds, about."""


@with_some_settings("root", "device", "threads", "precision", "compile", "workers", "checkpoint_every_steps")
def bench(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPERIMENT", help="Names (--list), or .py or .toml files.", show_default=False),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Some of its runs: data=cifar10,method=marvel,ce; given twice, both.", metavar="KEY=VALUE,..."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Other seeds than the experiment's: 0,1,2 or 0-9.", metavar="N,...")
    ] = None,
    shard: Annotated[
        str | None, typer.Option(help="The share of one machine of several: 1/4 to 4/4.", metavar="I/K")
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Stop then: nothing new is begun, and what is going on is saved.", metavar="X"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and what it may cost.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    results: Annotated[
        Path | None, typer.Option(help="The file of records; default: results/EXPERIMENT.jsonl.", metavar="FILE")
    ] = None,
    runs: Annotated[
        Path, typer.Option(help="Where run folders are, from which an interrupted run goes on.", metavar="FOLDER")
    ] = Path("runs/bench"),
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Epochs between checkpoints; default: about two minutes.", metavar="N")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Runs side by side on the device; default on a GPU: 8.", metavar="N")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Runs in processes of their own; default on a CPU: one a core.", metavar="N")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local, or ray: the cluster RAY_ADDRESS names.", metavar="NAME")
    ] = "local",
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what went wrong.")] = False,
    **given: Any,
) -> None:
    """Do the runs of experiments that are not done yet.

    A record of each is added to the results; what any file beside it has already is left out. Several experiments are
    worked at together, and what they share is done once. Interrupted, the same command goes on. A run that fails stops
    no other; it is noted in results/EXPERIMENT.failed.jsonl and tried again next time. A run that another process is at
    is left to it. Exit code: 0 all done, 1 some failed, 3 time was over or some go on elsewhere, 130 interrupted.

    \b
    marvel bench --list
    marvel bench cifar-symmetric --only data=cifar10,method=ce,marvel --seeds 0 --dry-run
    marvel bench wait --max-seconds 3600
    marvel bench mine.toml                 # a grid of your own: docs/experiments.md
    """
    refuse_torchrun("bench")
    if as_list:
        _list(as_json)
        return
    if not experiments:
        raise InvalidInput(
            "which experiment? `marvel bench --list` says what there is; a .py or .toml file will do too"
        )
    if max_seconds is not None and max_seconds <= 0:
        raise InvalidInput(f"max-seconds must be positive, got {max_seconds:g}")
    from marvel.bench import left, on_own_data, refuse_changed, tidy, work
    from marvel.experiment import asked
    from marvel.experiment.finding import find

    found = [asked.only(find(name), only or ()) for name in dict.fromkeys(experiments)]
    wanted = None if seeds is None else asked.numbers(seeds)
    configs = sorted(left((run for one in found for run in one.runs(wanted)), ()), key=lambda run: run.seed)
    configs = configs if shard is None else asked.shard(configs, shard)
    places = _places(found)
    file_of = _files(places, results)
    files = list(dict.fromkeys(map(file_of, configs)))
    told = _as_told(configs, flag_values(given), checkpoint_every)
    done = _done(files)
    todo = _longest_first(left(told, done))
    names = _names(places, todo, len(found) > 1)
    if dry_run:
        _say_what_would_be_run(found, names, len(configs), todo, as_json)
        return
    if measured := on_own_data(told, done):
        with Progress(quiet or as_json) as progress:
            refuse_changed(measured, progress.work)
    tidy(told, done, runs)
    began = time.monotonic()
    with gently(_waiting(todo)) as stop, Board(names, _costs(todo), quiet or as_json) as board:
        _follow(
            work(
                todo,
                file_of,
                _engine(engine, width, processes, todo),
                runs=runs,
                until=None if max_seconds is None else time.time() + max_seconds,
                modules=[one.file for one in found if one.file is not None and one.file.suffix == ".py"],
                stop=stop,
            ),
            board,
        )
    if board.going_elsewhere:
        board.finished_elsewhere(_done(files))
    unfinished = len(todo) - len(board.ended)
    if as_json:
        numbers: dict[str, float] = {
            "runs": len(configs),
            "done_before": len(configs) - len(todo),
            "done": len(board.done),
        }
        failed = {board.names[run]: why for run, why in board.failed.items()}
        numbers |= {"going_elsewhere": len(board.going_elsewhere), "done_elsewhere": len(board.done_elsewhere)}
        numbers |= {"left": unfinished, "seconds": round(time.monotonic() - began, 1)}
        print_json({**_called(found), **numbers, "failed": failed, "results": ", ".join(map(str, files))})
    else:
        if not quiet:
            typer.echo(_in_all(len(configs), len(configs) - len(todo), board, unfinished, files))
        for why, runs_failed in _by_reason(board).items():
            print(f"marvel: {why} ({runs_failed})", file=sys.stderr)
    if stop() or board.failed or unfinished or board.going_elsewhere:
        raise typer.Exit(INTERRUPTED if stop() else FAILED if board.failed else LEFT)


def _places(experiments: "Sequence[Experiment]") -> "Places":
    """The first experiment that asks for a run, and the cell that is its place there."""
    from marvel.results import identity, whatever_seed

    places: Places = {}
    for experiment in experiments:
        for cell in experiment.cells:
            places.setdefault(whatever_seed(identity(cell.config)), (experiment, cell))
    return places


def _files(places: "Places", results: Path | None) -> "Callable[[Config], Path]":
    """Where the record of a run goes: as told, or to the file of the experiment that asks for it."""
    from marvel.results import identity, whatever_seed

    if results is not None and results.suffix != ".jsonl":
        raise InvalidInput(f"the file of records should be named *.jsonl, got {results}")
    return lambda config: results or Path("results") / f"{places[whatever_seed(identity(config))][0].name}.jsonl"


def _done(files: "Sequence[Path]") -> "dict[str, Facts]":
    """The records of the folders in which these files are, by run."""
    from marvel.results import by_run

    return {run: record for folder in {file.parent for file in files} for run, record in by_run(folder).items()}


def _as_told(configs: "Sequence[Config]", flags: dict[str, Any], checkpoint_every: int | None) -> "list[Config]":
    """The runs, computed as the flags say."""
    from marvel.config import config_from

    told = config_from(flags)
    changes = {name: getattr(told, name) for name in (key.lstrip("-").replace("-", "_") for key in flags)}
    every = _rhythm if checkpoint_every is None else lambda config: checkpoint_every
    return [config.but(**changes, checkpoint_every=every(config)) for config in configs]


def _longest_first(configs: "Sequence[Config]") -> "list[Config]":
    """Within a seed: short runs fill up the end, where a long one would be alone on the device."""
    from marvel.cost import seconds

    return sorted(configs, key=lambda config: (config.seed, -(seconds(config) or 0)))


def _rhythm(config: "Config") -> int:
    """Epochs between checkpoints. A run that is stopped is saved, so they are for those that are killed; and writing
    those of large networks holds up all that share the device."""
    from marvel.cost import seconds
    from marvel.presets import PRESETS

    cost, preset = seconds(config), PRESETS.get(config.data)
    epochs = config.epochs or (preset.epochs if preset else None)
    if cost is None or epochs is None:
        return 10
    return min(epochs, max(1, round(BETWEEN_CHECKPOINTS * epochs / (cost * WIDTH))))


def _engine(name: str, width: int | None, processes: int | None, todo: "Sequence[Config]") -> "Engine":
    """Side by side on a GPU, in processes on a CPU, or as asked."""
    from marvel.distributed import device_for
    from marvel.engines import in_processes, on_ray, side_by_side

    if name not in ("local", "ray"):
        raise UnknownName("engine", name, ("local", "ray"))
    if processes is not None and (width is not None or name == "ray"):
        raise InvalidInput("--processes goes neither with --width nor with --engine ray: leave out one of them")
    if name == "ray":
        return on_ray(width or WIDTH)
    on_gpu = bool(todo) and device_for(todo[0].device).startswith("cuda")
    if processes is None and (width is not None or on_gpu):
        return side_by_side(WIDTH if width is None else width)
    return in_processes(processes if processes is not None else max(1, min(len(todo), os.cpu_count() or 1)))


def _waiting(todo: "Sequence[Config]") -> str:
    """What is said to Ctrl-C."""
    what = "steps" if all(config.checkpoint_every_steps for config in todo) else "epochs"
    return f"stopping when the {what} going on are done"


def _follow(working: "Iterator[tuple[Config, Shown]]", board: Board) -> None:
    """Do the work, and show it."""
    from marvel.engines import Elsewhere
    from marvel.results import identity
    from marvel.trainer import Epoch

    for config, shown in working:
        run = identity(config)
        if isinstance(shown, Epoch):
            board.epoch(run, shown)
        elif isinstance(shown, Exception):
            board.fail(run, str(shown) or repr(shown))
        elif isinstance(shown, Elsewhere):
            board.leave(run, shown.done)
        else:
            accuracy = shown["final"]["test_accuracy"]
            judged = "" if accuracy is None else f"test {percent(accuracy)}, "
            board.end(run, f"{judged}{shown['seconds']:.0f} s")


# ------------------------------------------------------------ what is said


def _names(places: "Places", todo: "Sequence[Config]", several: bool) -> dict[str, str]:
    """What to call each run: its place in the table, and its seed; the table too, where there are several."""
    from marvel.results import identity, whatever_seed

    names = {}
    for config in todo:
        run = identity(config)
        experiment, cell = places[whatever_seed(run)]
        place = ", ".join(filter(None, (cell.group, cell.column, cell.row, f"seed {config.seed}")))
        names[run] = f"{experiment.name}: {place}" if several else place
    return names


def _costs(todo: "Sequence[Config]") -> dict[str, float]:
    from marvel.cost import seconds
    from marvel.results import identity

    return {identity(config): cost for config in todo if (cost := seconds(config)) is not None}


def _list(as_json: bool) -> None:
    from marvel.cost import seconds
    from marvel.experiment.finding import available, load
    from marvel.report.progress import duration

    rows, facts = [], {}
    for name, path in available().items():
        found = load(path)
        runs = found.runs()
        cost = sum(seconds(config) or 0 for config in runs)
        rows.append([name, found.title, str(len(runs)), duration(cost)])
        facts[name] = {"title": found.title, "file": str(path), "cells": len(found.cells), "seeds": list(found.seeds)}
        facts[name] |= {"seconds": round(cost)}
    if as_json:
        print_json(facts)
    else:
        print_table(["experiment", "what it shows", "runs", "cost (H200)"], rows)


def _called(experiments: "Sequence[Experiment]") -> dict[str, str]:
    return {"experiment": ", ".join(experiment.name for experiment in experiments)}


def _say_what_would_be_run(
    experiments: "Sequence[Experiment]", names: dict[str, str], asked: int, todo: "Sequence[Config]", as_json: bool
) -> None:
    from marvel.config import as_plain
    from marvel.report.progress import duration

    costs = _costs(todo)
    whole = sum(costs.values())
    unknown = len(todo) - len(costs)
    if as_json:
        runs = [
            {"name": name, "seconds": costs.get(run), "settings": as_plain(config.facts())}
            for (run, name), config in zip(names.items(), todo, strict=True)
        ]
        print_json({**_called(experiments), "runs": asked, "done": asked - len(todo), "left": runs})
        return
    rows = [[name, duration(costs[run]) if run in costs else "–"] for run, name in names.items()]
    if rows:
        print_table(["run", "cost (H200)"], rows)
    said = f"{len(todo)} of {amount(asked, 'run is', 'runs are')} to be done"
    said += f", about {duration(whole)} of one H200 when packed" if whole else ""
    typer.echo(said + (f"; nothing is known of the cost of {unknown}." if unknown else "."))


def _by_reason(board: Board) -> dict[str, str]:
    """What went wrong, and with which runs."""
    reasons: dict[str, list[str]] = {}
    for run, why in board.failed.items():
        reasons.setdefault(" ".join(why.split()), []).append(board.names[run])
    return {
        why: names[0] if len(names) == 1 else f"{len(names)} runs, the first: {names[0]}"
        for why, names in reasons.items()
    }


def _in_all(asked: int, before: int, board: Board, unfinished: int, files: Sequence[Path]) -> str:
    from marvel.results import beside as failures_beside

    said = f"{amount(len(board.done), 'run')} done" + (f", {len(board.failed)} failed" if board.failed else "")
    said += f", {len(board.done_elsewhere)} done elsewhere" if board.done_elsewhere else ""
    said += f", {len(board.going_elsewhere)} going on elsewhere" if board.going_elsewhere else ""
    said += f", {unfinished} left: the same command goes on" if unfinished else ""
    said += f"; {before} of {asked} were done before" if before else ""
    told = [("records", [file for file in files if file.exists()])]
    told.append(("reasons", [file for file in map(failures_beside, files) if board.failed and file.exists()]))
    return " ".join(
        [f"{said}.", *(f"The {what} are in {' and '.join(map(str, where))}." for what, where in told if where)]
    )
