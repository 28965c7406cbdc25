"""What only a GPU can show: the captured step equals the plain one, packed runs equal runs alone, and nothing waits."""

import threading

import pytest
import torch

from marvel.config import Config
from marvel.data.core import Data
from marvel.errors import InvalidInput
from marvel.fast import Captured, pack
from marvel.methods import METHODS
from marvel.run import Run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def small(n: int = 700) -> Data:
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 16, 16), dtype=torch.uint8, generator=g)
    y = (x.float().mean((1, 2, 3)) > 127.5).long()
    return Data("small", x, y, ("a", "b"), x[:100], y[:100], augment="crop-flip", mean=(0.5,) * 3, std=(0.3,) * 3)


def settings(method: str, **changes) -> Config:
    options = {"warmup": 1, "wait": 1} if method.startswith("marvel") else {}
    return Config(
        data="small", noise="symmetric", rate=0.3, method=method, network="resnet32", epochs=4, batch=64, lr=0.05,
        drops=(3,), device="cuda", precision="float32", oracle_rate=True, options=options,
    ).but(**changes)  # fmt: skip


def finished(run: Run) -> dict[str, torch.Tensor]:
    for _ in run.steps():
        pass
    return state(run)


def state(run: Run) -> dict[str, torch.Tensor]:
    tensors, _ = run.trainer.state(run.method)
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")


def test_a_step_is_captured_while_another_thread_pins_memory():
    """As the thread does that receives what workers read."""
    done = threading.Event()

    def pin() -> None:
        size = 1
        while not done.is_set():
            size = size % 1000 + 1
            torch.empty(1024 * size, dtype=torch.uint8).pin_memory()  # ever new sizes, so that none is at hand

    thread = threading.Thread(target=pin)
    thread.start()
    try:
        run = Run(settings("marvel"), data=small())
        finished(run)
    finally:
        done.set()
        thread.join()
    assert isinstance(run.trainer.steps, Captured) and run.trainer.steps.graph is not None


@pytest.mark.parametrize("method", sorted(METHODS))
def test_captured_equals_plain_to_the_bit(method, deterministic):
    if method == "confident-learning":
        pytest.importorskip("cleanlab")
    captured = Run(settings(method), data=small())
    ours = finished(captured)
    assert isinstance(captured.trainer.steps, Captured) and captured.trainer.steps.graph is not None
    assert_same(ours, finished(Run(settings(method, fast=False), data=small())))


@pytest.mark.parametrize(
    "options", [{"by_weight": False}, {"guesses": False, "back": None}, {"removal": False}], ids=str
)
def test_the_forms_of_marvel_semi_are_captured_too(options, deterministic):
    asked = settings("marvel-semi", options={"warmup": 1, "wait": 1, **options})
    captured = Run(asked, data=small())
    ours = finished(captured)
    assert isinstance(captured.trainer.steps, Captured) and captured.trainer.steps.graph is not None
    assert_same(ours, finished(Run(asked.but(fast=False), data=small())))


@pytest.mark.parametrize("method", ["marvel+", "marvel-semi"])
def test_last_batches_that_share_run_beside_the_graph(method, deterministic):
    few = small(650)  # ten batches of 64, and ten images that share with the last of them
    captured = Run(settings(method), data=few)
    ours = finished(captured)
    assert isinstance(captured.trainer.steps, Captured) and captured.trainer.steps.graph is not None
    assert_same(ours, finished(Run(settings(method, fast=False), data=few)))


def test_an_interrupted_run_goes_on(tmp_path, deterministic):
    asked = settings("marvel+")
    begun = Run(asked, tmp_path, data=small())
    for shown in begun.steps():
        if shown is not None:
            begun.trainer.save(begun.method)
            break
    gone_on = Run(asked, tmp_path, resume=True, data=small())
    assert_same(finished(gone_on), finished(Run(asked, data=small())))


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_steps_are_captured_and_equal_resident_ones(workers, deterministic):
    streamed = Run(settings("marvel+", source="streamed", workers=workers), data=small())
    ours = finished(streamed)
    assert isinstance(streamed.trainer.steps, Captured) and streamed.trainer.steps.graph is not None
    assert_same(ours, finished(Run(settings("marvel+"), data=small())))


def test_packed_runs_equal_runs_alone(deterministic):
    names = ["ce", "marvel", "marvel+", "marvel-semi", "npcl"]
    runs = [Run(settings(name, seed=k), data=small()) for k, name in enumerate(names)]
    for _ in pack(run.steps() for run in runs):
        pass
    for k, name in enumerate(names):
        assert_same(state(runs[k]), finished(Run(settings(name, seed=k), data=small())))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
@pytest.mark.parametrize("method", ["marvel+", "marvel-semi"])
def test_a_step_waits_for_nothing(method):
    run = Run(settings(method, fast=False), data=small())
    steps = run.steps()
    next(steps)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert int(run.method.visits.sum()) == 6 * 64


def test_a_step_that_reads_the_epoch_falls_back(caplog):
    run = Run(settings("ce"), data=small())

    def cost(logits, y, index):
        return torch.nn.functional.cross_entropy(logits, y, reduction="none") * (1 + 0 * run.method.epoch)

    run.method.cost = cost
    finished(run)
    assert run.trainer.steps.failed and "runs as written" in caplog.text
    assert run.method.epoch == 5


def test_bad_labels_are_raised_by_step():
    method = METHODS["marvel"](10, 3).cuda()
    method(torch.randn(2, 3, device="cuda"), torch.tensor([0, 7], device="cuda"), torch.tensor([1, 99], device="cuda"))
    with pytest.raises(InvalidInput, match=r"had 1 label outside 0\.\.2 and 1 index outside 0\.\.9"):
        method.step()
