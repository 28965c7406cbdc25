"""Many runs: leave out what is done, do the rest, and write down what they came to.

Results are lines of JSON, one record a run. A run is known by its settings (`marvel.results`), so what was interrupted
goes on, and what another experiment has done is not done again.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from marvel.config import Config
from marvel.data import DATASETS
from marvel.data.images import Watch
from marvel.engines import Engine, Job, Loaded, Shown, read_once, side_by_side
from marvel.errors import DataError, MarvelError
from marvel.results import add, forget_failure, identity, note_failure, records, runs_of, what
from marvel.run import hold_out
from marvel.runs import Facts, RunFolder
from marvel.trainer import Epoch

__all__ = ["add", "bench", "folder_of", "left", "on_own_data", "records", "refuse_changed", "tidy", "what", "work"]


def bench(
    configs: Iterable[Config],
    results: str | Path,
    width: int = 8,
    watch: Callable[[Config, Epoch], None] | None = None,
) -> list[tuple[Config, Exception]]:
    """Do the runs that `results` lacks, `width` at a time, and add their records to it; returns what failed."""
    failed: list[tuple[Config, Exception]] = []
    for config, shown in work(configs, results, side_by_side(width)):
        if isinstance(shown, Exception):
            failed.append((config, shown))
        elif isinstance(shown, Epoch) and watch is not None:
            watch(config, shown)
    return failed


def work(
    configs: Iterable[Config],
    results: str | Path | Callable[[Config], Path],
    engine: Engine,
    *,
    runs: str | Path | None = None,
    until: float | None = None,
    modules: Sequence[Path] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Config, Shown]]:
    """Do the runs that `results` lacks, and yield what each shows: its epochs, and its record or what it raised,
    or that another process does it.

    With a folder `runs`, each has its run folder in it, and goes on there after an interruption; its checkpoints and
    its network are removed when it is done. At `until` (as `time.time()` counts), or when `stop()` says so, nothing
    new is begun, and what is going on ends with its epoch, saved. Records are added to `results`, one file for all or
    a function that says which, failures to the file beside it.
    `modules` are files that other processes must load first, because they add to `METHODS`, say.
    """
    configs = list(configs)
    file_of = results if callable(results) else lambda _: Path(results)
    files = dict.fromkeys(map(file_of, configs))
    done = {run: record for file in files for run, record in runs_of(file).items()}
    refuse_changed(on_own_data(configs, done))
    todo = left(configs, done)
    jobs = [Job(config, folder_of(config, runs), until, tuple(modules), file_of(config)) for config in todo]
    for which, shown in engine(jobs, stop):
        file = file_of(todo[which])
        if isinstance(shown, Exception):
            note_failure(file, todo[which], shown)
        elif isinstance(shown, dict):
            add(file, shown)
            forget_failure(file, todo[which])
            if (folder := jobs[which].folder) is not None:
                RunFolder(folder).drop_tensors()
        yield todo[which], shown


def tidy(configs: Iterable[Config], done: Iterable[str], runs: str | Path) -> None:
    """Remove the checkpoints of runs that are done, which a kill between their record and this may have left."""
    done = set(done)
    for config in configs:
        folder = folder_of(config, runs)
        if folder is not None and identity(config) in done:
            RunFolder(folder).drop_tensors()


def left(configs: Iterable[Config], done: Iterable[str]) -> list[Config]:
    """The runs still to do, each once."""
    done = set(done)
    return [config for key, config in {identity(config): config for config in configs}.items() if key not in done]


def on_own_data(configs: Iterable[Config], done: Mapping[str, Facts]) -> list[tuple[Config, str]]:
    """The runs that are done on data of one's own, each with the fingerprint that the data had."""
    found = ((config, done.get(identity(config), {})) for config in configs if config.data not in DATASETS)
    known = ((config, record.get("data", {}).get("fingerprint")) for config, record in found)
    return [(config, fingerprint) for config, fingerprint in known if fingerprint is not None]


def refuse_changed(measured: Iterable[tuple[Config, str]], watch: Watch | None = None) -> None:
    """Files may change under a name. What was measured on them before is then neither done nor to be mixed with what
    is measured now. The data is read for it, which is what training on it begins with."""
    loaded: Loaded = {}
    changed: Counter[str] = Counter()
    for config, fingerprint in measured:
        try:
            data = read_once(config, loaded, watch)
        except (MarvelError, OSError):  # nothing to compare with; a run that is left says it by itself
            continue
        data = hold_out(config, data)[0] if config.hold_out else data
        changed[config.data] += data.fingerprint() != fingerprint
    for name, runs in changed.items():
        if runs:
            raise DataError(
                f"{name} has changed since {runs} of its runs were done: bring it back as it was, give it another "
                "name, or name other places for its records and runs (--results NEW/NAME.jsonl --runs NEW)"
            )


def folder_of(config: Config, runs: str | Path | None) -> Path | None:
    """runs/cifar10-symmetric-0.4-marvel-s0-1f8a2c: readable, and another for every run."""
    if runs is None:
        return None
    data = Path(config.data).stem if Path(config.data).suffix or "/" in config.data else config.data
    rate = "-".join(f"{rate:g}" for rate in config.rates or (config.rate,))
    key = hashlib.sha256(identity(config).encode()).hexdigest()[:6]
    return Path(runs) / f"{data}-{config.noise}-{rate}-{config.method}-s{config.seed}-{key}"
