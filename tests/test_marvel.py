"""MARVEL and MARVEL+ against the paper's algorithms, written down literally in `algorithm.py`."""

import warnings
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from torch import Tensor

from algorithm import (
    Array,
    Batch,
    Epoch,
    adaptive_weights,
    algorithm,
    classification_margins,
    cross_entropy,
    update_weights,
)
from marvel import InvalidInput, Marvel, MarvelPlus
from marvel.methods.costs import COSTS
from marvel.methods.marvel import adaptive_weight

MANY = settings(max_examples=150)


class Story(NamedTuple):
    """A whole training, as far as the method sees it."""

    y: NDArray[np.int64]
    classes: int
    epochs: list[list[Batch]]
    warm: int
    wait: int


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Logits on a coarse grid, where margins of 0 and ties are frequent, or on a fine one; some instances always wrong.

    On a grid the margins are exact in single precision: what differs from the truth is not rounding.
    """
    n, classes, length = draw(st.integers(1, 9)), draw(st.sampled_from([2, 3, 5])), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (length, n, classes)
    if draw(st.booleans()):
        logits = draw(hnp.arrays(np.int8, shape, elements=st.integers(-3, 3))) / 4
    else:
        logits = np.round(256 * rng.normal(scale=draw(st.sampled_from([0.5, 3.0])), size=shape)) / 256
    y = rng.integers(classes, size=n)
    hopeless = draw(st.sampled_from([0, 0.5, 0.9, 1])) > rng.random(n)
    logits[draw(st.integers(0, length)) :, hopeless, y[hopeless]] -= 40
    epochs = []
    for z in logits:
        order, size = rng.permutation(n), draw(st.integers(1, n))
        epochs.append([(M, z[M]) for M in np.split(order, range(size, n, size))])
    return Story(y, classes, epochs, warm=draw(st.integers(0, 4)), wait=draw(st.integers(1, 10)))


def logits_of(z: Array) -> Tensor:
    return torch.tensor(z, dtype=torch.float32)


def observe(criterion: Marvel, story: Story) -> list[Epoch]:
    """What the criterion makes of the same logits."""
    history = []
    for batches in story.epochs:
        losses = [float(criterion(logits_of(z), torch.from_numpy(story.y[M]), torch.from_numpy(M))) for M, z in batches]
        criterion.step()
        history.append(Epoch(losses, criterion.weight.double().numpy(), criterion.removed.numpy().copy()))
    return history


def assert_same(ours: Sequence[Epoch], truth: Sequence[Epoch]) -> None:
    assert len(ours) == len(truth)
    for e, (mine, theirs) in enumerate(zip(ours, truth), start=1):
        np.testing.assert_array_equal(mine.removed, theirs.removed, err_msg=f"removed, epoch {e}")
        np.testing.assert_allclose(mine.weight, theirs.weight, rtol=2e-5, atol=1e-7, err_msg=f"weight, epoch {e}")
        np.testing.assert_allclose(mine.losses, theirs.losses, rtol=2e-5, atol=2e-6, err_msg=f"losses, epoch {e}")


def settings_of(story: Story) -> dict[str, Any]:
    return {"n": len(story.y), "classes": story.classes, "warmup": story.warm, "wait": story.wait}


# ---------------------------------------------------------------- the algorithms of the paper


@MANY
@given(stories())
def test_marvel_is_algorithm_1(story: Story) -> None:
    ours = observe(Marvel(**settings_of(story)), story)
    assert_same(ours, algorithm(story.epochs, story.y, story.warm, story.wait, update_weights))


@MANY
@given(stories(), st.sampled_from(["survivors", "all"]))
def test_marvel_plus_is_algorithm_3(story: Story, among: str) -> None:
    ours = observe(MarvelPlus(**settings_of(story), among=among), story)
    assert_same(ours, algorithm(story.epochs, story.y, story.warm, story.wait, adaptive_weights(among)))


@MANY
@given(stories(), st.sampled_from(["survivors", "all"]))
def test_statistics_of_the_epoch(story: Story, among: str) -> None:
    """The same, with one median and one variance for all batches of the epoch, taken when it is over."""
    n = len(story.y)
    weight, removed = np.ones(n), np.zeros(n, dtype=bool)
    history: list[Array] = []
    truth = []
    for e, batches in enumerate(story.epochs, start=1):
        losses, margins = [], np.empty(n)
        for M, z in batches:
            margins[M] = classification_margins(z, story.y[M])
            share = weight[M] / weight[M].sum() if weight[M].sum() > 0 else weight[M]
            losses.append(float((share * cross_entropy(z, story.y[M])).sum()))
        if e > story.warm:
            history.append(margins)
            chosen = margins if among == "all" else margins[~removed]
            if len(chosen):
                median, var = sorted(chosen)[(len(chosen) - 1) // 2], max(chosen.var(), 1e-12)
                weight = np.where(margins <= median, np.exp(-((margins - median) ** 2) / (2 * var)), np.exp(-0.5))
            if len(history) >= story.wait:
                removed = removed | (np.max(history[-story.wait :], axis=0) < 0)
            weight = np.where(removed, 0, weight)
        truth.append(Epoch(losses, weight.copy(), removed.copy()))
    assert_same(observe(MarvelPlus(**settings_of(story), statistics="epoch", among=among), story), truth)


def test_stories_reach_the_corners() -> None:
    """What the properties above are meant to cover does occur in what they draw."""
    met = set()

    @settings(MANY, derandomize=True, database=None)
    @given(stories())
    def look(story: Story) -> None:
        truth = algorithm(story.epochs, story.y, story.warm, story.wait, update_weights)
        margins = np.concatenate([classification_margins(z, story.y[M]) for b in story.epochs for M, z in b])
        before = [np.zeros(len(story.y), bool), *(epoch.removed for epoch in truth[:-1])]
        met.update(
            name
            for name, here in {
                "a margin of 0": (margins == 0).any(),
                "a batch of one": any(len(M) == 1 for batches in story.epochs for M, _ in batches),
                "an idle batch": any(gone[M].all() for gone, b in zip(before, story.epochs) for M, _ in b),
                "a wait of 1": story.wait == 1,
                "a wait beyond the end": story.wait + story.warm > len(story.epochs),
                "some removed, some kept": 0 < truth[-1].removed.mean() < 1,
            }.items()
            if here
        )

    look()
    assert len(met) == 6, met


# ---------------------------------------------------------------- a few instances with prescribed margins


def show(criterion: Marvel, *margins: float, step: bool = True) -> Tensor:
    """One batch of all instances, of class 0, with these margins; with an end to the epoch."""
    z = torch.zeros(len(margins), criterion.classes)
    z[:, 0] = torch.tensor(margins)
    loss: Tensor = criterion(z, torch.zeros(len(margins), dtype=torch.long), torch.arange(len(margins)))
    if step:
        criterion.step()
    return loss


@pytest.mark.parametrize(("warm", "wait"), [(0, 1), (0, 3), (2, 1), (3, 4)])
def test_first_removal_ends_epoch_warm_plus_wait(warm: int, wait: int) -> None:
    criterion = Marvel(n=2, classes=2, warmup=warm, wait=wait)
    for epoch in range(1, warm + wait + 1):
        assert not criterion.removed.any(), epoch
        assert criterion.weight.tolist() == [1, 1], epoch
        show(criterion, -1, 1)
    assert criterion.removed.tolist() == [True, False]
    assert criterion.weight.tolist() == [0, 1]
    assert criterion.removed_at.tolist() == [warm + wait, 0]


@pytest.mark.parametrize("cls", [Marvel, MarvelPlus])
def test_removal_is_permanent(cls: type[Marvel]) -> None:
    criterion = cls(n=3, classes=3, warmup=0, wait=2)
    show(criterion, -1, -1, -1)
    show(criterion, -1, 1, -1)
    for _ in range(4):
        show(criterion, 5, 5, -1)
        assert criterion.removed.tolist() == [True, False, True]
        assert criterion.weight[[0, 2]].tolist() == [0, 0]
    assert criterion.removed_at.tolist() == [2, 0, 2]


@settings(max_examples=100)
@given(stories(), st.sampled_from([Marvel, MarvelPlus]))
def test_removed_only_grows(story: Story, cls: type[Marvel]) -> None:
    removed = [epoch.removed for epoch in observe(cls(**settings_of(story)), story)]
    assert all((later | ~earlier).all() for earlier, later in pairwise(removed))


def test_a_margin_of_zero_breaks_the_row() -> None:
    criterion = Marvel(n=2, classes=2, warmup=0, wait=3)
    for margin in (-1, -1, 0, -1, -1):
        show(criterion, margin, -0.0)
    assert not criterion.removed.any()
    show(criterion, -1, 0)
    assert criterion.removed.tolist() == [True, False]


def test_g_of_algorithm_3() -> None:
    """1 at the median, exp(-1/2) one standard deviation below it and anywhere above it."""
    margin = torch.tensor([-2.0, 0.0, 2.0, 4.0, -30.0])
    among = torch.tensor([True, True, True, True, False])
    median, variance = 0.0, 5.0  # of -2, 0, 2, 4: the lower of the two in the middle, and the population's
    expected = [np.exp(-((m - median) ** 2) / (2 * variance)) if m <= median else np.exp(-0.5) for m in margin.tolist()]
    torch.testing.assert_close(adaptive_weight(margin, among), torch.tensor(expected, dtype=torch.float32))
    at = torch.tensor([-(variance**0.5), 0.0])
    g = adaptive_weight(torch.cat([margin, at]), torch.cat([among, torch.zeros(2, dtype=torch.bool)]))[-2:]
    torch.testing.assert_close(g, torch.tensor([float(np.exp(-0.5)), 1.0]))


@pytest.mark.parametrize("constant", [0.0, -3.7, 1e4])
def test_equal_margins_have_weight_one(constant: float) -> None:
    margin = torch.full((7,), constant)
    assert adaptive_weight(margin, torch.ones(7, dtype=torch.bool)).tolist() == [1.0] * 7


def test_an_underflowing_weight_is_no_removal() -> None:
    """One margin far below many equal ones: exp(-n / 2) is 0 in single precision, but the instance is still there."""
    n = 1000
    criterion = MarvelPlus(n=n, classes=2, warmup=0, wait=2)
    show(criterion, -50.0, *[1.0] * (n - 1))
    assert criterion.weight[0] == 0
    assert not criterion.removed[0]
    show(criterion, *[1.0] * n)
    assert criterion.weight[0] == 1


def test_marvel_plus_leaves_the_warm_up_alone() -> None:
    criterion = MarvelPlus(n=3, classes=2, warmup=2, wait=2)
    for _ in range(2):
        show(criterion, -1, 0, 3)
        assert criterion.weight.tolist() == [1, 1, 1]
    show(criterion, -1, 0, 3)
    assert criterion.weight.tolist() != [1, 1, 1]


# ---------------------------------------------------------------- one logit for a binary problem


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Marvel, MarvelPlus]), st.booleans())
def test_one_logit_is_two(seed: int, cls: type[Marvel], column: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 6
    y = torch.from_numpy(rng.integers(2, size=n))
    one, two = (cls(n=n, classes=2, warmup=1, wait=2) for _ in range(2))
    for _ in range(5):
        for M in torch.from_numpy(rng.permutation(n)).split(4):
            f = torch.from_numpy(rng.integers(-4, 5, size=len(M)) / 2).float().requires_grad_()
            g = f.detach().clone().requires_grad_()
            first = one(f[:, None] if column else f, y[M], M)
            second = two(torch.stack([torch.zeros(len(M)), g], dim=1), y[M], M)
            first.backward()
            second.backward()
            assert first == second
            assert torch.equal(f.grad, g.grad)
        shown = one.step()
        assert torch.equal(shown.margin, two.step().margin)
        assert torch.equal(one.weight, two.weight)
        assert torch.equal(one.removed, two.removed)


def test_the_margin_of_one_logit_is_y_times_f() -> None:
    criterion = Marvel(n=2, classes=2, warmup=0)
    loss = criterion(torch.tensor([1.5, 1.5]), torch.tensor([1, 0]), torch.arange(2))
    assert criterion.step().margin.tolist() == [1.5, -1.5]
    logistic = [np.log(1 + np.exp(-1.5)), np.log(1 + np.exp(1.5))]
    assert float(loss) == pytest.approx(np.mean(logistic), rel=1e-6)


# ---------------------------------------------------------------- seen twice, or not at all


def visit(criterion: Marvel, *shown: tuple[int, float]) -> None:
    """One batch of (index, margin), all of class 0."""
    index, margin = zip(*shown)
    z = torch.zeros(len(index), criterion.classes)
    z[:, 0] = torch.tensor(margin)
    criterion(z, torch.zeros(len(index), dtype=torch.long), torch.tensor(index))


def test_seen_twice_counts_once_by_its_mean_margin() -> None:
    criterion = Marvel(n=3, classes=2, warmup=0, wait=3)
    visit(criterion, (0, -1), (1, -3), (0, -2), (2, 1))
    visit(criterion, (1, 1), (2, -3))
    seen = criterion.step()
    assert seen.margin.tolist() == [-1.5, -1, -1]
    assert criterion.streak.tolist() == [1, 1, 1]
    assert not criterion.removed.any()
    visit(criterion, (1, 2), (1, -1))
    criterion.step()
    assert criterion.streak.tolist() == [1, 0, 1]


def test_seen_twice_takes_the_mean_of_its_factors() -> None:
    criterion = MarvelPlus(n=3, classes=2, warmup=0, wait=5)
    visit(criterion, (0, 1), (1, 2), (2, 4))
    visit(criterion, (0, 3), (1, 2))
    criterion.step()

    def g(m: float, batch: list[float]) -> float:
        median = sorted(batch)[(len(batch) - 1) // 2]
        return float(np.exp(-((m - median) ** 2) / (2 * np.var(batch)))) if m <= median else float(np.exp(-0.5))

    first, second = [1.0, 2.0, 4.0], [3.0, 2.0]
    expected = [(g(1, first) + g(3, second)) / 2, (g(2, first) + g(2, second)) / 2, g(4, first)]
    assert criterion.weight.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("statistics", ["batch", "epoch"])
def test_unseen_keeps_weight_and_row(statistics: str) -> None:
    criterion = MarvelPlus(n=3, classes=2, warmup=0, wait=2, statistics=statistics)
    visit(criterion, (0, -1), (1, 1), (2, 2))
    criterion.step()
    weight = criterion.weight[0].item()
    for _ in range(3):
        visit(criterion, (1, 1), (2, 2))
        criterion.step()
        assert criterion.weight[0] == weight
        assert criterion.streak[0] == 1
    visit(criterion, (0, -1))
    criterion.step()
    assert criterion.removed.tolist() == [True, False, False]


# ---------------------------------------------------------------- the equation's readings


@settings(max_examples=100)
@given(stories())
def test_count_warmup(story: Story) -> None:
    """Margins of the warm-up count towards the wait, but nothing is removed before it is over."""
    criterion = Marvel(**settings_of(story), count_warmup=True)
    history: list[Array] = []
    removed = np.zeros(len(story.y), dtype=bool)
    for e, batches in enumerate(story.epochs, start=1):
        margins = np.empty(len(story.y))
        for M, z in batches:
            margins[M] = classification_margins(z, story.y[M])
            criterion(logits_of(z), torch.from_numpy(story.y[M]), torch.from_numpy(M))
        criterion.step()
        history.append(margins)
        if e > story.warm and len(history) >= story.wait:
            removed |= np.max(history[-story.wait :], axis=0) < 0
        np.testing.assert_array_equal(criterion.removed.numpy(), removed, err_msg=f"epoch {e}")


def test_count_warmup_removes_no_instance_it_has_not_seen_since() -> None:
    criterion = Marvel(n=2, classes=2, warmup=2, wait=2, count_warmup=True)
    for _ in range(2):
        visit(criterion, (0, -1), (1, 1))
        criterion.step()
    visit(criterion, (1, 1))
    criterion.step()
    assert criterion.removed.tolist() == [False, False]
    visit(criterion, (0, -1), (1, 1))
    criterion.step()
    assert criterion.removed.tolist() == [True, False]


@settings(max_examples=100)
@given(stories())
def test_immediate(story: Story) -> None:
    """An instance has no weight in the very batch of its WAIT-th negative margin in a row."""
    criterion = Marvel(**settings_of(story), immediate=True)
    history: dict[int, list[float]] = {i: [] for i in range(len(story.y))}
    removed = np.zeros(len(story.y), dtype=bool)
    for e, batches in enumerate(story.epochs, start=1):
        for M, z in batches:
            margins = classification_margins(z, story.y[M])
            if e > story.warm:
                for i, m in zip(M, margins):
                    history[i].append(m)
                    removed[i] |= len(history[i]) >= story.wait and max(history[i][-story.wait :]) < 0
            kept = ~removed[M]
            costs = cross_entropy(z, story.y[M])
            expected = costs[kept].mean() if kept.any() else 0.0
            loss = criterion(logits_of(z), torch.from_numpy(story.y[M]), torch.from_numpy(M))
            assert float(loss) == pytest.approx(expected, rel=2e-5, abs=2e-6), e
        criterion.step()
        np.testing.assert_array_equal(criterion.removed.numpy(), removed, err_msg=f"epoch {e}")


def test_immediate_marvel_plus_keeps_the_factor_of_the_epoch_before() -> None:
    criterion = MarvelPlus(n=3, classes=2, warmup=0, wait=2, immediate=True)
    show(criterion, -1, 1, 3)
    weight = criterion.weight.double().numpy().copy()
    loss = show(criterion, -2, 2, 1)
    costs = np.log1p(np.exp([2, -2, -1]))
    assert float(loss) == pytest.approx((weight * costs)[1:].sum() / weight[1:].sum(), rel=1e-5)


# ---------------------------------------------------------------- what it chooses by itself


def show_accuracy(criterion: Marvel, right: int, validation: float | None = None) -> None:
    """One epoch in which so many of the instances are classified rightly."""
    z = torch.zeros(criterion.n, criterion.classes)
    z[:right, 0] = 1
    z[right:, 1] = 1
    criterion(z, torch.zeros(criterion.n, dtype=torch.long), torch.arange(criterion.n))
    criterion.step(validation)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.sampled_from([2, 3, 5]), st.booleans())
def test_auto_warmup_by_training_accuracy(right: list[int], classes: int, rising: bool) -> None:
    """The first epoch whose gain over three is below a tenth of that since the first, once the latter is certain."""
    right = sorted(right) if rising else right
    accuracy = [Fraction(r, 40) for r in right]
    gains = [(accuracy[e] - accuracy[e - 3], accuracy[e] - accuracy[0]) for e in range(3, len(right))]
    assume(all(recent != total / 10 for recent, total in gains))

    def certain(total: Fraction) -> bool:
        """Beyond three standard errors of a share of 40, which are at most 3 / (2 sqrt(40))."""
        return total > 0 and 40 * total**2 > Fraction(9, 4)

    found = (e for e, (recent, total) in enumerate(gains, start=4) if recent < total / 10 and certain(total))
    expected = next(found, None)
    criterion = Marvel(n=40, classes=classes)
    for epoch, r in enumerate(right, start=1):
        show_accuracy(criterion, r)
        assert criterion.warmup == (expected if expected is not None and epoch >= expected else None)
    assert criterion.chosen == {"wait": 8} | ({} if expected is None else {"warmup": expected})


@settings(max_examples=100)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=15), st.sampled_from(["flat", "rising"]))
def test_auto_warmup_by_validation_accuracy(tenths: list[int], training: str) -> None:
    """The epoch where the validation accuracy has not risen for three epochs, whatever the training accuracy does."""
    validation = [t / 12 for t in tenths]
    expected = next((e for e in range(4, len(tenths) + 1) if max(tenths[: e - 3]) >= max(tenths[e - 3 : e])), None)
    criterion = Marvel(n=40, classes=2)
    for epoch, accuracy in enumerate(validation):
        show_accuracy(criterion, 20 + epoch if training == "rising" else 30, accuracy)
    assert criterion.warmup == expected


@pytest.mark.parametrize(
    ("epochs", "options", "soonest"),
    [
        (10, {"warmup": 8, "wait": 2}, 10),
        (10, {"warmup": 8, "wait": 3}, 11),
        (1, {"warmup": 1, "wait": 1}, 2),
        (10, {"warmup": 8, "wait": 3, "count_warmup": True}, 9),
        (10, {"warmup": 2, "wait": 7, "count_warmup": True}, 7),
        (6, {"wait": 2}, 6),
        (5, {"wait": 2}, 6),
        (None, {"warmup": 20}, 28),
    ],
)
def test_a_training_that_ends_before_anything_is_removed_is_told_so(
    epochs: int | None, options: dict[str, Any], soonest: int
) -> None:
    criterion = Marvel(40, 2, epochs, **options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for epoch in range(1, soonest + 1):
            assert not criterion.removed.any(), epoch
            # "auto" ends its warm-up as soon as it can: all is gained in the second epoch.
            show(criterion, -1, *[-1 if epoch == 1 else 1] * 39)
    assert criterion.removed.nonzero().tolist() == [[0]]
    late = f"nothing can be removed before epoch {soonest}, and the training has {epochs}: "
    assert [str(one.message).startswith(late) for one in said] == ([True] if epochs and soonest > epochs else [])


def test_a_warm_up_that_is_found_too_late_is_told_so() -> None:
    criterion = Marvel(40, 2, 20, wait=14)  # 4 and 14 would do
    said = []
    for epoch in range(1, 21):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            show(criterion, *[1 if k < 4 * min(epoch, 6) else -1 for k in range(40)])
        said += [(epoch, str(one.message)[:42]) for one in caught]
    assert criterion.warmup == 8 and said == [(8, "nothing can be removed before epoch 22, an")]


@pytest.mark.parametrize(("epochs", "longest"), [(None, 48), (120, 48), (60, 24), (15, 6), (8, 4), (2, 4)])
def test_auto_warmup_ends_where_nothing_levels_off(epochs: int | None, longest: int) -> None:
    """All that can be learnt is learnt in the first epoch."""
    criterion = Marvel(n=400, classes=2, epochs=epochs)
    for _ in range(longest):
        assert criterion.warmup is None
        show_accuracy(criterion, 380)
    assert criterion.warmup == longest


def test_auto_warmup_with_validation_now_and_then() -> None:
    """Both accuracies rise steadily, validation is told every second epoch: no plateau, so no end to the warm-up."""
    criterion = Marvel(n=40, classes=2)
    for epoch in range(1, 9):
        show_accuracy(criterion, 20 + 2 * epoch, 0.5 + 0.02 * epoch if epoch % 2 == 0 else None)
        assert criterion.warmup is None, epoch


def test_removal_counts_from_the_warmup_found() -> None:
    criterion = Marvel(n=40, classes=2, epochs=48, wait=2)
    for right in (24, 36, 36, 36):
        show_accuracy(criterion, right)
    assert criterion.warmup == 4
    show_accuracy(criterion, 30)
    assert not criterion.removed.any()
    show_accuracy(criterion, 35)
    assert criterion.removed.tolist() == [False] * 35 + [True] * 5


@pytest.mark.parametrize("after", [2, 4])
@pytest.mark.parametrize("validated", [False, True])
def test_what_was_chosen_survives_a_round_trip(after: int, validated: bool) -> None:
    """Saved before (2) or after (4) the warm-up was found, the rest of the run goes on as if nothing had happened."""
    right = [24, 36, 36, 36, 30, 30]
    validation = [0.9, 0.5, 0.5, 0.5, 0.5, 0.5] if validated else [None] * 6
    whole = Marvel(n=40, classes=2, epochs=30)
    for r, v in zip(right[:after], validation[:after]):
        show_accuracy(whole, r, v)
    resumed = Marvel(n=40, classes=2, epochs=30)
    resumed.load_state_dict(whole.state_dict())
    assert resumed.chosen == whole.chosen
    for r, v in zip(right[after:], validation[after:]):
        show_accuracy(whole, r, v)
        show_accuracy(resumed, r, v)
    assert resumed.chosen == whole.chosen == {"wait": 2, "warmup": 4}
    assert whole.removed.sum() == 10
    assert torch.equal(resumed.removed, whole.removed)


@pytest.mark.parametrize(
    ("epochs", "wait"), [(None, 8), (10, 2), (30, 2), (37, 2), (38, 3), (100, 7), (120, 8), (200, 13)]
)
def test_auto_wait(epochs: int | None, wait: int) -> None:
    criterion = Marvel(n=1, classes=2, epochs=epochs)
    assert criterion.wait == wait == criterion.chosen["wait"]


@pytest.mark.parametrize(
    "options",
    [
        {"warmup": -1},
        {"warmup": "Auto"},
        {"warmup": 1.5},
        {"wait": 0},
        {"wait": "long"},
        {"wait": 2**15},
        {"cost": "cee"},
    ],
)
def test_settings_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        Marvel(n=3, classes=2, **options)


def test_whole_numbers_of_numpy_are_numbers_of_epochs() -> None:
    """What a sweep with np.arange, or a DataFrame of settings, hands over."""
    criterion = Marvel(n=2, classes=2, epochs=np.int64(9), warmup=np.int64(1), wait=np.int16(2))
    for _ in range(3):
        assert not criterion.removed.any()
        show(criterion, -1, 1)
    assert criterion.removed.tolist() == [True, False] and criterion.chosen == {"wait": 2, "warmup": 1}
    assert type(criterion.chosen["wait"]) is int
    assert Marvel(n=2, classes=2, warmup=np.int64(3), wait=np.int64(2)).soonest == 5


@pytest.mark.parametrize("options", [{"statistics": "run"}, {"among": "removed"}])
def test_settings_of_marvel_plus_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options.values()))):
        MarvelPlus(n=3, classes=2, **options)


# ---------------------------------------------------------------- any cost, little memory


def squared_error(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.softmax(1) - torch.eye(logits.shape[1])[y]).square().sum(1)


@pytest.mark.parametrize("cost", [*COSTS, squared_error])
def test_cost_is_weighted(cost: Any) -> None:
    g = torch.Generator().manual_seed(0)
    criterion = Marvel(n=9, classes=4, cost=cost)
    weight = torch.rand(9, generator=g)
    weight[3] = 0
    criterion.weight = weight
    z, y, index = torch.randn(5, 4, generator=g), torch.tensor([0, 1, 2, 3, 0]), torch.tensor([8, 3, 0, 4, 1])
    costs = (COSTS[cost] if isinstance(cost, str) else cost)(z, y)
    w = weight[index].tolist()
    expected = sum(a * b for a, b in zip(w, costs.tolist())) / sum(w)
    assert float(criterion(z, y, index)) == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(criterion(z, y, index, reduction="none"), weight[index] * costs)


@pytest.mark.parametrize("cost", [torch.nn.functional.cross_entropy, torch.nn.CrossEntropyLoss()])
def test_a_cost_that_has_been_averaged_already_is_refused(cost: Any) -> None:
    """One number for the whole batch cannot be weighted: it would train as if every weight were 1."""
    criterion = Marvel(n=3, classes=2, warmup=0, cost=cost)
    with pytest.raises(InvalidInput, match="cost"):
        criterion(torch.zeros(3, 2), torch.tensor([0, 1, 0]), torch.arange(3))


def test_at_most_24_bytes_an_instance() -> None:
    n = 1000
    state = Marvel(n=n, classes=100).state_dict()
    per_instance = [tensor for tensor in state.values() if tensor.ndim and len(tensor) == n]
    assert len(per_instance) >= 5
    assert sum(tensor.nbytes for tensor in per_instance) <= 24 * n
    assert sum(tensor.nbytes for tensor in state.values() if not tensor.ndim or len(tensor) != n) < 200
