"""Whole trainings through torchrun: as many processes as one likes, and the same run.

Two processes and four train in `together.py`; here one process trains the same, and the results are put side by side.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

import together as many
from marvel import networks
from marvel.config import Config
from marvel.distributed import gather
from marvel.methods import METHODS
from marvel.networks.norm import BatchNorm2d
from marvel.plan import Plan, merged
from marvel.run import Run, train
from marvel.runs import RunFolder

ROOT = Path(__file__).resolve().parent.parent
EXACT = 1e-5
"""Largest difference allowed where nothing but the order of additions differs; 1.1e-6 was measured."""


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MARVEL_TIMEOUT": "120", **more}


def torchrun(world: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world), *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=280, check=False)


def launch(world: int, folder: Path, resume_to: int) -> None:
    done = torchrun(world, str(ROOT / "tests" / "together.py"), str(folder), str(resume_to))
    assert done.returncode == 0, done.stdout + done.stderr


def load(folder: Path, name: str) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(folder / f"{name}.pt", weights_only=True)
    return found


def difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest, over all that both came to, of numbers above 1 in proportion; whole numbers must be equal."""
    assert ours.keys() == theirs.keys()
    largest = 0.0
    for name, tensor in ours.items():
        if tensor.is_floating_point():
            apart = (tensor - theirs[name]).abs() / tensor.abs().clamp(min=1)
            largest = max(largest, float(apart.max()))
        else:
            assert torch.equal(tensor, theirs[name]), name
    return largest


