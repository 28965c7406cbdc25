"""Where runs are done: side by side on one device, in processes of their own, or on a Ray cluster.

An engine takes jobs and yields (which job, what it showed): its epochs, and at last its record or what it raised. A job
that is stopped ends without either; its run folder goes on from there.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias

from marvel import data as datasets
from marvel.config import Config, as_plain
from marvel.data.core import Data
from marvel.errors import InvalidInput, MissingExtra
from marvel.fast import pack
from marvel.run import Run
from marvel.runs import Facts
from marvel.trainer import Epoch

Shown: TypeAlias = Epoch | Facts | Exception
Engine: TypeAlias = "Callable[[Sequence[Job], Callable[[], bool]], Iterator[tuple[int, Shown]]]"
"""(jobs, whether to stop) -> what they show."""


@dataclass(frozen=True)
class Job:
    """One run to do: its settings, its folder where it can be resumed, and when to stop (as `time.time()` counts)."""

    config: Config
    folder: Path | None = None
    until: float | None = None
    checkpoint_every: int | None = None


@dataclass(frozen=True)
class Failure:
    """What a run raised elsewhere. Exceptions with constructors of their own do not travel; what they say does."""

    kind: str
    said: str


class RunFailed(RuntimeError):
    """A run failed in another process; `kind` is what it raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.said)
        self.kind = failure.kind


def steps(job: Job, stop: Callable[[], bool], data: Data | None = None) -> Iterator[Epoch | Facts | None]:
    """One run, a step at a time, and at last its record. To stop it waits for the end of an epoch, and is saved."""
    if _over(job, stop):
        return
    config = job.config if job.checkpoint_every is None else job.config.but(checkpoint_every=job.checkpoint_every)
    run = Run(config, job.folder, resume=True, data=data)
    for shown in run.steps():
        yield shown
        if shown is not None and _over(job, stop) and (shown.stage, shown.epoch) != (run.trainer.name, shown.epochs):
            if shown.stage == run.trainer.name:
                run.trainer.save(run.method)
            return
    assert run.record is not None
    yield {"asked": as_plain(job.config.facts()), **run.record}


def _over(job: Job, stop: Callable[[], bool]) -> bool:
    return stop() or (job.until is not None and time.time() > job.until)


# ------------------------------------------------------------ in this process


def side_by_side(width: int) -> Engine:
    """All on one device, `width` at a time, a step each in turn; the data is read once."""
    if width < 1:
        raise InvalidInput(f"width must be at least 1, got {width}")

    def engine(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[tuple[int, Shown]]:
        loaded: dict[tuple[str, str | None, int | None], Data] = {}

        def going(job: Job) -> Iterator[Any]:
            at = job.config.data, job.config.root, job.config.size
            if at not in loaded and not _over(job, stop):
                loaded[at] = datasets.load(*at)
            yield from steps(job, stop, loaded.get(at))

        for which, shown in pack((going(job) for job in jobs), width):
            if shown is not None:
                yield which, shown

    return engine


# ------------------------------------------------------------ in processes of their own


def in_processes(count: int) -> Engine:
    """A process for each run, `count` at a time. One that is killed fails alone."""
    if count < 1:
        raise InvalidInput(f"processes must be at least 1, got {count}")

    def engine(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[tuple[int, Shown]]:
        # Not forked: torch's threads do not survive it.
        context = multiprocessing.get_context("spawn")
        told_to_stop = context.Event()
        working: dict[Connection, tuple[int, Any]] = {}
        rest = list(enumerate(jobs))
        try:
            while rest or working:
                if stop():
                    told_to_stop.set()
                    rest.clear()
                while rest and len(working) < count:
                    which, job = rest.pop(0)
                    if not _over(job, stop):
                        here, there = context.Pipe(duplex=False)
                        process = context.Process(target=_work, args=(job, there, told_to_stop), daemon=True)
                        process.start()
                        there.close()
                        working[here] = which, process
                for ready in wait(list(working), timeout=0.2):
                    assert isinstance(ready, Connection)
                    which, process = working[ready]
                    try:
                        shown = ready.recv()
                    except EOFError:
                        del working[ready]
                        ready.close()
                        process.join()
                        if process.exitcode:
                            yield which, RunFailed(Failure("Died", _last_words(process.exitcode)))
                    else:
                        yield which, RunFailed(shown) if isinstance(shown, Failure) else shown
        finally:
            for _, process in working.values():
                process.terminate()
            for connection, (_, process) in working.items():
                process.join()
                connection.close()

    return engine


def _work(job: Job, told: Any, told_to_stop: Any) -> None:
    """The whole of a process: what the run shows is sent on."""
    # Ctrl-C reaches every process of a terminal; the first one decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for shown in steps(job, told_to_stop.is_set):
            if shown is not None:
                told.send(shown)
    except Exception as error:
        told.send(Failure(type(error).__name__, str(error) or repr(error)))
    finally:
        told.close()


def _last_words(code: int) -> str:
    why = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return f"the process of the run {why}" + ("; is there enough memory?" if code == -signal.SIGKILL else "")


# ------------------------------------------------------------ on a Ray cluster


def on_ray(width: int) -> Engine:
    """On the cluster that RAY_ADDRESS names, or one that Ray starts here: `width` runs a GPU, or one a core.

    Every machine needs Marvel and the data; run folders are found again where they share a disk. Records come back
    here. Epochs are not shown.
    """
    if width < 1:
        raise InvalidInput(f"width must be at least 1, got {width}")
    try:
        import ray
    except ImportError:
        raise MissingExtra("--engine ray", "ray", "ray") from None

    def engine(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[tuple[int, Shown]]:
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        share = {"num_gpus": 1 / width} if has_gpus else {"num_cpus": 1}
        remote = ray.remote(max_retries=0, **share)(_whole)
        going = {remote.remote(_from_anywhere(job)): which for which, job in enumerate(jobs)}
        try:
            while going and not stop():
                ready, _ = ray.wait(list(going), num_returns=1, timeout=1.0)
                for reference in ready:
                    which = going.pop(reference)
                    try:
                        shown = ray.get(reference)
                    except Exception as error:  # Ray's own: the run's are told as failures
                        yield which, error
                        continue
                    if shown is not None:
                        yield which, RunFailed(shown) if isinstance(shown, Failure) else shown
        finally:
            for reference in going:
                ray.cancel(reference, force=True)

    return engine


def _from_anywhere(job: Job) -> Job:
    """A worker of Ray's is in a folder of its own."""
    return job if job.folder is None else replace(job, folder=job.folder.resolve())


def _whole(job: Job) -> Facts | Failure | None:
    """A run from beginning to end, on whatever machine this is; None where it was stopped."""
    record = None
    try:
        for shown in steps(job, lambda: False):
            record = shown if isinstance(shown, dict) else None
    except Exception as error:
        return Failure(type(error).__name__, str(error) or repr(error))
    return record
