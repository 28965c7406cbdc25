"""`marvel train`"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marvel.cli.flags import as_text, flag_values, own_values, said_what, with_settings
from marvel.cli.process import process
from marvel.cli.show import AsJson, percent, print_json, print_source, print_table, words

if TYPE_CHECKING:
    from marvel.config import Config
    from marvel.trainer import Epoch


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
    track: Annotated[
        list[str] | None,
        typer.Option(help="Show the epochs in tensorboard, or wandb (offline), as well.", metavar="NAME"),
    ] = None,
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
    from marvel.cli.progress import Progress

    flags = flag_values({**given, "config": as_text(config), "out": as_text(out)})
    with Progress(quiet or process() > 0) as progress:
        from marvel.distributed import together

        with together(str(flags.get("--device", "auto"))):
            settings, folder = _settings(flags, context.args, resume)

            from marvel.run import read
            from marvel.run import train as run_training

            data = read(settings, progress.work)
            if not quiet and process() <= 0:
                print_source(data)
            show = progress.of(settings.method)
            with _tracked(track or [], folder, settings) as log:

                def watch(epoch: "Epoch") -> None:
                    show(epoch)
                    log(epoch)

                run = run_training(settings, folder, resume, watch, data)
    if process() > 0:
        return
    assert run.record is not None
    if as_json:
        print_json({"folder": str(folder), **{key: run.record[key] for key in ("final", "chosen", "seconds")}})
    elif not quiet:
        print_table(["", ""], _final_rows(run.record["final"]))
        if run.record["chosen"]:
            chosen = ", ".join(f"{words(key)} {value}" for key, value in run.record["chosen"].items())
            typer.echo(f"{settings.method} ran with {chosen}.")
        typer.echo(f"The run is in {folder} ({run.record['seconds']:.0f} s).")


@contextmanager
def _tracked(names: Sequence[str], folder: Path, settings: "Config") -> "Iterator[Callable[[Epoch], None]]":
    """What shows the epochs elsewhere; closed in the end. Only the first process does so."""
    if not names or process() > 0:
        yield lambda epoch: None
        return
    from marvel.integrations.tracking import tracker, watching

    with ExitStack() as stack:
        trackers = [tracker(name, folder, settings.facts()) for name in names]
        for each in trackers:
            stack.callback(each.close)
        yield watching(*trackers)


def _of_own_loop(config: dict[str, Any]) -> bool:
    data = config.get("data")
    origin = data.get("origin") if isinstance(data, dict) else None
    return isinstance(origin, dict) and origin.get("kind") == "kept"


def _settings(flags: dict[str, Any], words: Sequence[str], resume: bool) -> "tuple[Config, Path]":
    """The settings, from the run that goes on, then the file, then the flags; and the folder."""
    from marvel.config import Config, config_from, read_config
    from marvel.distributed import ask_first
    from marvel.errors import FolderError, pick
    from marvel.methods import METHODS
    from marvel.run import settings_of
    from marvel.runs import RunFolder

    file, out = flags.pop("--config", None), flags.pop("--out", None)
    layers: list[dict[str, Any]] = []
    if resume and out is not None and (before := ask_first(lambda: RunFolder(out).config)) is not None:
        if _of_own_loop(before):
            raise FolderError(f"{out} is of a loop of your own (save_run), and has nothing to go on with")
        layers.append(settings_of(before))
    if file is not None:
        layers.append(read_config(file))
    named = {"method": Config.method}
    for layer in layers:
        named |= {"method": layer.get("method", named["method"])}
    kind = pick("method", str(flags.get("--method", named["method"])), METHODS)
    settings = config_from(*layers, flags, own_values(words, kind))
    folder = Path(out) if out is not None else default_folder(settings)
    if resume and file is None and not said_what(flags, words) and ask_first(lambda: RunFolder(folder).config) is None:
        raise FolderError(f"there is no run in {folder} to go on with: name its folder, or leave out --resume")
    return settings, folder


def default_folder(config: "Config") -> Path:
    """runs/digits-symmetric-0.4-marvel-s0"""
    path = Path(config.data).resolve()
    data = path.stem if path.suffix in (".npz", ".npy", ".csv", ".tsv", ".parquet", ".pq") else path.name
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
    rows = [[words(key), percent(final[key])] for key in shares if final.get(key) is not None]
    return [*rows, ["removed", str(final["removed"])]]
