"""Where runs are done: side by side on one device, in processes of their own, or on a Ray cluster.

An engine takes jobs and yields (which job, what it showed): its epochs, and at last its record, what it raised, or that
another process does it. A job that is stopped ends without any; its run folder goes on from there.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeAlias

from marvel.config import GROUPS, Config, as_plain
from marvel.data.core import Data
from marvel.data.images import Watch
from marvel.errors import FolderInUse, Interrupted, InvalidInput, MissingExtra
from marvel.experiment.finding import load
from marvel.fast import pack
from marvel.results import identity, runs_of
from marvel.run import Run, read
from marvel.runs import Facts, RunFolder
from marvel.trainer import Epoch


@dataclass(frozen=True)
class Elsewhere:
    """Another process is at the run; or it has `done` it, since this one made its list."""

    done: bool


Shown: TypeAlias = Epoch | Facts | Elsewhere | Exception
Engine: TypeAlias = "Callable[[Sequence[Job], Callable[[], bool]], Iterator[tuple[int, Shown]]]"
"""(jobs, whether to stop) -> what they show."""
Loaded: TypeAlias = dict[tuple[Any, ...], Data]
"""What was read, by the settings that say what and how."""


@dataclass(frozen=True)
class Job:
    """One run to do: its settings, its folder where it can be resumed, and when to stop (as `time.time()` counts)."""

    config: Config
    folder: Path | None = None
    until: float | None = None
    modules: tuple[Path, ...] = ()
    """Files to load first in another process."""
    results: Path | None = None
    """Where its record goes, this process's or another's."""


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


def steps(
    job: Job, stop: Callable[[], bool], data: Callable[[], Data | None]
) -> Iterator[Epoch | Facts | Elsewhere | None]:
    """One run, a step at a time, and at last its record. To stop it waits for the end of an epoch, and is saved; where
    there are checkpoints in mid-epoch, for the end of the step.

    The folder is kept until this is asked to go on after the record, or dropped: whoever asks has written it down by
    then, and nobody takes the run up in between.
    """
    if _over(job, stop):
        return
    try:
        run = Run(job.config, job.folder, resume=True, data=data())
    except FolderInUse:
        yield Elsewhere(done=False)
        return
    if _recorded(job):  # the folder is ours now, so that nobody is about to do it
        yield Elsewhere(done=True)
        return
    run.trainer.stop = partial(_over, job, stop)
    held = run.held  # which the run lets go of as it ends
    try:
        with suppress(Interrupted):
            for shown in run.steps():
                yield shown
                last = shown is not None and (shown.stage, shown.epoch) == (run.trainer.name, shown.epochs)
                if shown is not None and not last and _over(job, stop):
                    if shown.stage == run.trainer.name:
                        run.trainer.save(run.method)
                    return
        if run.record is not None:
            yield {"asked": as_plain(job.config.facts()), **run.record}
    finally:
        del held


def read_once(config: Config, loaded: Loaded, watch: Watch | None = None) -> Data:
    """Read once for all runs of a process that are told the same about it."""
    told = tuple(getattr(config, name) for name in GROUPS["Data"])
    if told not in loaded:
        loaded[told] = read(config, watch)
    return loaded[told]


def _recorded(job: Job) -> bool:
    """Whether another process has done the run. Only where the folder has a record is it worth reading all others."""
    if job.results is None or job.folder is None or RunFolder(job.folder).record is None:
        return False
    return identity(job.config) in runs_of(job.results)


def _over(job: Job, stop: Callable[[], bool]) -> bool:
    return stop() or (job.until is not None and time.time() > job.until)


# ------------------------------------------------------------ in this process


def side_by_side(width: int) -> Engine:
    """All on one device, `width` at a time, a step each in turn; the data is read once."""
    if width < 1:
        raise InvalidInput(f"width must be at least 1, got {width}")

    def engine(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[tuple[int, Shown]]:
        loaded: Loaded = {}
        going = (steps(job, stop, partial(read_once, job.config, loaded)) for job in jobs)
        for which, shown in pack(going, width):
            if shown is not None:
                yield which, shown

    return engine


# ------------------------------------------------------------ in processes of their own


def in_processes(count: int) -> Engine:
    """In `count` processes, each of which does one run after another. One that is killed costs the run it was at."""
    if count < 1:
        raise InvalidInput(f"processes must be at least 1, got {count}")

    def engine(jobs: Sequence[Job], stop: Callable[[], bool]) -> Iterator[tuple[int, Shown]]:
        # Not forked: torch's threads do not survive it.
        context = multiprocessing.get_context("spawn")
        told_to_stop = context.Event()
        rest = list(enumerate(jobs))
        workers: list[Worker] = []
        try:
            while True:
                if stop():
                    told_to_stop.set()
                while rest and _over(rest[0][1], stop):
                    rest.pop(0)
                while rest and (idle := _idle(workers, count, context, told_to_stop)) is not None:
                    idle.give(*rest.pop(0))
                busy = {worker.connection: worker for worker in workers if worker.job is not None}
                if not busy:
                    return
                for ready in wait(list(busy), timeout=0.2):
                    worker = busy[ready]
                    which = worker.job
                    assert which is not None
                    shown = worker.hear()
                    if shown is not None:
                        yield which, shown
                    if worker.job is None:
                        worker.let_go()
                        if not worker.process.is_alive():
                            workers.remove(worker)
        finally:
            for worker in workers:
                worker.end()

    return engine


def _idle(workers: list["Worker"], count: int, context: Any, told_to_stop: Any) -> "Worker | None":
    """One that has nothing to do, or a new one where there are fewer than `count`."""
    for worker in workers:
        if worker.job is None:
            return worker
    if len(workers) < count:
        workers.append(Worker(context, told_to_stop))
        return workers[-1]
    return None


class Worker:
    """A process that does jobs, seen from here; `job` is which one it is at."""

    def __init__(self, context: Any, told_to_stop: Any) -> None:
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_work, args=(there, told_to_stop), daemon=True)
        self.process.start()
        there.close()
        self.job: int | None = None

    def give(self, which: int, job: Job) -> None:
        self.job = which
        with suppress(OSError):  # it has died since: heard of next
            self.connection.send(job)

    def hear(self) -> Shown | None:
        """What it has to say: of a run that has ended without a record, nothing."""
        try:
            shown = self.connection.recv()
        except (EOFError, OSError):
            self.job = None
            self.process.join()
            return RunFailed(Failure("Died", _last_words(self.process.exitcode or 0)))
        if not isinstance(shown, Epoch):
            self.job = None
        return RunFailed(shown) if isinstance(shown, Failure) else shown

    def let_go(self) -> None:
        """Of the folder: what was heard last is written down."""
        with suppress(OSError):
            self.connection.send(None)

    def end(self) -> None:
        """At once; what it was at is as its last checkpoint has it."""
        self.process.terminate()
        self.process.join()
        self.connection.close()


def _work(connection: Any, told_to_stop: Any) -> None:
    """The whole of such a process: jobs come in; epochs go out, and of each job at last how it ended, or None. Then
    None comes in, when that has been written down."""
    # Ctrl-C reaches every process of a terminal; the first one decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    loaded: Loaded = {}
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        end = going = None  # what went on before lets go of its folder
        if job is None:
            continue
        try:
            _prepare(job)
            going = steps(job, told_to_stop.is_set, partial(read_once, job.config, loaded))
            for shown in going:
                if isinstance(shown, Epoch):
                    connection.send(shown)
                elif shown is not None:
                    end = shown
                    break
            connection.send(end)
        except Exception as error:
            connection.send(Failure(type(error).__name__, str(error) or repr(error)))


def _end_with_the_first() -> None:
    """At once, also in the middle of an epoch: the same command, started again, goes on in the same folders."""
    first = multiprocessing.parent_process()
    if first is not None:
        first.join()
        os._exit(1)


def _prepare(job: Job) -> None:
    for module in job.modules:
        load(module)


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
    modules = tuple(module.resolve() for module in job.modules)
    folder, results = (path and path.resolve() for path in (job.folder, job.results))
    return replace(job, folder=folder, modules=modules, results=results)


def _whole(job: Job) -> Facts | Elsewhere | Failure | None:
    """A run from beginning to end, on whatever machine this is; None where it was stopped."""
    last = None
    try:
        _prepare(job)
        for shown in steps(job, lambda: False, lambda: None):
            last = shown
    except Exception as error:
        return Failure(type(error).__name__, str(error) or repr(error))
    return None if isinstance(last, Epoch) else last
