"""The criterion itself: what it remembers, what it refuses, and what it leaves alone. Rule by rule."""

import copy
import warnings
from collections import Counter, UserDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from marvel import (
    CE,
    ELR,
    GCE,
    METHODS,
    NPCL,
    SAT,
    Indexed,
    InvalidInput,
    Marvel,
    MarvelPlus,
    Method,
    NonFinite,
    Oracle,
    margins,
)
from marvel.catalogue import describe
from marvel.memory import Memory
from marvel.method import weighted_mean
from toy import network, problem

METHODS_TO_TRY: dict[str, Callable[[int], Method]] = {
    "ce": lambda n: CE(n, 3),
    "marvel": lambda n: Marvel(n, 3, warmup=1, wait=2),
    "marvel+": lambda n: MarvelPlus(n, 3, warmup=1, wait=2),
    "npcl": lambda n: NPCL(n, 3, noise_rate=0.3, burn_in=1),
}
some_methods = pytest.mark.parametrize("make", METHODS_TO_TRY.values(), ids=METHODS_TO_TRY.keys())


def batch(seed: int, m: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(m, classes, generator=g), torch.randint(classes, (m,), generator=g)


def show(criterion: Method, *shown: tuple[int, float]) -> None:
    """One batch of (index, margin), all of class 0, measured against class 1."""
    z = torch.full((len(shown), criterion.classes), -1e3)
    z[:, 0] = torch.tensor([margin for _, margin in shown])
    z[:, 1] = 0
    criterion(z, torch.zeros(len(shown), dtype=torch.long), torch.tensor([index for index, _ in shown]))


def state(criterion: Method) -> dict[str, Tensor]:
    return copy.deepcopy(dict(criterion.state_dict()))


def assert_same_state(mine: dict[str, Tensor], theirs: dict[str, Tensor], rtol: float = 0, atol: float = 0) -> None:
    assert set(mine) == set(theirs)
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype, name
        torch.testing.assert_close(tensor, theirs[name], rtol=rtol, atol=atol, equal_nan=True, msg=name)


# ---------------------------------------------------------------- Indexed


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([("a", 0), ("b", 1)], [(0, "a", 0), (1, "b", 1)]),
        ([["a", 0], ["b", 1]], [(0, "a", 0), (1, "b", 1)]),
        ([{"x": "a", "y": 0}, {"x": "b", "y": 1}], [{"x": "a", "y": 0, "index": 0}, {"x": "b", "y": 1, "index": 1}]),
        ([UserDict(x="a"), UserDict(x="b")], [{"x": "a", "index": 0}, {"x": "b", "index": 1}]),  # a tokenizer's, say
        (["a", "b"], [(0, "a"), (1, "b")]),
    ],
)
def test_indexed_items(items: list[Any], expected: list[Any]) -> None:
    before = copy.deepcopy(items)
    indexed = Indexed(items)
    assert len(indexed) == 2
    assert [indexed[i] for i in range(2)] == expected
    assert items == before


def test_a_stream_has_no_places() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter([])

    with pytest.raises(InvalidInput, match=r"places.* got Stream"):
        Indexed(Stream())


