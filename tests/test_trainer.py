"""The trainer, through whole runs: resumed, packed and streamed they stay the same run, and it adds nothing of its
own.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contract import BRISK
from marvel import METHODS, Batch, Method, networks
from marvel.config import Config
from marvel.data import Data, Resident, Views
from marvel.errors import FolderError, InvalidInput, NonFinite
from marvel.fast import pack
from marvel.method import Networks, Outputs, Steps
from marvel.methods import CE, MarvelPlus
from marvel.plan import generator_of, seed_of
from marvel.run import Run
from marvel.runs import RunFolder
from marvel.trainer import Epoch, Trainer, _lay_out_alike, follow
from toy import FEATURES, problem

CLASSES = ("a", "b", "c")
Stop = int | tuple[str, int]
"""Where to interrupt: after so many steps, or after the epoch of a stage."""


def images(n: int = 70) -> Data:
    """Colour images with random crops and flips; a class is brighter in one channel."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n + 30) % 3
    x = torch.randint(0, 160, (n + 30, 3, 8, 8), dtype=torch.uint8, generator=g)
    x[torch.arange(n + 30), y] += 90
    return Data("images", x[:n], y[:n], CLASSES, x[n:], y[n:], augment="crop-flip")


def vectors(n: int = 75) -> Data:
    """With mean 0 and deviation 1 the plain view is the instance itself, to the bit."""
    x, y, _ = problem(n + 30, 3, noise=0.0, seed=0)
    return Data("vectors", x[:n], y[:n], CLASSES, x[n:], y[n:], mean=(0.0,) * FEATURES, std=(1.0,) * FEATURES)


def settings(method: str = "ce", **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": "images", "noise": "symmetric", "rate": 0.3, "method": method, "network": "cnn2"}
    usual |= {"epochs": 3, "batch": 32, "lr": 0.05, "device": "cpu", "oracle_rate": True}
    return Config(**(usual | {"options": BRISK.get(method, {})} | changes))


def on_vectors(method: str = "ce", **changes: Any) -> Config:
    return settings(method, **({"data": "vectors", "network": "mlp"} | changes))


def finish(run: Run) -> Run:
    for _ in run.steps():
        pass
    return run


def state(run: Run) -> dict[str, Any]:
    """All that a checkpoint holds of a run, to the bit; not how long it took."""
    tensors, facts = run.trainer.state(run.method)
    del facts["seconds"]
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.numpy().tobytes()) for name, tensor in tensors.items()
    } | facts


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


def results(record: dict[str, Any] | None) -> dict[str, Any]:
    """A record less how long the run took and where."""
    assert record is not None
    return {key: value for key, value in record.items() if key not in ("seconds", "environment")}


def files(folder: Path) -> dict[str, Any]:
    """What a run left on disk, to the bit; the notes beside checkpoints and the record tell the time."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]
    found: dict[str, Any] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return found | {"record": results(RunFolder(folder).record)}


def until(run: Run, stop: Stop) -> list[Epoch]:
    """Run as far as `stop`, then drop it, as Ctrl-C does. Returns the epochs it showed."""
    steps, shown = run.steps(), []
    for count, epoch in enumerate(steps, 1):
        if epoch is not None:
            shown.append(epoch)
        if count == stop or (epoch is not None and (epoch.stage, epoch.epoch) == stop):
            break
    else:
        raise AssertionError(f"the run ended before {stop}")
    steps.close()  # type: ignore[attr-defined]
    return shown


@cache
def alone(method: str, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state and the record of a run that nothing disturbed."""
    run = finish(Run(settings(method, seed=seed), data=images()))
    return state(run), results(run.record)


class Everything(Method):
    """Uses all that a method may: a stage before, a look before each epoch, two networks, an average, two lists of
    instances a step in several views, numbers of its own to learn, and an optimizer for them."""

    networks = 2
    averaged = 1
    decay = 0.9

    def __init__(self, n: int, classes: int, epochs: int | None = None) -> None:
        super().__init__(n, classes, epochs)
        self.remember("first", torch.zeros(n, classes + 1))
        self.remember("looked", torch.zeros(n))
        self.bias = nn.Parameter(torch.zeros(n))

    def prepare(self, trainer: Trainer) -> Steps:
        y = torch.where(torch.arange(self.n) % 5 == 0, self.classes, trainer.y)
        stage = trainer.stage("first", y=y, classes=self.classes + 1, epochs=2, batch=20)
        helper = CE(self.n, self.classes + 1, 2)
        yield from stage.run(helper)
        self.first = yield from stage.logits(helper)

    def start(self, trainer: Trainer) -> Steps:
        logits = yield from trainer.logits(self)
        self.looked += logits.softmax(1).amax(1)

    def draws(self, generator: torch.Generator, size: int) -> Iterable[tuple[Tensor, ...]]:
        orders = [torch.randperm(self.n, generator=generator).split(size)[:2] for _ in range(2)]
        return list(zip(*orders))

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        one, other = batches
        with torch.no_grad():
            target = networks[2](one.weak()).softmax(1)
        return networks[0](one.x), networks[1](one.strong()), networks[0](other.weak()), target

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        first, second, other, target = outputs
        own = F.cross_entropy(first + self.bias[index, None] * F.one_hot(y, self.classes), y)
        return own + F.cross_entropy(second, target) - 0.01 * other.log_softmax(1).mean()

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam([self.bias], 0.01)]

    def predict(self, networks: Networks, x: Tensor) -> Tensor:
        return networks[2](x)


