"""MarvelCallback: the plain loop's numbers under both Lightnings, checkpoints of every kind, and several processes."""

import copy
import importlib
import logging
import os
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from marvel import Indexed, InvalidInput, Marvel, MarvelPlus, Method, MissingExtra
from marvel.integrations import lightning as adapter
from marvel.integrations.lightning import MarvelCallback
from together import EPOCHS as TOGETHER
from together import Toy, own_loop
from toy import network, problem

ROOT = Path(__file__).resolve().parent.parent
N, EPOCHS, STEPS = 90, 6, 6
X, Y, CLEAN = problem(N, 3, noise=0.2, seed=0)

# Lightning's own remarks on what small trainings do.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]


@pytest.fixture(params=adapter.PACKAGES)
def pl(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One of the Lightnings, as though it were the only one imported."""
    found = importlib.import_module(request.param)
    for package in adapter.PACKAGES:
        logging.getLogger(package).setLevel(logging.ERROR)
        if package != request.param:
            monkeypatch.delitem(sys.modules, package, raising=False)
    return found


def criterion_of(kind: type[Marvel] = Marvel) -> Marvel:
    return kind(N, 3, EPOCHS, warmup=1, wait=2)


def loader() -> DataLoader[Any]:
    return DataLoader(
        Indexed(TensorDataset(X, Y)), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(5)
    )


def module(pl: Any, criterion: nn.Module | None) -> Any:
    """A user's LightningModule; without a criterion of ours it unpacks the index itself."""

    class Net(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network(seed=1)
            if criterion is not None:
                self.criterion = criterion
            self.ends: list[int] = []

        def training_step(self, batch: Any, step: int) -> Tensor:
            x, y = batch
            loss: Tensor = self.criterion(self.network(x), y)
            return loss

        def validation_step(self, batch: Any, step: int) -> None:
            x, y = batch
            self.log("val_loss", self.criterion(self.network(x), y))

        def on_train_epoch_end(self) -> None:
            self.ends.append(self.current_epoch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    return Net()


def trainer(pl: Any, *callbacks: Any, epochs: int = EPOCHS, **more: Any) -> Any:
    return pl.Trainer(
        max_epochs=epochs, callbacks=list(callbacks), logger=False, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, **{"enable_checkpointing": False, **more},
    )  # fmt: skip


def validation() -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, Y), batch_size=45)


def plain_loop(criterion: Method, accumulate: int = 1) -> tuple[nn.Module, Method]:
    net = network(seed=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    batches = loader()
    for _ in range(EPOCHS):
        for step, (index, x, y) in enumerate(batches, 1):
            (criterion(net(x), y, index) / accumulate).backward()
            if step % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        criterion.step()
    return net, criterion


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    left, right = ours.state_dict(), theirs.state_dict()
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("kind", [Marvel, MarvelPlus])
def test_it_is_the_plain_loop(pl: Any, kind: type[Marvel]) -> None:
    """Bit for bit, with sanity checking and validation on the way."""
    net = module(pl, criterion_of(kind))
    callback = MarvelCallback(feed_index=True)
    assert isinstance(callback, pl.Callback)
    run = trainer(pl, callback)
    run.fit(net, loader(), validation())
    plain, criterion = plain_loop(criterion_of(kind))
    assert criterion.removed.any() and not criterion.removed.all()
    assert_same(net.criterion, criterion)
    assert_same(net.network, plain)
    assert net.criterion.epoch == EPOCHS + 1
    assert run.callback_metrics["marvel/removed"] == criterion.removed.sum()
    # All is as it was: the next training unpacks its batches as it likes.
    assert "training_step" not in vars(net) and not net.criterion._forward_pre_hooks


def test_tuners_train_before_it_starts(pl: Any, tmp_path: Path) -> None:
    net = module(pl, criterion_of())
    net.configure_optimizers = lambda: torch.optim.SGD(net.parameters(), lr=getattr(net, "lr", 0.05))
    net.lr = 0.05
    finder = pl.callbacks.LearningRateFinder(num_training_steps=5)
    callbacks = MarvelCallback(feed_index=True), finder
    trainer(pl, *callbacks, enable_checkpointing=True, default_root_dir=tmp_path).fit(net, loader(), validation())
    assert net.criterion.epoch == EPOCHS + 1 and "training_step" not in vars(net)


def test_the_index_said_by_the_module_itself(pl: Any) -> None:
    """A criterion outside the module, in the callback's care."""
    criterion = criterion_of()

    class Net(type(module(pl, nn.CrossEntropyLoss()))):  # type: ignore[misc]
        def training_step(self, batch: Any, step: int) -> Tensor:
            index, x, y = batch
            return criterion(self.network(x), y, index)  # type: ignore[no-any-return]

        def validation_step(self, batch: Any, step: int) -> None:
            assert not criterion.training
            criterion(self.network(batch[0]), batch[1], torch.zeros(len(batch[1]), dtype=torch.long))

    net = Net()
    trainer(pl, MarvelCallback(criterion), accumulate_grad_batches=2).fit(net, loader(), validation())
    plain, expected = plain_loop(criterion_of(), accumulate=2)
    assert_same(criterion, expected)
    assert_same(net.network, plain)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(
    "saves",
    [
        {"every_n_epochs": 1, "save_on_train_epoch_end": True},
        {"every_n_epochs": 1, "save_on_train_epoch_end": False},  # after validation, before the epoch's end
        {"every_n_train_steps": STEPS},  # after the last step, before validation
    ],
    ids=["end", "validation", "step"],
)
def test_resumed_it_steps_once_an_epoch(pl: Any, tmp_path: Path, saves: dict[str, Any], inside: bool) -> None:
    """Every epoch has the same batches here, so that a resumed training must equal an uninterrupted one."""
    batches = DataLoader(Indexed(TensorDataset(X, Y)), batch_size=16)

    def fit(epochs: int, *more: Any, ckpt: str | None = None) -> Any:
        criterion = criterion_of()
        net = module(pl, criterion if inside else None)
        if not inside:
            net.criterion = lambda logits, y: criterion(logits, y)
        callback = MarvelCallback(None if inside else criterion, feed_index=True)
        run = trainer(pl, callback, *more, epochs=epochs, enable_checkpointing=bool(more))
        run.fit(net, batches, validation(), ckpt_path=ckpt)
        return net, criterion

    whole, expected = fit(EPOCHS)
    fit(3, pl.callbacks.ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1, **saves))
    assert len(list(tmp_path.glob("*.ckpt"))) == 3
    net, criterion = fit(EPOCHS, ckpt=str(tmp_path / "epoch=1.ckpt"))
    assert_same(criterion, expected)
    assert_same(net.network, whole.network)
    assert criterion.epoch == EPOCHS + 1 and criterion.epochs_seen.unique().tolist() == [EPOCHS]
    assert expected.removed.any()


def test_dicts_and_mistakes(pl: Any) -> None:
    assert adapter._apart({"index": 1, "x": 2}) == (1, {"x": 2})
    with pytest.raises(InvalidInput, match="wrap the training set in marvel.Indexed"):
        adapter._apart(torch.zeros(3))
    with pytest.raises(InvalidInput, match=r"got a list of \(90, 6\), \(90,\): wrap the training set"):
        adapter._apart([torch.zeros(90, 6), torch.zeros(90, dtype=torch.int64)])  # index and labels it has not
    with pytest.raises(InvalidInput, match="wrap the training set in marvel.Indexed"):
        trainer(pl, MarvelCallback(feed_index=True)).fit(module(pl, criterion_of()), validation())
    tokens = UserDict(index=torch.arange(2), x=torch.zeros(2))  # as the batches of a tokenizer are
    index, rest = adapter._apart(tokens)
    assert index.tolist() == [0, 1] and isinstance(rest, UserDict) and list(rest) == ["x"] and "index" in tokens
    with pytest.raises(InvalidInput, match="holds 0 criteria"):
        trainer(pl, MarvelCallback()).fit(module(pl, nn.CrossEntropyLoss()), loader())
    with pytest.raises(InvalidInput, match="given no index"):
        trainer(pl, MarvelCallback()).fit(module(pl, criterion_of()), DataLoader(TensorDataset(X, Y), batch_size=30))


def test_it_is_copied_and_extended(pl: Any) -> None:
    """As `copy.deepcopy` and starting processes do; what a user derives from it is a callback as well."""
    copied = copy.deepcopy(MarvelCallback(criterion_of(), feed_index=True))
    assert isinstance(copied, MarvelCallback) and isinstance(copied, pl.Callback)
    assert copied.feed_index and isinstance(copied.criterion, Marvel) and not copied.inside

    class Own(MarvelCallback):
        pass

    assert isinstance(Own(), Own) and isinstance(Own(), pl.Callback)
    assert isinstance(copy.deepcopy(Own()), Own)


def test_where_both_are_imported_it_is_of_both() -> None:
    kinds = [importlib.import_module(name).Callback for name in adapter.PACKAGES]
    callback = MarvelCallback()
    assert all(isinstance(callback, kind) for kind in kinds)


def test_without_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "pytorch_lightning", *adapter.PACKAGES):
        monkeypatch.delitem(sys.modules, name, raising=False)
    real = importlib.import_module

    def missing(name: str, *args: Any) -> Any:
        if name in adapter.PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return real(name, *args)

    monkeypatch.setattr(adapter.importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'marvel-learn\[lightning\]'"):
        MarvelCallback()


def global_batches(epoch: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """What two processes see together, with Lightning's sampler: 30 instances in steps of 8, the last one of 6."""
    toy, parts = Toy(), []
    for rank in range(2):
        sampler = DistributedSampler(toy, 2, rank, shuffle=True, seed=0)
        sampler.set_epoch(epoch)
        parts.append(torch.tensor(list(sampler)).split(4))
    for step in zip(*parts, strict=True):
        index = torch.cat(step)
        yield index, toy.x[index], toy.y[index]


@pytest.mark.dist
def test_two_processes_are_one(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    environment.pop("PL_GLOBAL_SEED", None)
    program = str(ROOT / "tests" / "together_lightning.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    done = subprocess.run(
        [*command, str(tmp_path / "found.pt")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    alone = own_loop(global_batches, lambda m: m)
    assert found.keys() == alone.keys() and TOGETHER == EPOCHS
    assert alone["criterion.removed_at"].any()
    for name, tensor in alone.items():
        assert torch.allclose(found[name].double(), tensor.double(), rtol=1e-5, atol=1e-5, equal_nan=True), name
        assert tensor.is_floating_point() or torch.equal(found[name], tensor), name
