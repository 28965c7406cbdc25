"""Where runs are done: stopped and resumed bit for bit, in processes that may die, and on Ray."""

import fcntl
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from marvel.bench import folder_of, work
from marvel.config import Config
from marvel.engines import Job, RunFailed, in_processes, on_ray, side_by_side, steps
from marvel.errors import InvalidInput, MissingExtra
from marvel.results import add, failures, records, short
from marvel.run import train
from marvel.runs import RunFolder
from marvel.trainer import Epoch
from toy import problem

EPOCHS = 6


@pytest.fixture
def data(tmp_path: Path) -> str:
    x, y, _ = problem(60, 3, noise=0.0, seed=0)
    np.savez(tmp_path / "toy.npz", x=x[:40].numpy(), y=y[:40].numpy(), x_test=x[40:].numpy(), y_test=y[40:].numpy())
    return str(tmp_path / "toy.npz")


def settings(data: str, **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": data, "method": "marvel", "noise": "symmetric", "rate": 0.3, "epochs": EPOCHS}
    usual |= {"batch": 16, "device": "cpu", "options": {"warmup": 2, "wait": 2}}
    return Config(**(usual | changes))


def alike(record: dict[str, Any]) -> Any:
    """What must be the same, however a run came about."""
    kept = {key: value for key, value in short(record).items() if key not in ("seconds", "environment", "asked")}
    return json.loads(json.dumps(kept))


def alone(config: Config) -> Any:
    record = train(config).record
    assert record is not None
    return alike(record)


def after(epochs: int) -> tuple[Callable[[], bool], Callable[[Any], None]]:
    """Stop after so many epochs were shown: (whether to stop, what to tell of each thing shown)."""
    seen: list[Any] = []
    return lambda: len(seen) >= epochs, lambda shown: seen.append(shown) if isinstance(shown, Epoch) else None


# ------------------------------------------------------------ stopping and going on


@pytest.mark.parametrize("cut", [1, 4, EPOCHS])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(cut: int, data: str, tmp_path: Path) -> None:
    config, results, runs = settings(data, checkpoint_every=50), tmp_path / "results.jsonl", tmp_path / "runs"
    stop, tell = after(cut)
    for _, shown in work([config], results, side_by_side(1), runs=runs, stop=stop):
        tell(shown)
    folder = folder_of(config, runs)
    assert folder is not None
    if cut < EPOCHS:
        assert records(results) == []
        found = RunFolder(folder).load_checkpoint()
        assert found is not None and found[0] == cut  # saved on the way out, whatever the rhythm of checkpoints
    epochs = [s.epoch for _, s in work([config], results, side_by_side(1), runs=runs) if isinstance(s, Epoch)]
    assert epochs == list(range(cut + 1, EPOCHS + 1))  # and the last epoch is not cut off
    (record,) = records(results)
    assert alike(record) == alone(config)
    assert RunFolder(folder).load_checkpoint() is None  # room for others
    assert (folder / "record.json").exists() and (folder / "instances.parquet").exists()


def test_at_the_time_given_nothing_is_begun(data: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shown = work([settings(data)], tmp_path / "r.jsonl", side_by_side(1), runs=runs, until=time.time() - 1)
    assert list(shown) == [] and not runs.exists() and not (tmp_path / "r.jsonl").exists()


def test_time_that_runs_out_stops_what_is_going_on(data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=seed, epochs=30_000, batch=2) for seed in range(3)]
    began = time.time()
    engine = side_by_side(2)
    shown = list(work(configs, tmp_path / "r.jsonl", engine, runs=tmp_path / "runs", until=began + 1.0))
    assert time.time() - began < 20
    seeds = {config.seed for config, _ in shown}
    assert seeds == {0, 1} and all(isinstance(one, Epoch) for _, one in shown)
    for config in configs[:2]:
        last = max(s.epoch for c, s in shown if c is config and isinstance(s, Epoch))
        found = RunFolder(folder_of(config, tmp_path / "runs") or "").load_checkpoint()
        assert found is not None and found[0] == last


def test_a_method_of_several_stages_goes_on_too(data: str, tmp_path: Path) -> None:
    """AUM trains twice before; stopped there, the next call goes on from the last checkpoint of the stage."""
    config = settings(data, method="aum", options={"pass_epochs": 4, "pass_batch": 16})
    results, runs = tmp_path / "r.jsonl", tmp_path / "runs"
    stop, tell = after(6)  # in the second pass
    for _, shown in work([config], results, side_by_side(1), runs=runs, stop=stop):
        tell(shown)
    again = [s for _, s in work([config], results, side_by_side(1), runs=runs) if isinstance(s, Epoch)]
    assert [(s.stage, s.epoch) for s in again[:3]] == [("main/pass2", 3), ("main/pass2", 4), ("main", 1)]
    assert alike(records(results)[0]) == alone(config)
    folder = folder_of(config, runs)
    assert folder is not None and not list(folder.rglob("*.safetensors"))


def test_run_folders_are_readable_and_apart() -> None:
    config = Config(data="cifar10", noise="symmetric", rate=0.4, method="marvel", options={"wait": 8}, seed=3)
    name = folder_of(config, "runs")
    assert name is not None and name.as_posix().startswith("runs/cifar10-symmetric-0.4-marvel-s3-")
    assert folder_of(config.but(options={"wait": 9}), "runs") != name
    assert folder_of(config.but(device="cpu"), "runs") == name
    own = folder_of(Config(data="there/mine.npz", noise="pair", rates=(0.4, 0.1), method="ce"), "runs")
    assert own is not None and own.name.startswith("mine-pair-0.4-0.1-ce-s0-")
    assert folder_of(config, None) is None


def test_failures_are_noted_and_forgotten_when_it_works(data: str, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    config = settings(data, weights=str(tmp_path / "weights.safetensors"))
    ((_, error),) = list(work([config], results, side_by_side(1)))
    assert isinstance(error, Exception) and failures(results)[0]["error"] == str(error)
    from safetensors.torch import save_file

    from marvel.run import Run

    save_file(Run(settings(data)).networks[0].state_dict(), tmp_path / "weights.safetensors")
    list(work([config], results, side_by_side(1)))
    assert failures(results) == [] and len(records(results)) == 1


@pytest.mark.parametrize("make", [side_by_side, in_processes])
def test_none_at_a_time_is_refused(make: Callable[[int], Any]) -> None:
    with pytest.raises(InvalidInput, match="must be at least 1, got 0"):
        make(0)


# ------------------------------------------------------------ processes


@pytest.mark.dist
def test_processes_do_what_one_would(data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=0), settings("nonesuch"), settings(data, seed=1)]
    results = tmp_path / "r.jsonl"
    shown = list(work(configs, results, in_processes(1), runs=tmp_path / "runs"))
    assert {r["config"]["seed"]: alike(r) for r in records(results)} == {k: alone(configs[2 * k]) for k in (0, 1)}
    assert [s.epoch for c, s in shown if c.seed == 1 and isinstance(s, Epoch)] == list(range(1, EPOCHS + 1))
    ((config, error),) = [(c, s) for c, s in shown if isinstance(s, Exception)]
    assert config is configs[1] and isinstance(error, RunFailed) and "no dataset 'nonesuch'" in str(error)
    assert failures(results)[0]["kind"] == "UnknownName"


@pytest.mark.parametrize("engine", [side_by_side, pytest.param(in_processes, marks=pytest.mark.dist)])
def test_a_folder_is_kept_until_its_record_is_written(
    engine: Callable[[int], Any], data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another command could take the run up between its end and its record, and do it again."""
    configs = [settings(data, seed=seed) for seed in (0, 1)]
    folders = [folder_of(config, tmp_path / "runs") or Path() for config in configs]
    kept = []

    def adding(file: Path, record: dict[str, Any]) -> None:
        kept.append([is_held(folder) for folder in folders if folder.exists()])
        add(file, record)

    monkeypatch.setattr("marvel.bench.add", adding)
    for _ in work(configs, tmp_path / "r.jsonl", engine(1), runs=tmp_path / "runs"):
        pass
    assert kept == [[True], [False, True]] and not any(map(is_held, folders))


def test_a_run_that_failed_lets_go_of_its_folder(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while what it raised is still known, with all it was raised in."""

    def raises(self: RunFolder, columns: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(RunFolder, "write_instances", raises)
    failed = [s for _, s in work([settings(data)], tmp_path / "r.jsonl", side_by_side(1), runs=tmp_path / "runs")][-1]
    assert isinstance(failed, OSError) and not is_held(folder_of(settings(data), tmp_path / "runs") or Path())


def is_held(folder: Path) -> bool:
    """Whether another process would be kept out: the lock is of the open file, whoever opened it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@pytest.mark.dist
@pytest.mark.slow
def test_a_process_that_is_killed_fails_alone(data: str, tmp_path: Path) -> None:
    endless = settings(data, epochs=30_000, batch=2)
    results = tmp_path / "r.jsonl"
    working = work([endless, settings(data, seed=1)], results, in_processes(1), runs=tmp_path / "runs")
    config, shown = next(working)
    assert config is endless and isinstance(shown, Epoch)
    (child,) = multiprocessing.active_children()
    os.kill(child.pid, signal.SIGKILL)
    rest = [(c, s) for c, s in working if not isinstance(s, Epoch)]
    assert rest[0][0] is endless and "ended by SIGKILL; is there enough memory" in str(rest[0][1])
    assert len(rest) == 2 and isinstance(rest[1][1], dict)
    assert [line["kind"] for line in failures(results)] == ["Died"]


@pytest.mark.dist
@pytest.mark.slow
def test_processes_stop_when_told_and_leave_nobody_behind(data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=seed, epochs=30_000, batch=2) for seed in range(3)]
    stop, tell = after(3)
    working = work(configs, tmp_path / "r.jsonl", in_processes(2), runs=tmp_path / "runs", stop=stop)
    last: dict[int, int] = {}
    for config, shown in working:
        tell(shown)
        assert isinstance(shown, Epoch)
        last[config.seed] = shown.epoch
    assert last and not multiprocessing.active_children()
    for seed, epoch in last.items():
        found = RunFolder(folder_of(configs[seed], tmp_path / "runs") or "").load_checkpoint()
        assert found is not None and found[0] == epoch


@pytest.mark.dist
@pytest.mark.slow
def test_other_processes_load_what_adds_a_method(data: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from marvel import METHODS, CE\n"
        "from marvel.config import Config\n"
        "from marvel.experiment import Cell, Experiment\n"
        "class Own(CE):\n    pass\n"
        "METHODS['own'] = Own\n"
        f"CELL = Cell('', '', 'own', Config(data={data!r}, method='own', epochs=2))\n"
        "EXPERIMENT = Experiment('own', 'Own', (CELL,))\n"
    )
    from marvel import METHODS
    from marvel.experiment.finding import find

    try:
        found = find(str(file))
        list(work(found.runs(), tmp_path / "r.jsonl", in_processes(1), modules=[found.file]))
    finally:
        METHODS.pop("own", None)
    assert records(tmp_path / "r.jsonl")[0]["config"]["method"] == "own"


# ------------------------------------------------------------ Ray


class Reference:
    """A result to come."""

    def __init__(self, function: Any, job: Job) -> None:
        self.function, self.job = function, job


class StandIn(ModuleType):
    """What is used of Ray's interface, done here and at once: no cluster, nothing serialised."""

    def __init__(self, gpus: int = 0) -> None:
        super().__init__("ray")
        self.gpus, self.calls, self.cancelled = gpus, list[Any](), list[Any]()
        self.told: dict[str, Any] = {}

    def init(self, **options: Any) -> None:
        self.calls.append(("init", options))

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0} | ({"GPU": float(self.gpus)} if self.gpus else {})

    def remote(self, **options: Any) -> Any:
        self.told = options

        def wrap(function: Any) -> Any:
            class Remote:
                @staticmethod
                def remote(job: Job) -> "Reference":
                    return Reference(function, job)

            return Remote

        return wrap

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return references[-num_returns:], references[:-num_returns]  # not in the order they were given

    def get(self, reference: Any) -> Any:
        if reference.job.config.seed == 99:
            raise RuntimeError("the node has gone")
        return reference.function(reference.job)

    def cancel(self, reference: Any, force: bool) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in: Ray itself is tested below, where it is installed."""
    module = StandIn()
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


def test_runs_on_ray_come_back_as_records(ray: StandIn, data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=0), settings("nonesuch"), settings(data, seed=99), settings(data, seed=1)]
    results = tmp_path / "r.jsonl"
    shown = list(work(configs, results, on_ray(4), runs=tmp_path / "runs"))
    assert {r["config"]["seed"]: alike(r) for r in records(results)} == {
        0: alone(configs[0]),
        1: alone(configs[3]),
    }
    errors = {config.data + str(config.seed): str(s) for config, s in shown if isinstance(s, Exception)}
    assert set(errors) == {"nonesuch0", f"{data}99"} and errors[f"{data}99"] == "the node has gone"
    assert {line["kind"] for line in failures(results)} == {"UnknownName", "RuntimeError"}
    assert ray.told == {"max_retries": 0, "num_cpus": 1} and ray.cancelled == []


def test_several_runs_share_a_gpu_of_ray(monkeypatch: pytest.MonkeyPatch, data: str, tmp_path: Path) -> None:
    module = StandIn(gpus=2)
    monkeypatch.setitem(sys.modules, "ray", module)
    list(work([settings(data)], tmp_path / "r.jsonl", on_ray(4)))
    assert module.told["num_gpus"] == 0.25


def test_ray_stops_when_told(ray: StandIn, data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=seed) for seed in range(3)]
    done: list[Any] = []
    for _, shown in work(configs, tmp_path / "r.jsonl", on_ray(1), stop=lambda: bool(done)):
        done.append(shown)
    assert len(done) == 1 and len(ray.cancelled) == 2


def test_time_runs_out_on_ray(ray: StandIn, data: str, tmp_path: Path) -> None:
    shown = list(work([settings(data)], tmp_path / "r.jsonl", on_ray(1), until=time.time() - 1))
    assert shown == [] and ray.cancelled == []


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"--engine ray needs ray, .* pip install 'marvel-learn\[ray\]'"):
        on_ray(1)


@pytest.fixture
def real_ray() -> Iterator[Any]:
    module = pytest.importorskip("ray", reason="Ray is not installed")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield module
    module.shutdown()


@pytest.mark.dist
@pytest.mark.slow
def test_the_same_on_a_real_ray(real_ray: Any, data: str, tmp_path: Path) -> None:
    configs = [settings(data, seed=seed) for seed in range(2)] + [settings("nonesuch")]
    results = tmp_path / "r.jsonl"
    shown = list(work(configs, results, on_ray(4), runs=tmp_path / "runs"))
    assert {r["config"]["seed"]: alike(r) for r in records(results)} == {k: alone(configs[k]) for k in (0, 1)}
    (error,) = [s for _, s in shown if isinstance(s, Exception)]
    assert str(error).startswith("no dataset 'nonesuch'")


def test_a_job_says_what_it_is_by_default() -> None:
    job = Job(Config(method="ce"))
    assert (job.folder, job.until, job.modules) == (None, None, ())
    assert list(steps(job, lambda: True, lambda: None)) == []