@pytest.fixture
def add_method(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Method]], str]:
    """Puts a method of the test's own on the list, under the name it returns."""

    def add(kind: type[Method]) -> str:
        monkeypatch.setitem(METHODS, kind.__name__, kind)
        return kind.__name__

    return add


@pytest.fixture
def everything(add_method: Callable[[type[Method]], str]) -> str:
    return add_method(Everything)


every_method = pytest.mark.parametrize("method", [*sorted(METHODS), "Everything"])


# ------------------------------------------------------------ interrupted and resumed


@every_method
@pytest.mark.parametrize("every", [1, 2])
def test_a_run_interrupted_again_and_again_is_the_same_run(
    method: str, every: int, tmp_path: Path, everything: str
) -> None:
    """In the midst of each epoch and after it, the last one included; also where a checkpoint is older than that."""
    config = settings(method, checkpoint_every=every, ledger=True)
    whole = Run(config, tmp_path / "whole", data=images())
    epochs = [(epoch.stage, epoch.epoch) for epoch in whole.steps() if epoch is not None]
    assert epochs[-3:] == [("main", 1), ("main", 2), ("main", 3)]

    stops: list[Stop] = [("main", 1), ("main", 2), 2, ("main", 3)]
    if every == 1:
        stops = [stop for epoch in epochs for stop in (2, epoch)]
    for stop in stops:
        until(Run(config, tmp_path / "parts", resume=True, data=images()), stop)
        assert RunFolder(tmp_path / "parts").record is None
    parts = finish(Run(config, tmp_path / "parts", resume=True, data=images()))
    assert_same(state(parts), state(whole))
    assert_same(files(tmp_path / "parts"), files(tmp_path / "whole"))


def test_what_is_compared_does_differ_between_runs(tmp_path: Path) -> None:
    """The comparison above is not blind: another seed changes the state and each file."""
    runs = [finish(Run(settings("marvel+", seed=s, ledger=True), tmp_path / str(s), data=images())) for s in (0, 1)]
    first, second = map(state, runs)
    assert {name for name in first if first[name] == second[name]} <= {
        *(
            "method.clock",
            "method.warm",
            "method.peak",
            "method.curve",
            "method.epochs_seen",
            "method.margin",
            "method.visits",
            "method.lost_to",
        ),
        *("method.faults", "method.idle", "method.factor", "ledger.apex", "numbers"),
        *(name for name in first if name.endswith("num_batches_tracked")),
    }
    one, other = files(tmp_path / "0"), files(tmp_path / "1")
    assert sorted(one) == sorted(other) and {"metrics.jsonl", "instances.parquet", "ledger/0003.safetensors"} < set(one)
    assert [name for name in one if one[name] == other[name]] == []


def test_a_run_that_raises_goes_on_from_its_last_checkpoint(
    tmp_path: Path, add_method: Callable[[type[Method]], str]
) -> None:
    class Breaking(CE):
        broken = True

        def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
            if self.broken and self.epoch == 2 and int(self.visits.sum()) > 32:
                raise KeyboardInterrupt
            return super().cost(logits, y, index)

    config = settings(add_method(Breaking))
    with pytest.raises(KeyboardInterrupt):
        finish(Run(config, tmp_path, data=images()))
    assert RunFolder(tmp_path).record is None and len(RunFolder(tmp_path).metrics()) == 1
    Breaking.broken = False
    assert_same(
        state(finish(Run(config, tmp_path, resume=True, data=images()))), state(finish(Run(config, data=images())))
    )


def test_a_finished_run_is_read_back_and_not_trained_again(tmp_path: Path, trained: list[tuple[str, int]]) -> None:
    first = finish(Run(settings("marvel"), tmp_path, data=images()))
    assert trained == [("main", 1), ("main", 2), ("main", 3)]
    before = files(tmp_path)
    again = finish(Run(settings("marvel"), tmp_path, resume=True, data=images()))
    assert len(trained) == 3
    assert_same(state(again), state(first))
    assert_same(files(tmp_path), before)


def test_momentum_is_laid_out_as_its_parameter_is() -> None:
    """As a GPU's fused optimizer wants it: networks there are channels-last, and files hold tensors in rows."""
    network = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    network(torch.rand(2, 3, 5, 5)).sum().backward()
    optimizer.step()
    before = optimizer.state[network.weight]["momentum_buffer"].clone()
    optimizer.state[network.weight]["momentum_buffer"] = before.contiguous()
    _lay_out_alike(optimizer)
    after = optimizer.state[network.weight]["momentum_buffer"]
    assert after.stride() == network.weight.stride() != before.contiguous().stride()
    assert torch.equal(after, before)