@pytest.mark.dist
@pytest.mark.parametrize("worlds", [(2,), pytest.param((2, 4), marks=pytest.mark.slow)], ids=str)
def test_many_processes_are_one(worlds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, since starting processes is what takes the time."""
    monkeypatch.setitem(METHODS, "staged", many.Staged)
    monkeypatch.setitem(METHODS, "apart", many.Apart)
    monkeypatch.setitem(networks.NETWORKS, "smooth", many.smooth)
    monkeypatch.setattr(many.marvel_semi, "FEWEST", many.N)
    data = many.images()
    # A run that two processes begin, one carries on, and four finish.
    launch(2, tmp_path, resume_to=2)
    run = Run(many.settings("marvel+"), tmp_path / "resumed", resume=True, data=data)
    many.until(run, 4 if 4 in worlds else many.EPOCHS)
    if 4 in worlds:
        launch(4, tmp_path, resume_to=many.EPOCHS)

    alone = {way: many.state(train(many.settings(way), data=data)) for way in many.WAYS}
    found: dict[str, float] = {}
    for world in worlds:
        # On the CPU BatchNorm is over each process's own rows. One process that does so too comes to the same.
        monkeypatch.setattr(many.Apart, "world", world)
        alone["ce with BatchNorm"] = many.state(train(many.settings("apart with BatchNorm"), data=data))
        for way in alone:
            found[f"{way}, {world} processes"] = difference(load(tmp_path, f"{way} {world}"), alone[way])
        own = load(tmp_path, f"own loop {world}")
        found[f"own loop, {world} processes"] = difference(own, many.own_loop_of_one(world))
    run = Run(many.settings("marvel+"), tmp_path / "resumed", resume=True, data=data)
    for _ in run.steps():
        raise AssertionError("the run was over")
    found["resumed"] = difference(many.state(run), alone["marvel+"])
    print({name: f"{value:.1e}" for name, value in found.items()})
    assert all(value < EXACT for value in found.values()), found

    # What was compared is worth comparing.
    assert alone["marvel"]["removed"].any() and not alone["marvel"]["removed"].all()
    assert len(set(alone["marvel+"]["method.weight"].tolist())) > 2
    assert all(alone[way]["removed"].any() for way in many.SEMI) and alone[many.SEMI[0]]["method.below"] != 0
    assert alone["staged"]["method.before"].any()
    assert many.own_loop_of_one(worlds[-1])["criterion.removed_at"].any()

    # Only the first process touches the disk.
    assert not list(tmp_path.glob("elsewhere*"))
    assert [line["epoch"] for line in RunFolder(tmp_path / "resumed").metrics()] == list(range(1, many.EPOCHS + 1))
    folder = RunFolder(tmp_path / f"marvel {worlds[-1]}")
    assert folder.record is not None and folder.record["environment"]["processes"] == worlds[-1]
    assert len(folder.instances()["quality"]) == many.N


# ------------------------------------------------------------ processes that go missing


def npz(folder: Path) -> Path:
    data = many.images()
    np.savez(folder / "small.npz", x=data.x, y=data.y)
    return folder / "small.npz"


def pair(tmp_path: Path, timeout: float) -> list[subprocess.Popen[str]]:
    """Two processes as two machines would start them, without a common guard, well into their training."""
    words = ["train", "--data", str(npz(tmp_path)), "--network", "cnn4", "--epochs", "30000", "--device", "cpu"]
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "marvel", *words, "--out", str(tmp_path / "run")],
            env=environment(**meeting, RANK=str(r), MARVEL_TIMEOUT=str(timeout)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(2)
    ]
    metrics, end = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.exists() and len(metrics.read_bytes().splitlines()) > 2):
        assert time.monotonic() < end and all(process.poll() is None for process in started)
        time.sleep(0.1)
    return started


def free_port() -> int:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return int(store.port)


def assert_ends_with_a_line(process: subprocess.Popen[str], seconds: float) -> None:
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == 2, said
    lines = [line for line in said.splitlines() if line.startswith("marvel") and "epoch" not in line]
    assert len(lines) == 1 and "lost another one" in lines[0] and "--resume" in lines[0], said
    assert "Traceback" not in said


def assert_goes_on(folder: Path) -> None:
    known = RunFolder(folder).load_checkpoint()
    facts = RunFolder(folder).config
    assert known is not None and facts is not None
    run = Run(Config(**facts["config"]), folder, resume=True)
    many.until(run, known[0] + 1)
    assert run.trainer.epoch == known[0] + 1
    assert RunFolder(folder).metrics()[-1]["epoch"] == known[0] + 1


@pytest.mark.dist
def test_a_killed_partner_ends_the_others(tmp_path: Path) -> None:
    first, second = pair(tmp_path, timeout=60)
    second.kill()
    second.communicate()
    assert_ends_with_a_line(first, seconds=60)
    assert_goes_on(tmp_path / "run")


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_a_partner_that_hangs_is_given_up(tmp_path: Path, which: int) -> None:
    started = pair(tmp_path, timeout=10)
    started[which].send_signal(signal.SIGSTOP)
    try:
        assert_ends_with_a_line(started[1 - which], seconds=60)
    finally:
        started[which].kill()
        started[which].communicate()
    assert_goes_on(tmp_path / "run")


@pytest.mark.dist
@pytest.mark.slow
def test_a_partner_that_never_comes(tmp_path: Path) -> None:
    meeting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    words = ["train", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "marvel", *words],
        env=environment(**meeting, MARVEL_TIMEOUT="3"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "marvel: process 0 of 2 did not meet the others" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runs_end_well_every_time(tmp_path: Path) -> None:
    """gloo's threads must be gone before the interpreter is; when they are not, a part of the runs aborts at exit."""
    words = ["--data", str(npz(tmp_path)), "--network", "cnn4", "--epochs", "2", "--device", "cpu", "--json"]
    for k in range(10):
        done = torchrun(2, "-m", "marvel", "train", *words, "--out", str(tmp_path / str(k)))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count('"folder"') == 1, "the first process reports, and no other"
        assert done.stderr.count("epoch 2/2") == 1


# ------------------------------------------------------------ steps too small to share


def test_small_steps_join_the_one_before() -> None:
    steps = [(torch.arange(8),), (torch.arange(8, 16),), (torch.arange(16, 19),)]
    assert [len(step[0]) for step in merged(steps, 0)] == [8, 8, 3]
    assert [len(step[0]) for step in merged(steps, 3)] == [8, 8, 3]
    joined = merged(steps, 4)
    assert [len(step[0]) for step in joined] == [8, 11]
    assert torch.equal(torch.cat([step[0] for step in joined]), torch.arange(19))


def test_small_steps_of_several_lists() -> None:
    """One list that is too short joins its step to the one before; one that is empty has nothing to share."""
    steps = [(torch.arange(8), torch.arange(6)), (torch.arange(8), torch.arange(2)), (torch.arange(5), torch.arange(0))]
    assert [(len(a), len(b)) for a, b in merged(steps, 4)] == [(16, 8), (5, 0)]


def test_a_plan_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a step of 3 instances is too small for 1 processes: BatchNorm needs 4"):
        Plan([torch.arange(3)], (0,), torch.device("cpu"), least=4)


@pytest.mark.parametrize("name", ["cnn2", "cnn4-bn", "resnet32", "resnet18"])
def test_our_batch_norm_can_be_made_synchronous(name: str) -> None:
    """The same parameters under the same names, and in evaluation the same function."""
    network = networks.build(name, 3, (3, 8, 8), 0).eval()
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    before, keys = network(x), list(network.state_dict())
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    kinds = {type(layer) for layer in synced.modules()}
    assert nn.SyncBatchNorm in kinds and BatchNorm2d not in kinds
    assert list(synced.state_dict()) == keys
    assert torch.equal(synced(x), before)


# ------------------------------------------------------------ GPUs


needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


@pytest.mark.parametrize("marks", [pytest.param(None, marks=needs_gpu)])
def test_nccl_with_one_process(marks: None, tmp_path: Path) -> None:
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        rows = torch.randn(5, 3, device="cuda", requires_grad=True)
        index = torch.arange(5, device="cuda")
        everyone, indices = gather(rows, index)
        (everyone * 2).sum().backward()
        assert torch.equal(everyone, rows) and torch.equal(indices, index)
        assert rows.grad is not None and bool((rows.grad == 2).all())
    finally:
        dist.destroy_process_group()


def on_one_gpu(r: int, world: int, folder: str) -> None:
    """NCCL wants a GPU for each process; gloo does not, and takes tensors of a GPU too."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=r, world_size=world)
    found = one_epoch_on_gpu()
    if r == 0:
        torch.save(found, f"{folder}/found.pt")
    dist.destroy_process_group()


def one_epoch_on_gpu() -> dict[str, Tensor]:
    torch.backends.cudnn.allow_tf32 = False
    config = many.settings("ce with BatchNorm", device="cuda", precision="float32", fast=False, epochs=1)
    run = train(config, data=many.images())
    return {name: tensor.cpu() for name, tensor in run.networks[0].state_dict().items()}


@pytest.mark.parametrize("marks", [pytest.param(None, marks=needs_gpu)])
def test_batch_norm_is_exact_on_gpus(marks: None, tmp_path: Path) -> None:
    """The steps are of 16 instances and a last of 2, for two processes: no step is joined to another."""
    mp.spawn(on_one_gpu, args=(2, str(tmp_path)), nprocs=2)
    found, alone = load(tmp_path, "found"), one_epoch_on_gpu()
    for name, tensor in alone.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda m, at=name: f"{at}: {m}")