def test_indexed_in_a_loader() -> None:
    x, y = torch.randn(7, 2, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 3
    loader = DataLoader(
        Indexed(TensorDataset(x, y)), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(1)
    )
    met = []
    for index, rows, labels in loader:
        assert torch.equal(rows, x[index])
        assert torch.equal(labels, y[index])
        met += index.tolist()
    assert sorted(met) == list(range(7))
    assert met != sorted(met)


def test_the_loop_of_the_documentation() -> None:
    """Loader, network, criterion, as a user writes them: the wrong labels are found."""
    x, y, clean = problem(n=60, classes=3, noise=0.2, seed=0)
    net = network(0)
    criterion = Marvel(n=60, classes=3, epochs=12, warmup=3, wait=3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(
        Indexed(TensorDataset(x, y)), batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(0)
    )
    for _ in range(12):
        for index, rows, labels in loader:
            loss = criterion(net(rows), labels, index)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    assert (criterion.removed & ~clean).sum() >= 10
    assert (criterion.removed & clean).sum() <= 2
    assert criterion.quality[~clean].mean() < criterion.quality[clean].mean()


# ---------------------------------------------------------------- margins


@settings(max_examples=50)
@given(st.data(), st.sampled_from([2, 3, 7]), st.integers(1, 6))
def test_margins_by_brute_force(data: st.DataObject, classes: int, m: int) -> None:
    z = data.draw(hnp.arrays("int8", (m, classes), elements=st.integers(-3, 3)))
    y = data.draw(st.lists(st.integers(0, classes - 1), min_size=m, max_size=m))
    margin, rival = margins(torch.tensor(z).float(), torch.tensor(y))
    for row, label, mine, against in zip(z.tolist(), y, margin.tolist(), rival.tolist()):
        others = {j: value for j, value in enumerate(row) if j != label}
        assert mine == row[label] - max(others.values())
        assert against in others
        assert others[against] == max(others.values())


def test_margins_do_not_touch_the_logits() -> None:
    z, y = batch(0, 5)
    before = z.clone()
    margins(z, y)
    assert torch.equal(z, before)


# ---------------------------------------------------------------- memory


class Notebook(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.remember("a", torch.arange(3.0))
        self.remember("b", torch.zeros(2, dtype=torch.int16), each_epoch=True)


def test_assigning_writes_in_place() -> None:
    book = Notebook()
    a, address = book.a, book.a.data_ptr()
    book.a = torch.tensor([7, 8, 9])
    assert book.a is a
    assert book.a.data_ptr() == address
    assert book.a.tolist() == [7, 8, 9]
    assert book.a.dtype == torch.float32
    book.a = book.a + 1
    book.a += 1
    assert a.tolist() == [9, 10, 11]


def test_only_what_is_of_the_epoch_is_forgotten() -> None:
    book = Notebook()
    b = book.b
    book.b += 5
    book.forget_epoch()
    assert book.b is b
    assert b.tolist() == [0, 0]
    assert book.a.tolist() == [0, 1, 2]


def test_unknown_attributes_are_still_unknown() -> None:
    with pytest.raises(AttributeError):
        _ = Notebook().c


def test_memory_inside_another_module() -> None:
    """It travels in the state of the module that holds it, under its prefix."""
    outer = nn.ModuleDict({"book": Notebook(), "layer": nn.Linear(2, 2)})
    assert {"book.a", "book.b", "layer.weight", "layer.bias"} == set(outer.state_dict())
    outer["book"].a = torch.ones(3)
    other = nn.ModuleDict({"book": Notebook(), "layer": nn.Linear(2, 2)})
    other.load_state_dict(outer.state_dict())
    assert other["book"].a.tolist() == [1, 1, 1]


@some_methods
def test_not_buffers_not_parameters(make: Callable[[int], Method]) -> None:
    criterion = make(4)
    assert list(criterion.buffers()) == []
    assert list(criterion.parameters()) == []
    assert {"weight", "quality", "removed_at"} <= set(criterion.remembered()) <= set(criterion.state_dict())


@some_methods
@pytest.mark.parametrize(
    "cast",
    [
        lambda c: c.to(torch.bfloat16),
        lambda c: c.half(),
        lambda c: c.double(),
        lambda c: c.to("cpu", torch.float16),
        lambda c: c.type(torch.float16),
    ],
    ids=["bfloat16", "half", "double", "to float16", "type"],
)
def test_never_cast(make: Callable[[int], Method], cast: Callable[[Method], Method]) -> None:
    criterion = make(4)
    criterion(*batch(0, 4), torch.arange(4))
    before, addresses = state(criterion), [t.data_ptr() for t in criterion.remembered().values()]
    assert cast(criterion) is criterion
    assert_same_state(state(criterion), before)
    assert [t.data_ptr() for t in criterion.remembered().values()] == addresses


def test_moved_with_the_module() -> None:
    criterion = Marvel(4, 2).to("meta")
    assert {t.device.type for t in criterion.remembered().values()} == {"meta"}
    assert criterion.weight.dtype == torch.float32


@some_methods
def test_deepcopy(make: Callable[[int], Method]) -> None:
    criterion = make(6)
    z, y = batch(0, 6)
    criterion(z, y, torch.arange(6))
    before = state(criterion)
    twin = copy.deepcopy(criterion)
    assert_same_state(state(twin), before)
    twin.step()
    twin.weight = torch.full((6,), 0.5)
    assert_same_state(state(criterion), before)
    assert criterion.epoch == 1
    assert twin.epoch == 2


@some_methods
def test_addresses_never_change(make: Callable[[int], Method]) -> None:
    criterion = make(9)
    addresses = {name: t.data_ptr() for name, t in criterion.remembered().items()}
    before = state(criterion)
    for epoch in range(5):
        for index in torch.arange(9).split(4):
            z, y = batch(epoch, len(index))
            criterion(z, y, index)
        criterion.step()
        assert {name: t.data_ptr() for name, t in criterion.remembered().items()} == addresses
    assert not torch.equal(criterion.quality, before["quality"])


# ---------------------------------------------------------------- state_dict


@some_methods
def test_saved_in_the_middle_of_an_epoch(make: Callable[[int], Method]) -> None:
    """With this epoch's tables half filled; the other goes on with the same losses, and ends in the same state."""
    whole = make(8)
    for epoch in range(2):
        whole(*batch(epoch, 8), torch.arange(8))
        whole.step()
    whole(*batch(2, 3), torch.tensor([0, 5, 3]))
    other = make(8)
    other.load_state_dict(state(whole))
    assert other.epoch == 3
    for epoch in range(3, 6):
        z, y = batch(epoch, 8)
        index = torch.randperm(8, generator=torch.Generator().manual_seed(epoch))
        assert torch.equal(whole(z, y, index), other(z, y, index))
        mine, theirs = whole.step(), other.step()
        assert torch.equal(mine.margin, theirs.margin)
        assert torch.equal(mine.mask, theirs.mask)
        assert_same_state(state(other), state(whole))


@some_methods
def test_loading_keeps_addresses(make: Callable[[int], Method]) -> None:
    source, target = make(4), make(4)
    source(*batch(0, 4), torch.arange(4))
    source.step()
    addresses = [t.data_ptr() for t in target.remembered().values()]
    target.load_state_dict(source.state_dict())
    assert [t.data_ptr() for t in target.remembered().values()] == addresses
    assert target.quality.data_ptr() != source.quality.data_ptr()
    assert torch.equal(target.quality, source.quality)


@some_methods
def test_a_state_of_another_shape_is_refused(make: Callable[[int], Method]) -> None:
    with pytest.raises(RuntimeError, match=r"weight has shape \(5,\), expected \(4,\)"):
        make(4).load_state_dict(make(5).state_dict())


def test_missing_and_unexpected_keys() -> None:
    saved = state(CE(4, 2))
    with pytest.raises(RuntimeError, match="(?s)Unexpected.*streak"):
        CE(4, 2).load_state_dict(state(Marvel(4, 2)))
    with pytest.raises(RuntimeError, match="(?s)Missing.*streak"):
        Marvel(4, 2).load_state_dict(saved)
    quality = saved.pop("quality")
    result = CE(4, 2).load_state_dict({**saved, "qualities": quality}, strict=False)
    assert result.missing_keys == ["quality"]
    assert result.unexpected_keys == ["qualities"]


# ---------------------------------------------------------------- quality, and what one epoch showed


@settings(max_examples=50)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-20, 20)), min_size=3, max_size=3), min_size=1, max_size=8))
def test_quality_is_the_mean_margin(epochs: list[list[int | None]]) -> None:
    """Over the epochs it was seen in, the first excepted unless it is the only one."""
    criterion = CE(3, 2)
    for epoch in epochs:
        met = [(i, m / 4) for i, m in enumerate(epoch) if m is not None]
        if met:
            show(criterion, *met)
        criterion.step()
    for i in range(3):
        met_margins = [epoch[i] / 4 for epoch in epochs if epoch[i] is not None]
        counted = met_margins[1:] or met_margins
        expected = sum(counted) / len(counted) if counted else 0
        assert float(criterion.quality[i]) == pytest.approx(expected, abs=1e-5)
        assert criterion.epochs_seen[i] == len(met_margins)


