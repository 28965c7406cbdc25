"""Accelerate: the plain loop's numbers, checkpoints without pickle, and several processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from marvel import FolderError, Indexed, InvalidInput, Marvel, MarvelPlus
from marvel.integrations.accelerate import attach
from marvel.integrations.state import FILE
from together import EPOCHS, Toy, own_loop
from toy import network, problem

ROOT = Path(__file__).resolve().parent.parent
N = 90
X, Y, CLEAN = problem(N, 3, noise=0.2, seed=0)


class Loop:
    """A user's loop; with an accelerator, or as it was before."""

    def __init__(self, kind: type[Marvel], accelerator: Any = None) -> None:
        self.accelerator = accelerator
        self.criterion = kind(N, 3, EPOCHS, warmup=1, wait=2)
        self.network = network(seed=1)
        self.optimizer: Any = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)
        self.loader: Any = DataLoader(Indexed(TensorDataset(X, Y)), batch_size=16)
        if accelerator is not None:
            everything = accelerator.prepare(self.network, self.optimizer, self.loader)
            self.network, self.optimizer, self.loader = everything

    def epochs(self, count: int) -> None:
        for _ in range(count):
            for index, x, y in self.loader:
                loss = self.criterion(self.network(x), y, index)
                if self.accelerator is None:
                    loss.backward()
                else:
                    self.accelerator.backward(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()
            self.criterion.step()


def assert_same(ours: Loop, theirs: Loop) -> None:
    for left, right in ((ours.criterion, theirs.criterion), (ours.network, theirs.network)):
        for name, tensor in right.state_dict().items():
            torch.testing.assert_close(left.state_dict()[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("kind", [Marvel, MarvelPlus])
@pytest.mark.parametrize("way", ["attach", "register_for_checkpointing"])
def test_it_is_the_plain_loop_also_when_resumed(way: str, kind: type[Marvel], tmp_path: Path) -> None:
    plain = Loop(kind)
    plain.epochs(EPOCHS)
    assert plain.criterion.removed.any() and not plain.criterion.removed.all()

    def loop() -> Loop:
        accelerator = Accelerator(cpu=True)
        made = Loop(kind, accelerator)
        if way == "attach":
            assert attach(accelerator, made.criterion) is made.criterion
        else:
            accelerator.register_for_checkpointing(made.criterion)
        return made

    first = loop()
    first.epochs(3)
    first.accelerator.save_state(str(tmp_path))
    assert (tmp_path / FILE).exists() == (way == "attach")
    assert bool(list(tmp_path.glob("custom_checkpoint_*.pkl"))) == (way != "attach")
    first.epochs(EPOCHS - 3)
    assert_same(first, plain)

    second = loop()
    second.accelerator.load_state(str(tmp_path))
    assert second.criterion.epoch == 4
    second.epochs(EPOCHS - 3)
    assert_same(second, plain)


def test_a_checkpoint_without_the_criterion(tmp_path: Path) -> None:
    loop = Loop(Marvel, Accelerator(cpu=True))
    loop.accelerator.save_state(str(tmp_path))
    attach(loop.accelerator, loop.criterion)
    with pytest.raises(FolderError, match="written without the criterion"):
        loop.accelerator.load_state(str(tmp_path))


def test_a_second_criterion_would_lie_on_the_first(tmp_path: Path) -> None:
    """Both would be written to one file, and `load_state` would bring the one's state to both."""
    loop = Loop(Marvel, Accelerator(cpu=True))
    attach(loop.accelerator, loop.criterion)
    attach(loop.accelerator, loop.criterion)  # the same once more, as a notebook's cell may
    with pytest.raises(InvalidInput, match="has a criterion already"):
        attach(loop.accelerator, Marvel(N, 3, EPOCHS))
    loop.epochs(2)
    loop.accelerator.save_state(str(tmp_path))
    loop.epochs(1)
    loop.accelerator.load_state(str(tmp_path))
    assert loop.criterion.epoch == 3


@pytest.mark.dist
def test_two_processes_are_one(tmp_path: Path) -> None:
    """The 30 instances are padded to 32 visits; one process that sees the same global batches comes to the same."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    program = str(ROOT / "tests" / "together_accelerate.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    batches, toy = found["batches"], Toy()
    assert len(batches) == 4 * EPOCHS
    for epoch in range(EPOCHS):
        visits = sum(map(len, batches[4 * epoch : 4 * epoch + 4]))
        assert visits == 32 and len({i for batch in batches[4 * epoch : 4 * epoch + 4] for i in batch}) == 30

    def global_batches(epoch: int) -> Any:
        for batch in batches[4 * epoch : 4 * epoch + 4]:
            index = torch.tensor(batch)
            yield index, toy.x[index], toy.y[index]

    alone = own_loop(global_batches, lambda m: m)
    assert found["state"].keys() == alone.keys() and alone["criterion.removed_at"].any()
    for name, tensor in alone.items():
        torch.testing.assert_close(found["state"][name], tensor, rtol=1e-5, atol=1e-5, equal_nan=True, msg=name)
        assert tensor.is_floating_point() or torch.equal(found["state"][name], tensor), name