def test_without_checkpoints_a_resumed_run_starts_again(tmp_path: Path) -> None:
    config = settings(checkpoint_every=0)
    until(Run(config, tmp_path, data=images()), ("main", 2))
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"epoch": 3, "train_')  # cut short by a crash
    finish(Run(config, tmp_path, resume=True, data=images()))
    assert [line["epoch"] for line in RunFolder(tmp_path).metrics()] == [1, 2, 3]
    record = RunFolder(tmp_path).record
    assert record is not None and len(record["curves"]["test_accuracy"]) == 3
    assert not (tmp_path / "checkpoint").exists()


# ------------------------------------------------------------ packed, streamed, and torch's own generator


@pytest.fixture(scope="module")
def packed() -> tuple[dict[str, Run], list[tuple[int, Any]]]:
    """One run of every method, side by side, four at a time, with one among them that fails."""
    runs = {name: Run(settings(name, seed=k), data=images()) for k, name in enumerate(sorted(METHODS))}

    def failing() -> Iterator[Any]:
        yield from islice(Run(settings("marvel+"), data=images()).steps(), 4)
        raise ArithmeticError("on purpose")

    generators = [run.steps() for run in runs.values()]
    generators.insert(1, failing())
    return runs, list(pack(generators, width=4))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_packed_equals_alone(method: str, packed: tuple[dict[str, Run], list[tuple[int, Any]]]) -> None:
    run = packed[0][method]
    found, record = alone(method, seed=sorted(METHODS).index(method))
    assert_same(state(run), found)
    assert results(run.record) == record


def test_a_failing_run_ends_alone_and_what_it_raised_is_shown(
    packed: tuple[dict[str, Run], list[tuple[int, Any]]],
) -> None:
    shown = packed[1]
    own = [what for which, what in shown if which == 1]
    assert len(own) == 5 and own[:4] == [None] * 4
    assert isinstance(own[4], ArithmeticError) and str(own[4]) == "on purpose"
    assert [what for which, what in shown if which != 1 and isinstance(what, Exception)] == []
    failed = next(place for place, (_, what) in enumerate(shown) if isinstance(what, ArithmeticError))
    assert {which for which, _ in shown[failed:]} >= {0, 2, 3}


def test_pack_takes_turns() -> None:
    assert list(pack([iter("abc"), iter(""), iter("de")])) == [(0, "a"), (2, "d"), (0, "b"), (2, "e"), (0, "c")]
    assert list(pack([iter("ab"), iter("cd"), iter("e")], width=1)) == [
        (0, "a"),
        (0, "b"),
        (1, "c"),
        (1, "d"),
        (2, "e"),
    ]
    assert list(pack([])) == []
    # On a GPU they begin one after the other, or as soon as nothing else is going on.
    assert "".join(what for _, what in pack([iter("abcde"), iter("fg"), iter("hi")], apart=2)) == "abcfdgehi"
    assert "".join(what for _, what in pack([iter("a"), iter("bc")], apart=9)) == "abc"


def test_pack_begins_a_run_when_there_is_room() -> None:
    begun: list[int] = []

    def run(which: int) -> Iterator[int]:
        begun.append(which)
        yield from range(which + 1)

    for which, _ in pack((run(k) for k in range(6)), width=2):
        assert which in sorted(begun)[-2:] and len(begun) <= which + 2
    assert begun == list(range(6))


@every_method
def test_torchs_generator_is_neither_used_nor_read(method: str, everything: str) -> None:
    expected, record = alone(method)
    torch.manual_seed(123)
    random.seed(123)
    np.random.seed(123)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    run = finish(Run(settings(method), data=images()))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]  # type: ignore[index]
    assert_same(state(run), expected)
    assert results(run.record) == record


@pytest.mark.parametrize("method", ["marvel+", "Everything"])
@pytest.mark.parametrize("workers", [0, 1])
def test_streamed_equals_resident(method: str, workers: int, everything: str) -> None:
    config = settings(method, epochs=2)
    streamed = Run(config.but(source="streamed", workers=workers), data=images())
    assert type(streamed.trainer.source) is not type(Run(config, data=images()).trainer.source)
    assert_same(state(finish(streamed)), state(finish(Run(config, data=images()))))
    assert len(streamed.trainer.source.idle) == (2 if method == everything else 1)  # one a slot, for all epochs


# ------------------------------------------------------------ the trainer adds nothing


def orders(config: Config, n: int) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
    """The epochs and the instances of their steps, as the seed says."""
    assert config.epochs is not None
    for epoch in range(1, config.epochs + 1):
        order = torch.randperm(n, generator=generator_of(config.seed, "main", epoch, "order"))
        yield epoch, cut(order, config.batch)