def test_label_quality_orders_as_quality_does() -> None:
    criterion = CE(4, 2)
    show(criterion, (0, -3), (1, 0), (2, 2), (3, 50))
    criterion.step()
    label_quality = criterion.label_quality
    assert ((label_quality >= 0) & (label_quality <= 1)).all()
    assert label_quality.argsort().tolist() == [0, 1, 2, 3]
    assert label_quality[1] == 0.5


@some_methods
def test_unseen_instances_keep_their_state(make: Callable[[int], Method]) -> None:
    criterion = make(6)
    for epoch in range(3):
        criterion(*batch(epoch, 6), torch.arange(6))
        criterion.step()
    before = state(criterion)
    for epoch in range(3):
        criterion(*batch(9 + epoch, 3), torch.tensor([0, 2, 4]))
        seen = criterion.step()
        assert seen.mask.tolist() == [True, False] * 3
    for name, tensor in state(criterion).items():
        if tensor.ndim and len(tensor) == 6:
            assert torch.equal(tensor[1::2], before[name][1::2]), name
    assert not torch.equal(criterion.quality[::2], before["quality"][::2])


def test_a_margin_of_zero_is_seen() -> None:
    criterion = CE(2, 2)
    show(criterion, (0, 0.0))
    assert criterion.step().mask.tolist() == [True, False]


def test_what_a_step_returns_outlives_the_epoch() -> None:
    criterion = CE(2, 2)
    show(criterion, (0, 1.5), (1, -2))
    seen = criterion.step()
    show(criterion, (0, 9), (1, 9))
    criterion.step()
    assert seen.margin.tolist() == [1.5, -2]
    assert seen.mask.tolist() == [True, True]


# ---------------------------------------------------------------- what cannot be meant


@some_methods
@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_non_finite_logits(make: Callable[[int], Method], poison: float) -> None:
    """Said by `step`, with the index; nothing advances, and saying it once does not make it go away."""
    criterion = make(8)
    criterion(*batch(0, 8), torch.arange(8))
    criterion.step()
    z, y = batch(1, 8)
    z[5, y[5]] = poison
    criterion(z, y, torch.arange(8))
    before = state(criterion)
    for _ in range(2):
        with pytest.raises(NonFinite, match=r"\b5\b"):
            criterion.step()
        assert criterion.epoch == 2
        assert_same_state(state(criterion), before)


def test_non_finite_names_no_healthy_instance() -> None:
    criterion = CE(50, 2)
    show(criterion, (41, torch.nan), (7, 1.0), (12, torch.inf))
    with pytest.raises(NonFinite, match="2 instances in epoch 1 .*index 12, 41"):
        criterion.step()


Z, Y, INDEX = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]), torch.arange(4)


