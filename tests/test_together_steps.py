"""Several processes that stop in the midst of an epoch, and several machines."""

import subprocess
import sys
from pathlib import Path

import pytest

import together as many
from marvel.config import Config
from marvel.errors import FolderError
from marvel.methods import METHODS
from marvel.networks import NETWORKS
from marvel.run import Run, train
from marvel.runs import RunFolder
from test_torchrun import EXACT, ROOT, difference, environment, free_port, npz, torchrun
from together_steps import asked


@pytest.mark.dist
@pytest.mark.slow
def test_two_processes_stop_in_mid_epoch_and_go_on_as_two_or_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two: to the bit, BatchNorm's statistics of each process included. As one: but for the order of additions."""
    monkeypatch.setitem(METHODS, "staged", many.Staged)
    monkeypatch.setitem(NETWORKS, "smooth", many.smooth)
    done = torchrun(2, str(ROOT / "tests" / "together_steps.py"), str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.glob("elsewhere*"))
    for way in ("marvel+", "staged"):
        left = tmp_path / f"{way}, left"
        newest = sorted(left.rglob("checkpoint/*-*.json"))[-1]
        assert newest.parent.parent.name == ("before" if way == "staged" else left.name)
        run = Run(asked(way), left, resume=True, data=many.images())
        for _ in run.steps():
            pass
        assert difference(many.state(run), many.state(train(asked(way), data=many.images()))) < EXACT
    # With BatchNorm two processes join the last, small step to the one before; one does not.
    way = "staged with BatchNorm"
    run = Run(asked(way), tmp_path / f"{way}, left", resume=True, data=many.images())
    with pytest.raises(FolderError, match="go on with as many processes as then"):
        next(run.steps())


@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_machines_are_one(tmp_path: Path) -> None:
    """Two launchers that meet at an address, as on two machines, each with a disk of its own."""
    words = ["train", "--data", str(npz(tmp_path)), "--network", "cnn4", "--device", "cpu", "--quiet"]
    words += ["--epochs", "2", "--batch", "16", "--lr", "0.05", "--noise", "symmetric", "--rate", "0.3"]
    words += ["--warmup", "1", "--wait", "1"]
    meeting = f"127.0.0.1:{free_port()}"
    nodes = []
    for node in range(2):
        (tmp_path / f"machine{node}").mkdir()
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node)]
        command += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", meeting, "--rdzv-id", "one"]
        command += ["--local-addr", "127.0.0.1", "-m", "marvel", *words, "--out", "run"]
        where = tmp_path / f"machine{node}"
        nodes.append(subprocess.Popen(command, cwd=where, env=environment(), stderr=subprocess.PIPE, text=True))
    said = [node.communicate(timeout=280)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    # Which machine is the first is for the launchers to agree on; the other writes nothing.
    (written,) = tmp_path.glob("machine*/run")
    facts = RunFolder(written).config
    assert facts is not None
    alone = train(Config(**facts["config"]), tmp_path / "alone")
    two, one = RunFolder(written), RunFolder(tmp_path / "alone")
    assert two.record is not None and alone.record is not None
    assert (two.record["environment"]["processes"], alone.record["environment"]["processes"]) == (2, 1)
    ours, theirs = two.instances(), one.instances()
    assert (ours["removed_at"] == theirs["removed_at"]).all() and (ours["removed_at"] > 0).any()
    assert abs(ours["quality"] - theirs["quality"]).max() < EXACT
    assert [line["removed"] for line in two.metrics()] == [line["removed"] for line in one.metrics()]