def cut(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Whole batches, and what is left over; if that is less than half a batch, the last two are as large as each
    other."""
    whole, rest = divmod(len(order), size)
    sizes = [size] * whole + [rest] * (rest > 0)
    if whole and 0 < 2 * rest < size:
        sizes[-2:] = [(size + rest + 1) // 2, (size + rest) // 2]
    return order.split(sizes)


def untrained(config: Config, data: Data) -> nn.Module:
    assert config.network is not None
    return networks.build(config.network, 3, data.shape, seed_of(config.seed, "main", "net", 0)).train()


def assert_same_networks(ours: nn.Module, theirs: nn.Module) -> None:
    theirs_too = theirs.state_dict()
    assert [name for name, t in ours.state_dict().items() if not torch.equal(t, theirs_too[name])] == []


RECIPES: dict[str, tuple[dict[str, Any], Callable[..., torch.optim.Optimizer], list[float]]] = {
    "drops": (
        {"drops": (1, 3)},
        lambda p: torch.optim.SGD(p, 1.0, 0.9, weight_decay=2e-4),
        [0.05, 0.005, 0.005, 0.0005, 0.0005],
    ),
    "constant": (
        {"schedule": "constant", "drops": (1,), "momentum": 0.5, "weight_decay": 0.0},
        lambda p: torch.optim.SGD(p, 1.0, 0.5),
        [0.05] * 5,
    ),
    "nesterov": (
        {"nesterov": True, "weight_decay": 0.01},
        lambda p: torch.optim.SGD(p, 1.0, 0.9, weight_decay=0.01, nesterov=True),
        [0.05] * 5,
    ),
    "adamw": (
        {"optimizer": "adamw", "weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, 1.0, weight_decay=0.1),
        [0.05] * 5,
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_ce_is_the_loop_one_would_write(recipe: str) -> None:
    changes, make_optimizer, rates = RECIPES[recipe]
    data, config = vectors(), on_vectors(epochs=5, **changes)
    run = finish(Run(config, data=data))

    network = untrained(config, data)
    optimizer = make_optimizer(network.parameters())
    y = run.trainer.y
    assert 0 < int((y != data.y).sum()) < 40
    for epoch, steps in orders(config, len(data)):
        for group in optimizer.param_groups:
            group["lr"] = rates[epoch - 1]
        for index in steps:
            F.cross_entropy(network(data.x[index]), y[index]).backward()
            optimizer.step()
            optimizer.zero_grad()
    if recipe == "drops":  # 0.05 x 0.1 x 0.1 is not 0.0005 to the last bit
        torch.testing.assert_close(run.trainer.networks[0].state_dict(), network.state_dict(), rtol=1e-6, atol=1e-7)
    else:
        assert_same_networks(run.trainer.networks[0], network)


def test_marvel_plus_applies_the_weights_of_an_epoch_in_the_next() -> None:
    """The loss is written out with the weights as they stood before the epoch; the criterion only takes notes."""
    data, config = vectors(), on_vectors("marvel+", epochs=5, drops=(), lr=0.02)
    run = finish(Run(config, data=data))

    network, y = untrained(config, data), run.trainer.y
    criterion = MarvelPlus(len(data), 3, 5, **BRISK["marvel+"])
    optimizer = torch.optim.SGD(network.parameters(), 0.02, 0.9, weight_decay=2e-4)
    changed = []
    for _, steps in orders(config, len(data)):
        weight = criterion.weight.clone()
        for index in steps:
            logits = network(data.x[index])
            costs, w = F.cross_entropy(logits, y[index], reduction="none"), weight[index]
            criterion(logits.detach(), y[index], index)
            (costs * (w / w.sum())).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
        changed.append(not torch.equal(weight, criterion.weight))
    assert changed == [False, True, True, True, True]
    assert criterion.removed.any()
    assert_same_networks(run.trainer.networks[0], network)
    for name, tensor in criterion.remembered().items():
        torch.testing.assert_close(run.method.remembered()[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_views_are_a_function_of_seed_and_epoch() -> None:
    data, config = images(), settings("ce", drops=())
    run = finish(Run(config, data=data))
    network, y = untrained(config, data), run.trainer.y
    optimizer = torch.optim.SGD(network.parameters(), 0.05, 0.9, weight_decay=2e-4)
    views = Views(data.mean, data.std, "crop-flip", data.shape)
    for epoch, steps in orders(config, len(data)):
        numbers = torch.rand(len(data), 3, generator=generator_of(0, "main", epoch, "numbers", "uniform", 0, 0))
        for index, u in zip(steps, numbers.split([len(step) for step in steps])):
            F.cross_entropy(network(views.weak(data.x[index], u)), y[index]).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert_same_networks(run.trainer.networks[0], network)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"drops": (1, 3)}, [0.1, 0.01, 0.01, 0.001, 0.001]),
        ({"drops": ()}, [0.1] * 5),
        ({"drops": (1, 3), "schedule": "constant"}, [0.1] * 5),
        ({"drops": (1, 3), "schedule": "cosine"}, [0.1, 0.0904508, 0.0654508, 0.0345492, 0.0095492]),
    ],
)
def test_learning_rates(
    changes: dict[str, Any], expected: list[float], add_method: Callable[[type[Method]], str]
) -> None:
    rates: list[float] = []

    class Watching(CE):
        def start(self, trainer: Trainer) -> None:
            self.trainer = trainer

        def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
            rates.append(self.trainer.optimizers[0].param_groups[0]["lr"])
            return super().cost(logits, y, index)

    finish(Run(on_vectors(add_method(Watching), epochs=5, lr=0.1, **changes), data=vectors()))
    assert rates == pytest.approx([rate for rate in expected for _ in range(3)], rel=1e-5)


def test_test_and_validation_accuracy_are_of_the_final_network() -> None:
    data, config = vectors(120), on_vectors("ce", hold_out=0.25, epochs=2)
    run = finish(Run(config, data=data))
    assert run.record is not None
    _, held_x, held_y = data.hold_out(0.25, np.random.default_rng(seed_of(0, "hold-out")))
    network = run.trainer.networks[0].eval()
    for key, x, y in (("test", data.test_x, data.test_y), ("validation", held_x, held_y)):
        accuracy = (network(x).argmax(1) == y).double().mean()
        assert run.record["curves"][f"{key}_accuracy"][-1] == pytest.approx(float(accuracy), abs=1e-12)
    assert len(run.data) == 90


@pytest.mark.parametrize("protocol", ["final", "validation", "last10"])
def test_protocols_from_the_lines_of_metrics(protocol: str, tmp_path: Path) -> None:
    config = on_vectors("ce", rate=0.5, hold_out=0.2, epochs=13, protocol=protocol, checkpoint_every=0, lr=0.02)
    finish(Run(config, tmp_path, data=vectors(120)))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    test = [line["test_accuracy"] for line in lines]
    validation = [line["validation_accuracy"] for line in lines]
    first_best = validation.index(max(validation))
    by_hand = {"final": test[12], "validation": test[first_best], "last10": sum(test[3:]) / 10}
    assert len(set(by_hand.values())) == 3, "a case that tells the protocols apart"
    record = RunFolder(tmp_path).record
    assert record is not None
    assert record["final"]["test_accuracy"] == pytest.approx(by_hand[protocol])
    assert record["final"]["protocol"] == protocol
    assert {key: record["final"][f"test_accuracy_{key}"] for key in by_hand} == pytest.approx(by_hand)
    assert record["final"]["validation_epoch"] == first_best + 1
    assert record["final"]["test_accuracy_last10_sd"] == pytest.approx(np.std(test[3:]))
    assert record["final"]["test_accuracy_best"] == max(test)


# ------------------------------------------------------------ what a method may ask for


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("side", [4, 400], ids=["small", "large"])
def test_tensors_of_any_size_follow(side: int, decay: float) -> None:
    average, network = nn.Linear(side, side), nn.Linear(side, side)
    before = [p.detach().double() for p in average.parameters()]
    follow(average, network, torch.tensor(decay))
    for was, now, theirs in zip(before, average.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(now.double(), decay * was + (1 - decay) * theirs.double(), rtol=0, atol=1e-7)
        assert decay > 0 or torch.equal(now, theirs)


def test_the_average_follows_the_network(add_method: Callable[[type[Method]], str]) -> None:
    """Its weights and BatchNorm's statistics are the recursion a <- d a + (1 - d) w, and it is tested in eval mode."""
    after: list[dict[str, Tensor]] = []

    class Averaging(CE):
        averaged = 1
        decay = 0.8

        def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
            after.append({name: t.clone().double() for name, t in networks[0].state_dict().items()})
            return super().outputs(networks, *batches)

        def predict(self, networks: Networks, x: Tensor) -> Tensor:
            return networks[1](x)

    data = vectors()
    run = finish(Run(on_vectors(add_method(Averaging)), data=data))
    after.append({name: t.double() for name, t in run.trainer.networks[0].state_dict().items()})
    assert len(after) == 3 * 3 + 1
    naive = after[0]
    for step in after[1:]:
        naive = {name: 0.8 * value + 0.2 * step[name] for name, value in naive.items()}
    (average,) = run.trainer.averages
    found = {name: t.double() for name, t in average.state_dict().items()}
    torch.testing.assert_close(found, naive, rtol=1e-5, atol=1e-6)
    assert not any(p.requires_grad for p in average.parameters())
    assert run.record is not None
    accuracy = (average.eval()(data.test_x).argmax(1) == data.test_y).double().mean()
    assert run.record["final"]["test_accuracy"] == float(accuracy)


def test_predict_is_what_test_accuracy_judges(add_method: Callable[[type[Method]], str]) -> None:
    class Stubborn(CE):
        def predict(self, networks: Networks, x: Tensor) -> Tensor:
            assert not torch.is_grad_enabled() and not networks[0].training
            return F.one_hot(torch.ones(len(x), dtype=torch.long), 3).float()

    data = vectors()
    run = finish(Run(on_vectors(add_method(Stubborn), epochs=1), data=data))
    assert run.record is not None and data.test_y is not None
    assert run.record["final"]["test_accuracy"] == float((data.test_y == 1).double().mean())
    assert run.record["final"]["train_accuracy"] != run.record["final"]["test_accuracy"]


def test_draws_of_two_lists_and_the_views_of_each(add_method: Callable[[type[Method]], str]) -> None:
    asked: list[tuple[Tensor, ...]] = []
    got: list[tuple[Batch, list[Tensor]]] = []

    class Paired(CE):
        def draws(self, generator: torch.Generator, size: int) -> Iterable[tuple[Tensor, ...]]:
            steps = [(torch.arange(k, k + 5), torch.arange(60 - 2 * k, 60 - k)) for k in (10, 3, 7)]
            asked.extend(steps)
            return iter(steps)

        def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
            one, other = batches
            got.append((one, [one.x, one.weak(), one.x]))
            got.append((other, [other.strong(), other.strong(), other.x]))
            return networks[0](one.x)

    data = images()
    run = finish(Run(settings(add_method(Paired), epochs=2, seed=4), data=data))
    assert [b.index.tolist() for b, _ in got] == [index.tolist() for step in asked for index in step]
    assert len(got) == 2 * 3 * 2
    assert run.method.epochs_seen.sum() == 2 * len({*range(10, 15), *range(3, 8), *range(7, 12)})

    def numbers(epoch: int, slot: int, call: int, k: int) -> Tensor:
        rows = (15, 20)[slot]  # of all draws of the epoch
        table = torch.rand(rows, k, generator=generator_of(4, "main", epoch, "numbers", "uniform", slot, call))
        return table

    views = Views(data.mean, data.std, "crop-flip", data.shape)
    for place, (batch, seen) in enumerate(got):
        epoch, step, slot = place // 6 + 1, place % 6 // 2, place % 2
        assert torch.equal(batch.y, run.trainer.y[batch.index])
        assert torch.equal(batch.raw, data.x[batch.index])
        start = ([0, 5, 10], [0, 10, 13])[slot][step]
        rows = slice(start, start + len(batch.index))
        if slot == 0:
            expected = [views.weak(batch.raw, numbers(epoch, 0, call, 3)[rows]) for call in (0, 1, 0)]
        else:
            k = views.strong_uniforms
            expected = [views.strong(batch.raw, numbers(epoch, 1, call, k)[rows]) for call in (0, 1)]
            expected.append(views.weak(batch.raw, numbers(epoch, 1, 2, 3)[rows]))
        assert all(torch.equal(a, b) for a, b in zip(seen, expected, strict=True))
        assert not torch.equal(seen[0], seen[1])


def test_views_may_be_asked_for_in_another_order_from_step_to_step(add_method: Callable[[type[Method]], str]) -> None:
    shapes = set()

    class Changing(CE):
        def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
            (batch,) = batches
            ask = (batch.weak, batch.strong) if int(self.visits.sum()) == 32 else (batch.strong, batch.weak)
            first, second = (view() for view in ask)
            shapes.add((first.shape[1:], second.shape[1:]))
            return networks[0](first)

    finish(Run(settings(add_method(Changing), epochs=1), data=images()))
    assert shapes == {((3, 8, 8), (3, 8, 8))}


def test_two_networks_start_apart_and_both_learn(add_method: Callable[[type[Method]], str]) -> None:
    class Two(CE):
        networks = 2

        def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
            return tuple(network(batches[0].x) for network in networks)

        def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
            return F.cross_entropy(outputs[0], y) + F.cross_entropy(outputs[1], y)

    data, config = vectors(), on_vectors(add_method(Two), rate=0.0, noise="none", epochs=4)
    run = finish(Run(config, data=data))
    starts = [networks.build("mlp", 3, data.shape, seed_of(0, "main", "net", k)) for k in range(2)]
    assert len(run.trainer.networks) == 2
    assert not torch.equal(starts[0].head.weight, starts[1].head.weight)
    for network, start in zip(run.trainer.networks, starts):
        assert not torch.equal(network.head.weight, start.head.weight)  # type: ignore[union-attr,arg-type]
        assert (network.eval()(data.test_x).argmax(1) == data.test_y).double().mean() > 0.9


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The epochs that were trained, and of which stage."""
    epochs: list[tuple[str, int]] = []
    usual = Trainer.train_epoch

    def train_epoch(self: Trainer, method: Method) -> Iterator[None]:
        epochs.append((self.name, self.epoch + 1))
        return usual(self, method)

    monkeypatch.setattr(Trainer, "train_epoch", train_epoch)
    return epochs


def test_a_stage_has_a_folder_labels_classes_and_a_seed_of_its_own(tmp_path: Path, everything: str) -> None:
    data = images()
    run = finish(Run(settings(everything, epochs=1), tmp_path, data=data))
    stage = RunFolder(tmp_path / "first")
    assert [line["epoch"] for line in stage.metrics()] == [1, 2]
    found = stage.load_checkpoint()
    assert found is not None and found[0] == 2
    assert found[1]["network0.fc.bias"].shape == (4,)
    # What it taught is the network that the stage's own order, batches of 20 and labels give.
    y = torch.where(torch.arange(70) % 5 == 0, 3, run.trainer.y)
    network = networks.build("cnn2", 4, data.shape, seed_of(0, "main/first", "net", 0)).train()
    optimizer = torch.optim.SGD(network.parameters(), 0.05, 0.9, weight_decay=2e-4)
    views = Views(data.mean, data.std, "crop-flip", data.shape)
    for epoch in (1, 2):
        order = torch.randperm(70, generator=generator_of(0, "main/first", epoch, "order"))
        numbers = torch.rand(70, 3, generator=generator_of(0, "main/first", epoch, "numbers", "uniform", 0, 0))
        for index, u in zip(order.split(20), numbers.split(20)):
            F.cross_entropy(network(views.weak(data.x[index], u)), y[index]).backward()
            optimizer.step()
            optimizer.zero_grad()
    for name, tensor in network.state_dict().items():
        assert torch.equal(found[1][f"network0.{name}"], tensor), name
    with torch.no_grad():
        expected = network.eval()(views.plain(data.x))
    assert torch.equal(run.method.first, expected)


def test_a_stage_goes_on_where_it_was_and_is_read_back_when_finished(
    tmp_path: Path, everything: str, trained: list[tuple[str, int]]
) -> None:
    config, data = settings(everything, epochs=1), images()
    until(Run(config, tmp_path, data=data), ("main/first", 1))
    assert trained == [("main/first", 1)]
    trained.clear()
    until(Run(config, tmp_path, resume=True, data=data), ("main/first", 2))
    assert trained == [("main/first", 2)]
    trained.clear()
    until(Run(config, tmp_path, resume=True, data=data), 1)
    finish(Run(config, tmp_path, resume=True, data=data))
    assert trained == [("main", 1)]  # the first of the two was stopped while it looked at the finished stage


def test_the_methods_own_optimizer_steps_and_keeps_its_learning_rate(everything: str) -> None:
    run = finish(Run(settings(everything, drops=(1,)), data=images()))
    (optimizer,) = run.trainer.optimizers[1:]
    assert optimizer.param_groups[0]["lr"] == 0.01
    assert run.trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.005)
    steps = optimizer.state_dict()["state"][0]["step"]
    assert int(steps) == 3 * 2
    assert float(run.method.bias.detach().abs().max()) > 0.01


# ------------------------------------------------------------ sizes, precision, compilation


def test_removed_instances_leave_the_batches_of_oracle() -> None:
    run = Run(settings("oracle", rate=0.4), data=images())
    clean = int((run.trainer.y == run.data.y).sum())
    steps = -(-clean // 32)
    assert clean % 32 > 1 and steps == 2 < 3  # of all 70, there would be three
    shown = list(run.steps())
    assert len(shown) == 3 * (steps + 1 + 1)  # steps, one batch to test, the epoch
    seen = run.method.epochs_seen
    assert torch.equal(seen > 0, run.trainer.y == run.data.y)
    assert int(seen.max()) == 3


@pytest.mark.parametrize("n", [33, 65, 20, 64, 80])
def test_batches_that_do_not_come_out_even(n: int, add_method: Callable[[type[Method]], str]) -> None:
    sizes: list[int] = []

    class Counting(CE):
        def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
            sizes.append(len(y))
            return super().cost(logits, y, index)

    run = finish(Run(on_vectors(add_method(Counting), epochs=1), data=vectors(n)))
    # A single instance has no variance for BatchNorm, and a few have a poor one: the last two batches share.
    assert sizes == {33: [17, 16], 65: [32, 17, 16], 20: [20], 64: [32, 32], 80: [32, 32, 16]}[n]
    assert int(run.method.epochs_seen.sum()) == n


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_an_epoch_in_which_nobody_is_left_to_train_on(
    survivors: int, tmp_path: Path, add_method: Callable[[type[Method]], str]
) -> None:
    class Harsh(CE):
        skips_removed = True

        def update(self, seen: Any) -> None:
            self.remove(torch.arange(self.n) >= survivors)

    run = Run(on_vectors(add_method(Harsh)), tmp_path, data=vectors())
    after: list[dict[str, Tensor]] = []
    for epoch in run.steps():
        if epoch is not None:
            after.append({name: t.clone() for name, t in run.trainer.networks[0].state_dict().items()})
    lines = RunFolder(tmp_path).metrics()
    assert [line["removed"] for line in lines] == [75 - survivors] * 3
    if survivors < 2:  # one alone has no variance for BatchNorm
        assert lines[2]["train_loss"] is None and lines[2]["margin"]["quantiles"] is None
        assert all(torch.equal(t, after[0][name]) for name, t in after[2].items())
    else:
        assert lines[2]["train_loss"] > 0
        assert not torch.equal(after[2]["fc.weight"], after[0]["fc.weight"])


def test_bf16_on_the_cpu_trains() -> None:
    config = on_vectors("marvel", rate=0.2, epochs=5)
    half, full = (finish(Run(config.but(precision=p), data=vectors())) for p in ("bf16", "float32"))
    assert half.record is not None and full.record is not None
    assert half.record["final"]["test_accuracy"] > 0.9
    assert {t.dtype for t in half.trainer.networks[0].state_dict().values()} <= {torch.float32, torch.int64}
    a, b = half.method.quality, full.method.quality
    assert a.dtype == torch.float32
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, b, rtol=0.3, atol=0.6)


def test_what_cannot_be_compiled_runs_as_written(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(*inputs: Any) -> Any:
        raise RuntimeError("no such compiler\nand more")

    monkeypatch.setattr(torch, "compile", lambda call, **how: broken)
    config = on_vectors("marvel", epochs=2)
    ours, theirs = (finish(Run(config.but(compile=c), data=vectors())) for c in (True, False))
    for mine, plain in zip(ours.trainer.networks[0].parameters(), theirs.trainer.networks[0].parameters(), strict=True):
        assert torch.equal(mine, plain)
    said = [record.getMessage() for record in caplog.records if "compiled" in record.getMessage()]
    assert said == ["the network cannot be compiled and runs as written: no such compiler"]


@pytest.mark.slow
def test_compiled_equals_eager() -> None:
    config = on_vectors("marvel+", epochs=3, lr=0.01)
    compiled, eager = (finish(Run(config.but(compile=c), data=vectors())) for c in (True, False))
    ours, theirs = (run.trainer.networks[0].state_dict() for run in (compiled, eager))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(compiled.method.quality, eager.method.quality, rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------ what cannot be meant


def trainer(y: Tensor, x: Tensor | None = None, folder: RunFolder | None = None) -> Trainer:
    data = vectors()
    config = on_vectors(drops=(), precision="float32")
    views = Views(data.mean, data.std, "none", data.shape)
    return Trainer(config, Resident(data.x if x is None else x, "cpu"), views, y, 3, data.shape, folder=folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda y: y + 1, r"labels must lie in 0\.\.2, got 1\.\.3"),
        (lambda y: y - 1, r"labels must lie in 0\.\.2, got -1\.\.1"),
        (lambda y: y[:-1], "expected 75 labels, one for each instance, got 74"),
        (lambda y: y[:0], "expected 75 labels, one for each instance, got 0"),
    ],
)
def test_labels_that_cannot_be_meant(change: Callable[[Tensor], Tensor], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        trainer(change(vectors().y))


def test_nan_in_the_data_is_said_at_once_or_after_the_epoch(tmp_path: Path) -> None:
    data = vectors()
    x = data.x.clone()
    x[7, 2] = torch.nan
    with pytest.raises(InvalidInput, match="NaN or infinity in 1 of 75 instances"):
        Data("vectors", x, data.y, CLASSES)
    with pytest.raises(NonFinite, match="NaN or infinity for .* instances in epoch 1"):
        trainer(data.y, x, RunFolder(tmp_path)).fit(CE(75, 3, 3))
    assert RunFolder(tmp_path).metrics() == []


@pytest.mark.parametrize("where", ["logits", "loss"])
def test_a_run_that_diverged_keeps_its_last_checkpoint(
    where: str, tmp_path: Path, add_method: Callable[[type[Method]], str]
) -> None:
    """Also where the margins of the epoch were still finite, and only the loss of its last batch was not."""

    class Diverging(CE):
        ill = True

        def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
            logits = super().outputs(networks, *batches)
            return logits * (torch.nan if self.ill and where == "logits" and self.epoch == 2 else 1)

        def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
            last = int(self.visits.sum()) >= 54  # of 75, in steps of 32, 22 and 21
            factor = torch.nan if self.ill and where == "loss" and self.epoch == 2 and last else 1
            return super().cost(logits, y, index) * factor

    config = on_vectors(add_method(Diverging))
    with pytest.raises(NonFinite, match="epoch 2"):
        finish(Run(config, tmp_path, data=vectors()))
    folder = RunFolder(tmp_path)
    found = folder.load_checkpoint()
    assert folder.record is None and not (tmp_path / "instances.parquet").exists()
    assert found is not None and found[0] == 1
    assert all(tensor.isfinite().all() for name, tensor in found[1].items() if name.startswith("network"))
    Diverging.ill = False
    assert_same(
        state(finish(Run(config, tmp_path, resume=True, data=vectors()))), state(finish(Run(config, data=vectors())))
    )


def test_a_checkpoint_of_other_labels_is_refused(tmp_path: Path) -> None:
    y = vectors().y
    trainer(y, folder=RunFolder(tmp_path)).fit(CE(75, 3, 3))
    other = y.clone()
    other[0] = 2 - other[0]
    with pytest.raises(FolderError, match="made with other labels or another dataset"):
        trainer(other, folder=RunFolder(tmp_path)).fit(CE(75, 3, 3))