@some_methods
@pytest.mark.parametrize(
    ("z", "y", "index", "words"),
    [
        (Z, torch.tensor([0, 1, 3, 0]), INDEX, "label 3 .*0..2"),
        (Z, torch.tensor([0, 1, -1, 0]), INDEX, "label -1"),
        (Z, torch.tensor([0, 1, -100, 0]), INDEX, "label -100"),
        (Z, Y, torch.tensor([0, 1, 2, 10]), "index 10 .*0..9"),
        (Z, Y, torch.tensor([0, 1, 2, -1]), "index -1"),
        (Z, Y.float(), INDEX, "labels .*float"),
        (Z, Y, INDEX.double(), "index .*float"),
        (Z, Y, torch.tensor([True, False, True, False]), "index .*bool"),
        (Z, Y[:3], INDEX, r"labels .*\(3,\)"),
        (Z, Y, INDEX[:3], r"index .*\(3,\)"),
        (Z, Y[:, None], INDEX, r"labels .*\(4, 1\)"),
        (Z, F.one_hot(Y), INDEX, r"labels .*\(4, 3\)"),
        (torch.zeros(4, 2), Y, INDEX, r"\(m, 3\), got \(4, 2\)"),
        (torch.zeros(4), Y, INDEX, r"\(m, 3\), got \(4,\)"),
        (torch.zeros(4, 1), Y, INDEX, r"\(m, 3\), got \(4, 1\)"),
        (torch.zeros(4, 3, 2), Y, INDEX, r"\(m, 3\)"),
        (Z.long(), Y, INDEX, "logits .*int64"),
        ({"scores": Z, "features": Z}, Y, INDEX, "logits as a tensor, got dict with scores, features"),
        (Z.numpy(), Y, INDEX, "logits as a tensor, got ndarray"),
        (None, Y, INDEX, "logits as a tensor, got NoneType"),
        (Z, Y.numpy(), INDEX, "labels as a tensor of 4 whole numbers, got ndarray"),
        (Z, ("a", "b", "c", "a"), INDEX, "labels as a tensor of 4 whole numbers, got tuple"),
        (Z, Y, INDEX.tolist(), "index as a tensor of 4 whole numbers, got list"),
    ],
)
def test_input_that_cannot_be_meant(make: Callable[[int], Method], z: Any, y: Any, index: Any, words: str) -> None:
    criterion = make(10)
    before = state(criterion)
    with pytest.raises(InvalidInput, match=words):
        criterion(z, y, index)
    assert_same_state(state(criterion), before)


@pytest.mark.parametrize("y", [[0, 1, 3, 0], [0, 1, -100, 0]])
@pytest.mark.parametrize("mode", ["eval", "no index"])
def test_bad_labels_without_an_index(y: list[int], mode: str) -> None:
    """Nothing is recorded then, but a label of no class is as wrong as ever (-100 would count as a cost of 0)."""
    criterion = CE(10, 3).train(mode != "eval")
    with pytest.raises(InvalidInput, match="label"):
        criterion(torch.zeros(4, 3), torch.tensor(y), INDEX if mode == "eval" else None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("mode", ["train", "eval", "no index"])
def test_whole_numbers_of_any_size(dtype: torch.dtype, mode: str) -> None:
    z, y = batch(0, 4)
    criterion = CE(4, 3).train(mode != "eval")
    loss = criterion(z, y.to(dtype), None if mode == "no index" else torch.arange(4).to(dtype))
    torch.testing.assert_close(loss, F.cross_entropy(z, y))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"n": 0}, "n is .* 1 or more, got 0"),
        ({"n": -1}, "n is .* 1 or more, got -1"),
        ({"n": 3.0}, "n is .* whole number .* got 3.0"),
        ({"n": True}, "n is .* whole number .* got True"),
        ({"n": TensorDataset(Z, Y)}, "n is the number of training instances, .* got TensorDataset"),
        ({"classes": 1}, "classes is .* 2 or more, got 1"),
        ({"classes": ["cat", "dog"]}, "classes is the number of classes, .* got list"),
        ({"classes": True}, "classes is .* whole number .* got True"),
        ({"epochs": True}, "epochs is .* whole number .* got True"),
        ({"warmup": True}, "warmup must be 'auto' or a number of epochs, 0 to .* got True"),
        ({"wait": True}, "wait must be 'auto' or a number of epochs, 1 to .* got True"),
        ({"epochs": 0}, "epochs is .* 1 or more, got 0"),
        ({"epochs": 2.5}, "epochs is .* whole number .* got 2.5"),
        ({"epochs": "10"}, "epochs is .* whole number .* got '10'"),
    ],
)
def test_a_method_of_nothing(told: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Marvel(**{"n": 3, "classes": 2, **told})


def test_counts_may_be_numpy_s() -> None:
    assert Marvel(np.int64(3), np.int32(2), np.int64(30)).wait == 2


@some_methods
def test_a_model_that_puts_out_a_dict(make: Callable[[int], Method]) -> None:
    z, y = batch(0, 4)
    plain, wrapped = make(4), make(4)
    expected = plain(z, y, INDEX)
    assert torch.equal(wrapped({"loss": torch.tensor(0.0), "logits": z, "hidden": (z, z)}, y, INDEX), expected)
    assert_same_state(state(wrapped), state(plain))


def test_unknown_reduction() -> None:
    with pytest.raises(InvalidInput, match="sum"):
        CE(4, 3)(Z, Y, INDEX, reduction="sum")


@pytest.mark.parametrize("clean", [torch.ones(3, dtype=torch.bool), torch.zeros(4, dtype=torch.bool)])
def test_oracle_wants_a_mask_of_the_instances(clean: Tensor) -> None:
    with pytest.raises(InvalidInput, match="clean"):
        Oracle(4, 2, clean=clean)


# ---------------------------------------------------------------- evaluation, no index, reduction


@some_methods
@pytest.mark.parametrize("mode", ["eval", "no index"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_nothing_is_noted(make: Callable[[int], Method], mode: str, reduction: str) -> None:
    """In `eval()` mode, or without an index: the plain mean of the costs, whatever the weights, and no trace."""
    criterion = make(6)
    criterion.weight = torch.tensor([0.0, 0.5, 1.0, 0.0, 1.0, 1.0])
    before = state(criterion)
    criterion.train(mode != "eval")
    z, y = batch(0, 6)
    loss = criterion(z, y, torch.arange(6) if mode == "eval" else None, reduction=reduction)
    costs = criterion.cost(z, y, None)
    torch.testing.assert_close(loss, costs.mean() if reduction == "mean" else costs)
    assert_same_state(state(criterion), before)
    assert criterion.epoch == 1


def test_an_epoch_without_any_index_is_said() -> None:
    criterion = Marvel(n=6, classes=3, epochs=3)
    z, y = batch(0, 6)
    criterion(z, y)
    with pytest.warns(UserWarning, match=r"no batch of this epoch came with its index.*criterion\(outputs, y, index\)"):
        criterion.step()
    criterion(z, y)  # a plain loss now and then is no mistake
    criterion(z, y, torch.arange(6))
    criterion.step()
    criterion.eval()(z, y)
    criterion.train().step()


def test_a_loop_that_never_says_an_index_is_told_so() -> None:
    """As where it took the place of another loss: no step() either, at which it could be noticed."""
    criterion, (z, y) = Marvel(n=6, classes=3), batch(0, 6)
    criterion(z, y)
    criterion(z, y)
    with pytest.warns(UserWarning, match=r"18 instances came without their index.*\(outputs, y, index\)") as caught:
        criterion(z, y)
    assert caught[0].filename == __file__
    criterion(z, y)  # once is enough


def test_what_was_flagged_on_a_device_is_raised_by_step() -> None:
    """There no value can be looked at inside an epoch, and bad ones are counted instead."""
    method = Marvel(10, 3)
    method.faults.copy_(torch.tensor([1, 2]))
    with pytest.raises(InvalidInput, match=r"^epoch 1 had 1 label outside 0\.\.2 and 2 indices outside 0\.\.9$"):
        method.step()


def test_a_larger_evaluation_without_an_index_is_no_mistake() -> None:
    """No warning, which would be an error here."""
    criterion, (z, y) = Marvel(n=2, classes=3), batch(0, 6)
    criterion(z[:2], y[:2], torch.arange(2))
    criterion(z, y)
    criterion.eval()(z, y)


def test_left_in_eval_mode() -> None:
    criterion, (z, y) = Marvel(n=6, classes=3), batch(0, 6)
    criterion.eval()(z, y, torch.arange(6))
    with pytest.warns(UserWarning, match=r"eval\(\) mode for the whole epoch.*criterion.train\(\)") as caught:
        criterion.step()
    assert caught[0].filename == __file__
    criterion.train()(z, y, torch.arange(6))
    criterion.eval()(z, y)
    criterion.step()  # it was trained before


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_evaluation_that_is_noted_as_training(without: Any) -> None:
    """A validation set has indices of its own, which would be taken for those of the training set."""
    criterion, (z, y) = Marvel(n=6, classes=3), batch(0, 6)
    with without():
        with pytest.warns(UserWarning, match=r"without gradients.*criterion.eval\(\)") as caught:
            criterion(z, y, torch.arange(6))
        assert caught[0].filename == __file__
        criterion.eval()(z, y, torch.arange(6))
        criterion.train()(z, y)


@pytest.mark.parametrize("name", ["ce", "marvel", "marvel+"])
def test_reduction_none_gives_the_weighted_costs(name: str) -> None:
    make = METHODS_TO_TRY[name]
    criterion, mean = make(6), make(6)
    criterion.weight = torch.tensor([0.0, 0.5, 1.0, 0.25, 1.0, 0.0])
    z, y = batch(0, 4)
    z.requires_grad_()
    index = torch.tensor([5, 1, 3, 2])
    costs = criterion(z, y, index, reduction="none")
    expected = torch.tensor([0.0, 0.5, 0.25, 1.0]) * criterion.cost(z, y, index)
    torch.testing.assert_close(costs, expected)
    (gradient,) = torch.autograd.grad(costs.sum(), z)
    assert not gradient[0].any()
    assert gradient[1:].any(dim=1).all()
    mean(z.detach(), y, index)
    assert torch.equal(criterion.step().margin, mean.step().margin)


def test_reduction_none_is_refused_where_the_loss_is_of_the_whole_batch() -> None:
    z, y = batch(0, 4)
    for criterion in (NPCL(6, 3, noise_rate=0.2), SAT(6, 3, 10)):
        with pytest.raises(InvalidInput, match=r"one of the whole batch.*leave out reduction='none'"):
            criterion(z, y, torch.arange(4), reduction="none")
        assert criterion.eval()(z, y, reduction="none").shape == (4,)
    criterion = ELR(6, 3)  # whose loss is the mean of its costs
    assert criterion(z, y, torch.arange(4), reduction="none").shape == (4,)


@pytest.mark.parametrize("classes", [32_768, 40_000, 70_000])
def test_very_many_classes(classes: int) -> None:
    criterion = Marvel(n=2, classes=classes, warmup=0, wait=1)
    z = torch.zeros(2, classes).index_fill(1, torch.tensor([classes - 1]), 5.0)
    criterion(z, torch.tensor([3, 4]), torch.arange(2))
    criterion.step()
    assert criterion.suggested.tolist() == [classes - 1] * 2


# ---------------------------------------------------------------- weights of 0 and of 1


@pytest.mark.parametrize("make", [METHODS_TO_TRY["ce"], METHODS_TO_TRY["marvel"], METHODS_TO_TRY["marvel+"]])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_batch_without_weight(make: Callable[[int], Method], reduction: str) -> None:
    criterion = make(6)
    criterion.remove(torch.tensor([True, True, True, False, False, False]))
    z, y = batch(0, 3)
    z.requires_grad_()
    loss = criterion(z, y, torch.arange(3), reduction=reduction)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    assert not loss.any()
    assert torch.equal(gradient, torch.zeros_like(gradient))
    assert criterion.idle == 1
    criterion(z, y, torch.arange(1, 4), reduction=reduction)
    assert criterion.idle == 1
    assert criterion.step().mask.tolist() == [True] * 4 + [False] * 2


@some_methods
def test_a_batch_of_nobody(make: Callable[[int], Method]) -> None:
    criterion = make(6)
    z = torch.zeros(0, 3, requires_grad=True)
    nobody = torch.zeros(0, dtype=torch.long)
    loss = criterion(z, nobody, nobody)
    loss.backward()
    assert loss == 0
    assert not criterion.step().mask.any()


def naive_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """As people write it: infinite where the probability underflows, with a gradient of 0 / 0 there."""
    return -logits.softmax(1).gather(1, y[:, None]).squeeze(1).log()


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("everyone", [False, True])
def test_infinite_costs_of_removed_instances(reduction: str, everyone: bool) -> None:
    criterion = Marvel(4, 2, cost=naive_cross_entropy)
    criterion.remove(torch.tensor([True, True, everyone, everyone]))
    z = torch.tensor([[300.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], requires_grad=True)
    y = torch.tensor([1, 1, 0, 0])
    assert criterion.cost(z, y, None)[0] == torch.inf
    loss = criterion(z, y, torch.arange(4), reduction=reduction)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    assert loss.isfinite().all()
    assert not gradient[:2].any()
    assert gradient.isfinite().all()
    assert everyone or gradient[2:].any(dim=1).all()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 20)), min_size=1, max_size=8))
def test_weighted_mean(rows: Sequence[tuple[int, int]]) -> None:
    weight, cost = torch.tensor([w / 4 for w, _ in rows]), torch.tensor([c / 4 for _, c in rows])
    total = sum(w for w, _ in rows)
    expected = sum(w * c / 4 for w, c in rows) / total if total else 0.0
    assert float(weighted_mean(cost, weight)) == pytest.approx(expected, abs=1e-6)
    cost[weight == 0] = torch.inf
    assert float(weighted_mean(cost, weight)) == pytest.approx(expected, abs=1e-6)
    assert float(weighted_mean(cost, weight / 8)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("cls", [CE, Marvel, MarvelPlus])
@pytest.mark.parametrize("m", [1, 3, 10, 37])
def test_weights_of_one_are_cross_entropy_bit_for_bit(cls: type[Method], m: int) -> None:
    x, y, _ = problem(m, 3, 0, seed=m)
    ours, plain = network(0), network(0)
    cls(m, 3)(ours(x), y, torch.arange(m)).backward()
    F.cross_entropy(plain(x), y).backward()
    for mine, theirs in zip(ours.parameters(), plain.parameters()):
        assert torch.equal(mine.grad, theirs.grad)


# ---------------------------------------------------------------- how people train


@some_methods
def test_autocast(make: Callable[[int], Method]) -> None:
    """Logits in bfloat16, everything after them in single precision."""
    criterion, alone = make(20), make(20)
    x, y, _ = problem(20, 3, 0.3, seed=0)
    net = network(0)
    with torch.autocast("cpu", torch.bfloat16):
        z = net(x)
        loss = criterion(z, y, torch.arange(20))
    assert z.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, alone(z.detach().float(), y, torch.arange(20)), rtol=0, atol=0)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())
    seen = criterion.step()
    assert seen.margin.dtype == torch.float32
    torch.testing.assert_close(seen.margin, margins(z.detach().float(), y)[0], rtol=0, atol=0)
    assert criterion.weight.dtype == criterion.quality.dtype == torch.float32


@pytest.mark.parametrize("make", [METHODS_TO_TRY["ce"], METHODS_TO_TRY["marvel"]])
def test_gradient_accumulation(make: Callable[[int], Method]) -> None:
    """Two halves of a batch leave what the batch leaves, weights unequal or not."""
    whole, halves = make(8), make(8)
    for epoch in range(4):
        z, y = batch(epoch, 8)
        index = torch.randperm(8, generator=torch.Generator().manual_seed(epoch))
        whole(z, y, index)
        for half in (slice(0, 4), slice(4, 8)):
            halves(z[half], y[half], index[half])
        whole.step()
        halves.step()
        assert_same_state(state(halves) | {"idle": whole.idle}, state(whole))


def test_a_forgotten_step_is_said_once() -> None:
    criterion = CE(10, 3)
    z, y = batch(0, 5)
    first, second = torch.arange(5), torch.arange(5, 10)
    for index in (first, second, first, second):
        criterion(z, y, index)
    with pytest.warns(UserWarning, match=r"25 visits to 10 instances .*step\(\)") as caught:
        criterion(z, y, first)
    assert caught[0].filename == __file__
    criterion(z, y, second)
    criterion.step()
    for index in (first, second):
        criterion(z, y, index)


def test_a_state_brought_back_knows_its_visits() -> None:
    """A learning rate finder goes through the data several times, and then sets the criterion back."""
    criterion, (z, y) = CE(5, 3), batch(0, 5)
    begun = {name: tensor.clone() for name, tensor in criterion.state_dict().items()}
    criterion(z, y, torch.arange(5))
    criterion(z, y, torch.arange(5))
    criterion.load_state_dict(begun)
    criterion(z, y, torch.arange(5))  # no 15 visits
    half = criterion.state_dict()
    resumed = CE(5, 3)
    resumed.load_state_dict(half)
    resumed(z, y, torch.arange(5))
    with pytest.warns(UserWarning, match="15 visits to 5 instances"):
        resumed(z, y, torch.arange(5))


def test_a_loop_with_steps_is_not_warned() -> None:
    criterion = CE(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(6):
            criterion(*batch(epoch, 4), torch.arange(4))
            criterion.step()
    assert criterion.epoch == 7
    assert criterion.clock == 7


@pytest.mark.parametrize(
    ("n", "size", "steps"),
    [
        *((10, 4, [4, 4, 2]), (8, 4, [4, 4]), (1, 4, [1]), (3, 4, [3]), (3, 1, [1, 1, 1])),
        *((9, 4, [4, 3, 2]), (5, 4, [3, 2]), (264, 128, [128, 68, 68]), (192, 128, [128, 64]), (191, 128, [96, 95])),
        *((5, 2, [2, 3]), (3, 2, [3]), (4, 3, [2, 2]), (7, 3, [3, 2, 2])),
    ],
)
def test_draws(n: int, size: int, steps: list[int]) -> None:
    """A permutation cut into batches; less than half a batch left over shares with the batch before, and no instance is
    alone where it need not be."""
    drawn = list(CE(n, 2).draws(torch.Generator().manual_seed(0), size))
    assert [len(step) for step in drawn] == steps
    assert sorted(torch.cat(drawn).tolist()) == list(range(n))


@pytest.mark.parametrize("skip", [False, True])
def test_draws_without_the_removed(skip: bool) -> None:
    criterion = Marvel(10, 2, skip_removed=skip)
    criterion.remove(torch.arange(10) < 3)
    drawn = torch.cat(list(criterion.draws(torch.Generator().manual_seed(0), 4)))
    assert sorted(drawn.tolist()) == list(range(3 if skip else 0, 10))


@pytest.mark.parametrize(("options", "drawn"), [({}, [0, 2, 3]), ({"skip_removed": False}, [0, 1, 2, 3, 4])])
def test_oracle_leaves_out_wrong_labels_from_the_first_epoch(options: dict[str, bool], drawn: list[int]) -> None:
    """Out of the batches, or without weight in them: the loss is the same, of the rightly labelled."""
    clean = torch.tensor([True, False, True, True, False])
    criterion = Oracle(5, 2, clean=clean, **options)
    assert torch.equal(criterion.removed, ~clean)
    assert torch.equal(criterion.weight, clean.float())
    assert sorted(torch.cat(list(criterion.draws(torch.Generator().manual_seed(0), 2))).tolist()) == drawn
    logits, y = torch.randn(5, 2, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 1, 0, 0])
    expected = F.cross_entropy(logits[clean], y[clean])
    torch.testing.assert_close(criterion(logits, y, torch.arange(5)), expected)


# ---------------------------------------------------------------- the ranked list


def with_issues() -> Marvel:
    """Instances of class 0: 1 and 3 are removed, 0 is low but kept, 2 is good, 4 was never seen."""
    criterion = Marvel(5, 3, warmup=0, wait=2)
    for margins_now in ([1, -2, 5, -3], [-2, -2, 5, -4], [1, -1, 5, -4], [-2, 5, 5, -4]):
        show(criterion, *enumerate(margins_now))
        criterion.step()
    return criterion


def test_issues_are_ranked() -> None:
    criterion = with_issues()
    qualities = {0: (-2 + 1 - 2) / 3, 1: (-2 - 1 + 5) / 3, 3: -4.0}
    issues = criterion.issues([0] * 5, names=["cat", "dog", "eel"], ids=["a", "b", "c", "d", "e"])
    assert [issue.index for issue in issues] == [3, 0, 1]
    assert [issue.id for issue in issues] == ["d", "a", "b"]
    assert {issue.given for issue in issues} == {"cat"}
    assert {issue.suggested for issue in issues} == {"dog"}
    assert [issue.removed_at for issue in issues] == [2, 0, 2]
    for issue in issues:
        assert issue.quality == pytest.approx(qualities[issue.index], abs=1e-6)


@pytest.mark.parametrize(
    "labels",
    [
        [0] * 5,
        (0,) * 5,
        torch.zeros(5, dtype=torch.int32),
        np.zeros(5, dtype=np.uint16),
        pandas.Series([0] * 5, index=range(70, 75)),
        [torch.tensor(0)] * 5,
    ],
)
def test_issues_without_names(labels: Any) -> None:
    assert [(i.id, i.given, i.suggested) for i in with_issues().issues(labels)] == [
        ("3", "0", "1"),
        ("0", "0", "1"),
        ("1", "0", "1"),
    ]


def test_issues_by_the_names_of_a_model_and_a_frame() -> None:
    """`id2label` is how Hugging Face's models say their classes; a Series is looked up by position."""
    names, ids = {2: "eel", 0: "cat", 1: "dog"}, pandas.Series(list("abcde"), index=range(70, 75))
    issues = with_issues().issues([0] * 5, names, ids)
    assert [(i.id, i.given, i.suggested) for i in issues] == [(id, "cat", "dog") for id in "dab"]


def test_issues_of_a_clean_run() -> None:
    criterion = CE(3, 2)
    show(criterion, (0, 1), (1, 2))
    criterion.step()
    assert criterion.issues([0, 0, 0]) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labels": [0] * 4}, "5 labels"),
        ({"labels": [0] * 5, "ids": ["a"]}, "5 ids"),
        ({"labels": [0] * 5, "names": ["cat"]}, "3 names"),
        ({"labels": [0, 0, 0, 3, 0], "names": ["cat", "dog", "eel"]}, "label 3"),
        ({"labels": [0, 0, 0, -1, 0], "names": ["cat", "dog", "eel"]}, "label -1"),
        ({"labels": ["cat"] * 5, "names": ["cat", "dog", "eel"]}, "labels as 5 whole numbers, .*<U3.*names="),
        ({"labels": [0.0] * 5}, "labels as 5 whole numbers, .*float64"),
        ({"labels": TensorDataset(torch.zeros(5, 2), torch.zeros(5))}, "labels as 5 whole numbers, .*object"),
        ({"labels": [0] * 5, "names": {"cat": 0, "dog": 1, "eel": 2}}, "0..2 to names, got {'cat': 0"),
    ],
)
def test_issues_of_something_else(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        with_issues().issues(**arguments)


@settings(max_examples=50)
@given(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=15))
def test_suggested_is_the_class_most_margins_lost_to(rivals: list[int]) -> None:
    criterion = CE(1, 4)
    for rival in rivals:
        criterion(4 * F.one_hot(torch.tensor([rival]), 4).float(), torch.tensor([0]), torch.tensor([0]))
        criterion.step()
    most, count = Counter(rivals).most_common(1)[0]
    (issue,) = criterion.issues([0])
    assert int(issue.suggested) in rivals
    if 2 * count > len(rivals):
        assert issue.suggested == str(most)


def test_what_an_epoch_showed_stays_when_the_next_one_begins() -> None:
    criterion = CE(3, 3)
    z, y = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), torch.tensor([0, 0])
    criterion(z, y, torch.tensor([2, 0]))
    first = criterion.step()
    criterion(-z, y, torch.tensor([2, 1]))
    second = criterion.step()
    criterion(z, y, torch.tensor([0, 1]))
    assert first.margin[first.mask].tolist() == [2.0, -2.0] and first.mask.tolist() == [True, False, True]
    assert first.rival[first.mask].tolist() == [2, 1]
    assert second.margin[second.mask].tolist() == [-3.0, 1.0] and second.rival[second.mask].tolist() == [1, 2]


def test_a_class_it_never_lost_to_is_not_suggested() -> None:
    """Three margins lost to class 1, then four won against class 2: only class 1 was ever the better label."""
    criterion = CE(1, 3)
    for z in [[-5.0, 0.0, -9.0]] * 3 + [[0.1, -9.0, 0.0]] * 4:
        criterion(torch.tensor([z]), torch.tensor([0]), torch.tensor([0]))
        criterion.step()
    assert [issue.suggested for issue in criterion.issues([0])] == ["1"]


def test_suggested_after_a_long_training() -> None:
    """The count of a majority must not overflow: 200 margins lost to class 1, then 100 to class 2."""
    criterion = CE(1, 3)
    y, index = torch.tensor([0]), torch.tensor([0])
    for rival in [1] * 200 + [2] * 100:
        criterion(F.one_hot(torch.tensor([rival]), 3).float(), y, index)
        criterion.step()
    assert criterion.issues([0])[0].suggested == "1"


def test_nothing_is_suggested_for_an_instance_never_seen() -> None:
    criterion = Oracle(3, 3, clean=torch.tensor([True, False, True]))
    (issue,) = criterion.issues([0, 1, 2], names=["cat", "dog", "eel"])
    assert issue.index == 1
    assert issue.given == "dog"
    assert issue.suggested not in ("cat", "dog", "eel", "-1")


def test_in_eval_mode_an_index_may_be_of_another_set() -> None:
    criterion = CE(3, 2).eval()
    logits, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
    loss = criterion(logits, y, torch.tensor([700, 701]))
    assert float(loss) == pytest.approx(float(F.cross_entropy(logits, y)))


@pytest.mark.parametrize("key", METHODS)
def test_a_loop_of_ones_own_is_told_what_it_leaves_out(key: str) -> None:
    """Nothing, an error, or one warning: never a method that silently does less than its name says."""
    known = {"noise_rate": 0.4, "clean": torch.ones(6, dtype=torch.bool)}
    criterion = METHODS[key](6, 3, 10, **{need: known[need] for need in METHODS[key].needs})
    shown = (torch.randn(3, 3, requires_grad=True), torch.tensor([0, 1, 2]), torch.arange(3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            criterion(*shown)
            criterion(*shown)
        except InvalidInput as error:
            told = [str(error)]
        else:
            told = []
    assert all(one.filename == __file__ for one in said)
    told += [str(one.message) for one in said]
    alone = describe(key)["works_in"].startswith("any loop")
    assert len(told) == (0 if alone else 1) and all("marvel.run.train" in line for line in told)


def test_truncated_gce_wants_the_trainer() -> None:
    with pytest.warns(UserWarning, match=r"does part of its work in start\(\)"):
        GCE(6, 3, truncate=0.5)(torch.randn(3, 3), torch.tensor([0, 1, 2]), torch.arange(3))


def test_more_epochs_than_two_bytes_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 32,767 epochs, got 32,768"):
        Marvel(4, 2, epochs=32_768)
    criterion = Marvel(4, 2)
    criterion.record(torch.arange(4), torch.ones(4), torch.zeros(4))
    criterion.epoch = 32_767
    criterion.step()
    with pytest.raises(InvalidInput, match="at most 32,767 epochs, got 32,768"):
        criterion.step()
