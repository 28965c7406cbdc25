"""marvel-semi: MARVEL where it should be, its ledger against brute force, its draws, and its loss derived once more."""

import csv
import math
import statistics
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from marvel import Batch, InvalidInput, MarvelSemi, drawn
from marvel.clean.run import CleanRun
from marvel.config import Config, as_plain, filled
from marvel.data import Data
from marvel.experiment import Cell, Experiment
from marvel.fast import pack
from marvel.integrations.sklearn import MarvelClassifier
from marvel.method import margins
from marvel.methods.marvel_semi import (
    ERRORS,
    FEWEST,
    MEMORISED,
    MOST,
    PART,
    SETTLING,
    away_from,
    doubted_below,
    nearest,
)
from marvel.presets import PRESETS
from marvel.report.ablation import ablation, controls
from marvel.report.course import at
from marvel.run import Run, train
from toy import FEATURES, network, problem

N, CLASSES = 120, 3


def blobs(n: int = N) -> Data:
    x, y, _ = problem(n + 60, CLASSES, noise=0.0, seed=0)
    unit: dict[str, Any] = {"mean": (0.0,) * FEATURES, "std": (1.0,) * FEATURES}
    return Data("blobs", x[:n], y[:n], ("a", "b", "c"), x[n:], y[n:], **unit)


def images(n: int = 96) -> Data:
    """Three classes, told apart by their brightness; a network with BatchNorm sees them."""
    y = torch.arange(n + 30) % CLASSES
    x = torch.rand(n + 30, 1, 8, 8, generator=torch.Generator().manual_seed(0)) + y.view(-1, 1, 1, 1)
    return Data("small", x[:n], y[:n], ("a", "b", "c"), x[n:], y[n:], augment="crop-flip")


def config(method: str, epochs: int = 8, **options: Any) -> Config:
    return Config(
        data="blobs", noise="symmetric", rate=0.4, method=method, network="mlp", seed=1, epochs=epochs, batch=25,
        lr=0.02, drops=(), device="cpu", options=options,
    )  # fmt: skip


def early(n: int, classes: int, epochs: int | None = None, **options: Any) -> MarvelSemi:
    """Whose removal begins as margins count."""
    return MarvelSemi(n, classes, epochs, late=False, **options)


def follow(run: Run) -> list[dict[str, Tensor]]:
    """The state after every step."""
    states: list[dict[str, Tensor]] = []
    for _ in run.steps():
        own = {name: run.method.remembered()[name] for name in ("weight", "removed_at", "quality", "epochs_seen")}
        found = own | run.trainer.networks[0].state_dict()
        states.append({name: tensor.clone() for name, tensor in found.items()})
    return states


# ------------------------------------------------------------ MARVEL, where nothing of its own is left

NOTHING: dict[str, Any] = {
    "span": 0.0, "back": None, "over": 1.0, "guesses": False, "alpha": 0.0, "spread": 0.0, "by_weight": False,
    "warmup_cost": "ce", "gentle": 1.0, "zero": 0.0, "late": False,
}  # fmt: skip


@pytest.mark.parametrize("network", ["mlp", "cnn2"])
def test_with_nothing_of_its_own_it_is_marvel_step_by_step(network: str) -> None:
    """Without averaging the teacher is the student, BatchNorm included: the same draws, weights, removals, network."""
    data = blobs() if network == "mlp" else images()
    ways = [("marvel", {}), ("marvel-semi", NOTHING)]
    ours, theirs = (
        follow(Run(config(method, warmup=2, wait=2, **options).but(network=network, lr=0.05), data=data))
        for method, options in ways
    )
    assert len(ours) == len(theirs)
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, msg=lambda m, at=(step, name): f"{at}: {m}")
    assert 0 < int((ours[-1]["removed_at"] > 0).sum()) < len(data)


@pytest.mark.parametrize("option", sorted(set(NOTHING) - {"back", "over"}))
def test_every_part_of_its_own_makes_a_difference(option: str) -> None:
    """What the test above leaves out is not left out by accident."""
    less = {name: value for name, value in NOTHING.items() if name != option}
    less |= {"wait": 2, "ramp": 2}
    ways = [config("marvel-semi", warmup=2, **options).but(lr=0.05) for options in (less, NOTHING | {"wait": 2})]
    # Of fewer instances it is read off no margins where labels are doubted.
    both = [follow(Run(way, data=blobs(FEWEST if option == "zero" else N)))[-1] for way in ways]
    assert any(not torch.equal(both[0][name], both[1][name]) for name in both[0])


# ------------------------------------------------------------ the ledger


def hear(criterion: MarvelSemi, margin: Tensor | list[float], logits: Tensor | None = None) -> None:
    """An epoch in which the first instances are seen, labels of class 0, with these margins."""
    rows = torch.arange(len(margin))
    says = torch.zeros(len(rows), criterion.classes) if logits is None else logits
    criterion.record(rows, torch.as_tensor(margin), torch.zeros_like(rows))
    criterion.listen(says, torch.zeros_like(rows), rows)
    criterion.step()


def brute(
    history: list[list[float | None]], warm: int, wait: int, back: int | None, count: bool, zero: float
) -> list[tuple[int, int]]:
    """(removed at, returned at) of each instance, from all its margins, read anew after every epoch."""
    found = []
    for own in history:
        removed_at = returned_at = 0
        for epoch in range(max(1, warm) if count else warm + 1, len(own) + 1):
            if own[epoch - 1] is None:
                continue
            seen = [m for m in own[0 if count else warm : epoch] if m is not None]
            if not removed_at and len(seen) >= wait and all(m < zero for m in seen[-wait:]):
                removed_at = epoch
            elif removed_at and back is not None and len(seen) >= back and all(m > zero for m in seen[-back:]):
                removed_at, returned_at = 0, epoch
        found.append((removed_at, returned_at))
    return found


margin = st.one_of(st.none(), st.sampled_from([-2.0, -1.0, -1e-6, 0.0, 1e-6, 0.5, 1.0]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12).flatmap(lambda e: st.lists(st.lists(margin, min_size=e, max_size=e), min_size=1, max_size=6)),
    st.integers(0, 3),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(1, 3)),
    st.booleans(),
    st.sampled_from([0.0, -1.0, 0.5]),
)
def test_a_history_of_leaving_and_returning(
    history: list[list[float | None]], warm: int, wait: int, back: int | None, count: bool, zero: float
) -> None:
    options: dict[str, Any] = {"back": back, "count_warmup": count, "ramp": 2, "over": 1.0, "zero": zero}
    criterion = early(len(history), CLASSES, warmup=warm, wait=wait, **options)
    for epoch in range(len(history[0])):
        seen = [own[epoch] for own in history]
        mask = torch.tensor([m is not None for m in seen])
        rows = mask.nonzero().squeeze(1)
        criterion.record(rows, torch.tensor([m for m in seen if m is not None]), torch.zeros_like(rows))
        criterion.listen(torch.zeros(len(rows), CLASSES), torch.zeros_like(rows), rows)
        criterion.step()
        so_far = brute([own[: epoch + 1] for own in history], warm, wait, back, count, zero)
        assert list(zip(criterion.removed_at.tolist(), criterion.returned_at.tolist(), strict=True)) == so_far
        kept = [removed_at == 0 for removed_at, _ in so_far]
        assert criterion.weight[torch.tensor(kept)].tolist() == [1] * sum(kept)
        guessed = min(1.0, (epoch + 2 - warm) / 2)
        assert criterion.used.tolist() == pytest.approx([1 if one else guessed for one in kept])


@pytest.mark.parametrize(("by_heart", "after", "when"), [(0.0, 0, "last"), (0.05, 8, "between"), (2.0, 0, "first")])
@pytest.mark.parametrize(("n", "warm", "count"), [(300, 2, False), (300, 2, True), (300, 0, True), (FEWEST, 2, False)])
def test_removal_begins_as_planted_labels_are_memorised(
    by_heart: float, after: int, when: str, n: int, warm: int, count: bool
) -> None:
    """Against means counted one by one: after some epochs, planted labels are said more and more. As many instances
    again are never seen, and count for nothing."""
    epochs, g = 40, torch.Generator().manual_seed(0)
    options: dict[str, Any] = {"warmup": warm, "wait": 1, "back": None, "count_warmup": count}
    criterion = MarvelSemi(2 * n, CLASSES, epochs, **options)
    planted = criterion.beside.tolist()
    first = max(1, warm) if count else warm + 1
    first = first if 2 * n < FEWEST else warm + SETTLING
    leaning, begun = 0.1 * torch.randn(n, CLASSES, generator=g), 0
    said: list[list[float]] = [[] for _ in range(n)]
    for epoch in range(1, epochs + 1):
        m = n if epoch % 3 else n // 2
        says = leaning[:m] + 0.01 * torch.randn(m, CLASSES, generator=g)
        for i in range(m):
            says[i, planted[i]] += by_heart * max(0, epoch - after) * (planted[i] > 0)
        hear(criterion, margins(says, torch.zeros(m, dtype=torch.long))[0], says)
        said[:m] = says.double().softmax(1).tolist()
        found = [said[i][planted[i]] for i in range(n) if planted[i]]
        chance = [sum(said[i][1:]) / (CLASSES - 1) for i in range(n) if not planted[i]]
        apart = statistics.mean(found) - statistics.mean(chance)
        memorised = apart > max(MEMORISED, ERRORS * statistics.stdev(found) / math.sqrt(len(found)))
        if not begun and epoch >= first and (memorised or epoch == epochs):
            begun = epoch
        assert int(criterion.began) == criterion.chosen.get("removal_from", 0) == begun, epoch
        assert criterion.removed.any() == bool(begun)
    assert {"first": begun == first, "between": 8 < begun < epochs, "last": begun == epochs}[when]


def test_planted_labels_are_others_and_taught_until_removal_begins() -> None:
    everyone, y = torch.arange(201), torch.arange(201) % CLASSES
    criterion = MarvelSemi(201, CLASSES, 9, warmup=0)
    taught = criterion.taught(everyone, y)
    assert int((taught != y).sum()) == math.ceil(201 / PART) and {0, 1, 2} == set(taught.tolist())
    assert torch.equal(taught != y, criterion.beside > 0)
    criterion.record(everyone, torch.ones(201), y)
    criterion.listen(torch.eye(CLASSES)[taught], y, everyone)  # as if known by heart
    criterion.step()
    assert int(criterion.began) == 1 and torch.equal(criterion.taught(everyone, y), y)
    for classes, options in ((CLASSES, {"late": False}), (CLASSES, {"removal": False}), (2, {})):
        other = MarvelSemi(201, classes, 9, **options)
        assert not other.beside.any() and torch.equal(other.taught(everyone, y % classes), y % classes)


def test_of_two_classes_removal_begins_as_margins_count() -> None:
    criterion = MarvelSemi(4, 2, 9, warmup=1, wait=1)
    for _ in range(2):
        assert not criterion.removed.any()
        hear(criterion, [-1.0, 1.0, -1.0, 1.0])
    assert criterion.removed.tolist() == [True, False, True, False] and "removal_from" not in criterion.chosen


def test_without_a_number_of_epochs_removal_begins_in_the_hundredth() -> None:
    criterion = MarvelSemi(100, CLASSES, warmup=1, wait=1)
    for epoch in range(1, 101):
        assert int(criterion.began) == 0, epoch
        hear(criterion, torch.full((100,), -1.0))
    assert int(criterion.began) == 100 and criterion.removed.all()


@pytest.mark.parametrize(("classes", "noise"), [(3, 0.1), (10, 0.2), (10, 0.8)])
@pytest.mark.parametrize("n", [100, 1000, 20_000])
def test_where_nothing_is_memorised_removal_seldom_begins(n: int, classes: int, noise: float) -> None:
    """A teacher that knows the true classes alone, and not always; whether a label is planted plays no part in it."""
    begins, g = 0, torch.Generator().manual_seed(0)
    for _ in range(40):
        criterion, rows = MarvelSemi(n, classes, 60), torch.arange(n)
        true, other = (torch.randint(classes, (n,), generator=g) for _ in range(2))
        wrong, knows = torch.rand(n, generator=g) < noise, torch.rand(n, generator=g) < 0.8
        says = torch.where(knows, true, torch.randint(classes, (n,), generator=g))
        criterion.listen(4.0 * F.one_hot(says, classes), torch.where(wrong, other, true), rows)
        begins += criterion.memorises
    assert begins <= 3


def test_a_planted_label_never_speaks_against_its_instance() -> None:
    """Where the teacher has learnt it by heart: not in the margin; from removal's beginning on not in the guess, and
    what was noted before then is forgotten."""
    n, classes = 60, 4
    everyone, y = torch.arange(n), torch.arange(n) % classes
    criterion = MarvelSemi(n, classes, 9, warmup=1, wait=1)
    planted, at = criterion.planted(everyone, y), criterion.beside > 0
    assert torch.equal(planted >= 0, at) and int(at.sum()) == n / PART
    says = 2.0 * F.one_hot(y, classes) + 0.3 * F.one_hot((y + 1) % classes, classes)
    by_heart = says + 9.0 * F.one_hot(planted.clamp(min=0), classes) * at[:, None]

    def epoch(logits: Tensor) -> None:
        nothing = torch.zeros(n)
        heard = (logits, logits, everyone, y, torch.zeros_like(everyone), nothing + 1, nothing + 1, planted)
        criterion(heard, y, everyone)
        criterion.step()

    epoch(by_heart - 5.0 * F.one_hot(y, classes))  # the first margins are negative
    assert (criterion.quality[at] < 0).all() and torch.equal(criterion.guess[at].argmax(1), planted[at])
    epoch(by_heart)
    naive = [min(float(by_heart[i, y[i]] - by_heart[i, k]) for k in range(classes) if k not in (y[i], planted[i]))
             for i in at.nonzero().flatten().tolist()]  # fmt: skip
    assert int(criterion.began) == 2 and min(naive) > 0 and not criterion.removed[at].any()
    assert criterion.guess[at].gather(1, planted[at][:, None]).max() == 0
    assert not (criterion.suggested == planted)[at].any()
    assert criterion.guess.sum(1).tolist() == pytest.approx([1] * n)
    epoch(by_heart)
    assert criterion.quality[at].tolist() == pytest.approx(naive, abs=1e-5)  # of that epoch alone
    assert criterion.epochs_seen.tolist() == [2 if one else 3 for one in at.tolist()]
    assert not criterion.removed.any() and criterion.guess[at].gather(1, planted[at][:, None]).max() == 0


def test_a_planted_label_is_not_suggested_before_removal_begins_either() -> None:
    """In a training that is too short for it, say."""
    n, classes = 60, 4
    everyone, y = torch.arange(n), torch.zeros(n, dtype=torch.long)
    criterion = MarvelSemi(n, classes, 1)
    planted, at = criterion.planted(everyone, y), criterion.beside > 0
    second = torch.where(planted == 1, 2, 1)  # likeliest but for what is planted
    says = 9.0 * F.one_hot(planted.clamp(min=0), classes) * at[:, None] + F.one_hot(second, classes)
    hear(criterion, torch.ones(n), says)
    assert int(criterion.began) == 0 and torch.equal(criterion.guess[at].argmax(1), planted[at])
    assert torch.equal(criterion.suggested.long(), second) and torch.equal(criterion.competitor.long(), second)


def test_what_is_planted_may_be_known_before_anything_can_be_removed() -> None:
    """It ends then, and removal is said to begin with the first epoch it can."""
    n = 60
    everyone, y = torch.arange(n), torch.zeros(n, dtype=torch.long)
    criterion = MarvelSemi(n, CLASSES, 20, warmup=2, wait=4)
    for epoch in range(1, 7):
        assert not criterion.removed.any()
        hear(criterion, torch.full((n,), -1.0), 9.0 * F.one_hot(criterion.taught(everyone, y), CLASSES))
        assert bool(criterion.began) == (epoch > 2) and ("removal_from" in criterion.chosen) == (epoch == 6)
    assert criterion.chosen["removal_from"] == 6 == int(criterion.removed_at.max())
    assert torch.equal(criterion.taught(everyone, y), y)


def test_planted_right_labels_are_not_removed_nor_suggested_otherwise() -> None:
    """Of a network that soon knows every label by heart: none of those whose own label is right."""
    g = torch.Generator().manual_seed(0)
    n, classes, features = 500, 5, 100
    y = torch.randint(classes, (n,), generator=g)
    x = 0.25 * torch.randn(classes, features, generator=g)[y] + torch.randn(n, features, generator=g)
    unit: dict[str, Any] = {"mean": (0.0,) * features, "std": (1.0,) * features}
    run = train(config("marvel-semi", 30).but(rate=0.2, batch=16), data=Data("faint", x, y, tuple("abcde"), **unit))
    method, given = run.method, run.trainer.y
    assert isinstance(method, MarvelSemi) and 0 < int(method.began) < 15
    right = (given == y) & (method.beside > 0)
    assert int(right.sum()) > 15 and not method.removed[right].any()
    assert not (method.suggested == method.planted(torch.arange(n), given))[method.beside > 0].any()


def test_planted_labels_are_found_among_very_many_classes() -> None:
    """Two class numbers added up are more than the type of either holds."""
    n, classes = 40, 20_000
    criterion = MarvelSemi(n, classes, 9, warmup=0)
    everyone, y = torch.arange(n), torch.full((n,), classes - 1)
    criterion.beside[:] = (criterion.beside > 0) * (classes - 1)
    criterion.record(everyone, torch.ones(n), y)
    criterion.listen(30.0 * F.one_hot(criterion.taught(everyone, y), classes), y, everyone)  # as if known by heart
    criterion.step()
    assert int(criterion.began) == 1


def test_every_other_class_is_planted_alike() -> None:
    beside = MarvelSemi(60_000, 10, 9).beside
    counts = np.bincount(beside[beside > 0].numpy())[1:]
    assert counts.sum() == MOST and len(counts) == 9 and stats.chisquare(counts).pvalue > 0.01
    assert int((MarvelSemi(1, 3, 9).beside > 0).sum()) == 1


def test_in_a_training_removal_waits_for_memorising() -> None:
    asked = config("marvel-semi", 60, warmup=5).but(lr=0.05)
    late, early = (train(one, data=blobs(240)) for one in (asked, asked.but(options={"warmup": 5, "late": False})))
    began = int(late.method.chosen["removal_from"])
    removed_at = late.method.removed_at[late.method.removed]
    assert 6 < began < 60 and len(removed_at) > 50 and int(removed_at.min()) >= began
    assert int(early.method.removed_at[early.method.removed].min()) < began


def test_nothing_is_removed_where_it_shall_not_be() -> None:
    criterion = MarvelSemi(4, CLASSES, warmup=1, wait=1, removal=False)
    for _ in range(4):
        criterion.record(torch.arange(4), torch.full((4,), -1.0), torch.zeros(4))
        criterion.step()
    assert not criterion.removed.any() and criterion.weight.tolist() == [1] * 4


def test_a_change_of_sides_begins_a_new_count() -> None:
    criterion = early(2, 2, warmup=0, wait=2, back=2)
    removed = []
    for own in (-1.0, -1.0, 1.0, 1.0, -1.0, -1.0):
        hear(criterion, [own, 1.0])
        removed.append(bool(criterion.removed[0]))
    assert removed == [False, True, True, False, False, True]


@pytest.mark.parametrize("back", [None, 127])
def test_the_longest_wait_and_the_longest_way_back(back: int | None) -> None:
    criterion = early(2, 2, warmup=0, wait=127, back=back)
    removed = []
    for epoch in range(300):
        hear(criterion, [-1.0 if epoch < 127 else 1.0, 1.0])
        removed.append(bool(criterion.removed[0]))
    assert removed.index(True) == 126 and removed[-1] == (back is None)


def test_a_count_longer_than_the_longest_wait_goes_on() -> None:
    criterion = early(1, 2, warmup=200, wait=2, count_warmup=True)
    for _ in range(200):
        hear(criterion, [-1.0])
    assert criterion.removed.all()


def test_over_counts_the_guesses_that_are_sure_enough() -> None:
    sure, unsure, kept = [0.0, 9.0], [0.0, 0.0], [9.0, 0.0]
    criterion = early(10, 2, warmup=0, wait=1, back=None, tau=0.9, ramp=1)
    hear(criterion, [-1.0] * 9 + [1.0], torch.tensor([sure] * 4 + [unsure] * 5 + [kept]))
    assert float(criterion.over) == pytest.approx(2)
    assert float(criterion.used[-1] / criterion.used.sum()) == pytest.approx(1 / 3)
    criterion = early(2, 2, warmup=0, wait=1, tau=0.5, ramp=1)
    hear(criterion, [-1.0, 1.0])
    assert criterion.weight.tolist() == [0, 1]  # as sure as tau is not surer


def test_the_mean_prediction_is_of_what_was_seen() -> None:
    criterion = MarvelSemi(9, 2, warmup=5)
    hear(criterion, [1.0, 1.0, 1.0])
    assert criterion.prior.tolist() == [0.5, 0.5]


# ------------------------------------------------------------ where labels are doubted


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-90, 90).filter(bool).map(lambda tenths: tenths / 10), max_size=20),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_the_cut_is_the_best_of_all(found: list[float], doubt: float) -> None:
    """For every cut, one by one, what the equations at the head of the file say lies beyond it."""
    sizes = sorted({abs(m) for m in found}, reverse=True)
    best, wanted = 0.0, -math.inf
    for cut, following in zip(sizes, [*sizes, 0.0][1:], strict=True):
        total = 0.0
        for m in found:
            u, here, there = abs(m), float(m < 0), float(m > 0)  # f(-u), f(u)
            if u >= cut:
                e = math.exp(-max(u, nearest(len(found))))
                wrong, right = (here - e * there) / (1 - e * e), e * (there - e * here) / (1 - e * e)
                total += wrong - doubt * right
        if total > best + 1e-9:
            best, wanted = total, -following
    assert float(doubted_below(torch.tensor(found), doubt)) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("margin", "z"),
    [
        ([0.2, 0.2, -0.04] * 4000, 0.0),  # coth 0.1 = 10.03 against 2 / sinh 0.2 = 9.93
        ([0.2, 0.2, 0.2, -0.04] * 4000, -math.inf),
        ([0.2, 0.2, -0.04] * 334, -math.inf),  # of a thousand, as at 10 / sqrt(1002) = 0.32: 3.3 against 6.2
        ([2.0, 0.0], -math.inf),  # 0 is not negative
        ([-2.0] * 5, 0.0),
    ],
)
def test_the_cut_by_hand(margin: list[float], z: float) -> None:
    assert float(doubted_below(torch.tensor(margin), 1.0)) == z


@pytest.mark.parametrize("doubt", [1.0, 3.0])
def test_z_is_of_what_was_seen_where_that_is_enough(doubt: float) -> None:
    criterion = MarvelSemi(3000, 2, warmup=1, wait=1, doubt=doubt)
    margin = torch.linspace(-4, 6, 2000)
    for _ in range(1 + SETTLING):
        hear(criterion, margin)
    z = float(doubted_below(margin, doubt))
    assert float(criterion.below) == z and criterion.chosen["zero"] == round(z, 4)
    hear(criterion, margin[: FEWEST - 1])
    assert float(criterion.below) == z


def test_each_margin_is_held_against_the_z_of_its_epoch() -> None:
    """Also before anything moves: what was not doubted then must wait."""
    before = torch.cat([torch.linspace(0.5, 6, 900), torch.linspace(-6, -4, 99), torch.tensor([-0.3])])
    last = torch.cat([before[:-1], torch.tensor([-5.0])])
    criterion = early(1000, 2, warmup=1, wait=SETTLING)
    for margin in (*[before] * SETTLING, last):
        hear(criterion, margin)
    assert criterion.removed[900:].tolist() == [True] * 99 + [False] and int(criterion.streak[-1]) == 1


def test_no_z_is_said_where_nothing_is_removed_nor_one_below_nought() -> None:
    for options, said in (({"removal": False}, None), ({}, 0.0)):
        criterion = MarvelSemi(FEWEST, 2, warmup=1, **options)
        for _ in range(8):
            hear(criterion, [-2.0] * FEWEST)
        assert criterion.chosen.get("zero") == said and "-0.0" not in str(criterion.chosen)


@pytest.mark.parametrize("wrong", [0.0, 0.03, 0.2, 0.4, 0.7])
def test_a_judge_who_is_right_as_often_as_it_says_doubts_as_bayes_does(wrong: float) -> None:
    """Two classes: a label at -u is right with odds (1 - wrong) e^-u : wrong, which are even at z."""
    g = torch.Generator().manual_seed(0)
    says = 3 * torch.randn(200_000, generator=g)
    truth = torch.rand(len(says), generator=g) < says.sigmoid()
    given = truth ^ (torch.rand(len(says), generator=g) < wrong)
    z = float(doubted_below(torch.where(given, says, -says), 1.0))
    if wrong == 0:
        assert float((torch.where(given, says, -says) < z).float().mean()) < 1e-3
    else:
        assert z == pytest.approx(min(0.0, -math.log((1 - wrong) / wrong)), abs=0.3)


@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.4, 0.8])
def test_with_ten_classes_little_is_lost_against_who_knows_the_wrong_labels(wrong: float) -> None:
    """Of each instance two classes are in question, as for a teacher that has learnt much."""
    g = torch.Generator().manual_seed(0)
    n, classes = 50_000, 10
    z = torch.randn(n, classes, generator=g)
    z.scatter_add_(1, torch.rand(n, classes, generator=g).topk(2).indices, 7 + 2.5 * torch.randn(n, 2, generator=g))
    truth = z.softmax(1).multinomial(1, generator=g).squeeze(1)
    flipped = torch.rand(n, generator=g) < wrong
    given = torch.where(flipped, (truth + torch.randint(1, classes, (n,), generator=g)) % classes, truth)
    margin = margins(z, given)[0]

    def lost(cut: float) -> int:
        """Right labels that are doubted, and wrong ones that are not, of those below 0."""
        return int(((margin < cut) & ~flipped).sum() + ((margin >= cut) & (margin < 0) & flipped).sum())

    ours = lost(float(doubted_below(margin, 1.0)))
    assert ours < min(lost(-0.1 * k) for k in range(100)) + 0.02 * n
    assert wrong > 0.3 or lost(0.0) > 1.3 * ours


def test_labels_are_doubted_once_the_teacher_has_settled_and_believed_again_when_nothing_is_wrong() -> None:
    noisy = torch.tensor([3.0] * 34 + [0.6] * 6 + [-0.5] * 4 + [-3.0] * 16).repeat(20)
    n = len(noisy)
    noisy -= 1e-5 * torch.arange(n)
    criterion = early(n, 2, warmup=1, wait=2, back=1, ramp=1)
    assert -3.001 < float(doubted_below(noisy, 1.0)) < -0.6
    found = []
    for epoch in range(1, 1 + SETTLING + 3):
        hear(criterion, noisy if epoch <= 1 + SETTLING else torch.full((n,), 3.0))
        found.append(int(criterion.removed.sum()))
        assert ("zero" in criterion.chosen) == (epoch == 1 + SETTLING)  # nothing is doubted afterwards
    assert found[:SETTLING] == [0] * SETTLING and 16 * 20 - 1 <= found[SETTLING] <= 16 * 20 and found[-2:] == [0, 0]


@pytest.mark.parametrize(
    ("n", "options", "soonest"),
    [
        (FEWEST, {"warmup": 2}, 2 + SETTLING),
        (FEWEST, {"warmup": 2, "wait": 7}, 9),
        (FEWEST, {"warmup": 2, "zero": 0.0}, 5),
        (FEWEST - 1, {"warmup": 2}, 5),
        (FEWEST - 1, {"warmup": 2, "count_warmup": True}, 3),
        (FEWEST - 1, {"warmup": 4, "count_warmup": True}, 4),
        (FEWEST, {"warmup": 4, "count_warmup": True}, 4 + SETTLING),
        (FEWEST, {}, 1 + SETTLING),
    ],
)
def test_the_first_epoch_that_removes_is_the_soonest(n: int, options: dict[str, Any], soonest: int) -> None:
    criterion = early(n, 2, 12, **options)
    assert criterion.soonest == soonest and early(n, 2, 12, **options, removal=False).soonest == 1
    margin = torch.where(torch.arange(n) % 5 == 0, -3.0, 3.0)
    for _ in range(soonest):
        assert not criterion.removed.any()
        hear(criterion, margin)
    assert criterion.removed.any()


def test_of_few_instances_every_negative_margin_speaks_against_its_label() -> None:
    criterion = early(FEWEST - 1, 2, warmup=0, wait=1, back=1)
    criterion.record(torch.arange(3), torch.tensor([-0.1, -2.0, 1.0]), torch.zeros(3))
    criterion.step()
    assert criterion.removed.nonzero().flatten().tolist() == [0, 1] and "zero" not in criterion.chosen


# ------------------------------------------------------------ draws


def test_draws_follow_their_weights() -> None:
    """Chi-squared over many epochs; what has no weight is never drawn."""
    weight = torch.tensor([0.0, 0.1, 0.5, 1.0, 2.0, 0.0, 3.7, 0.33])
    counts = np.zeros(len(weight))
    for seed in range(400):
        index = drawn(weight, 50, torch.Generator().manual_seed(seed))
        once = np.bincount(index.numpy(), minlength=len(weight))
        expected = 50 * weight.numpy() / weight.sum().item()
        assert (once >= np.floor(expected - 1e-9)).all() and (once <= np.ceil(expected + 1e-9)).all()
        counts += once
    expected = 400 * 50 * weight.numpy() / weight.sum().item()
    assert not counts[weight == 0].any()
    live = weight.numpy() > 0
    assert stats.chisquare(counts[live], expected[live] * counts.sum() / expected.sum()).pvalue > 0.01


def test_neighbours_are_drawn_independently_enough() -> None:
    """Half of them: marks at equal distances in a fixed order would draw an instance or its neighbour, never both."""
    both = sum(
        len({0, 1} & set(drawn(torch.ones(20), 10, torch.Generator().manual_seed(seed)).tolist())) == 2
        for seed in range(1000)
    )
    assert stats.binomtest(both, 1000, (10 / 20) * (9 / 19)).pvalue > 1e-3


def test_equal_weights_give_a_permutation_and_none_give_one_too() -> None:
    for weight in (torch.full((37,), 0.3), torch.zeros(37)):
        index = drawn(weight, 37, torch.Generator().manual_seed(0))
        assert sorted(index.tolist()) == list(range(37)) != index.tolist()


def test_the_places_of_what_is_drawn_are_random() -> None:
    """A batch is no stretch of the order in which weights were laid out: copies of one instance are spread."""
    index = drawn(torch.tensor([10.0, *[1.0] * 10]), 2000, torch.Generator().manual_seed(0))
    halves = [(index[:1000] == 0).sum().item(), (index[1000:] == 0).sum().item()]
    assert sum(halves) == 1000 and 440 < halves[0] < 560


def test_the_student_draws_what_it_may_believe() -> None:
    criterion = MarvelSemi(10, CLASSES, epochs=12, warmup=1)
    criterion.removed_at[:6] = 1
    criterion.weight[:6] = torch.tensor([0.0, 0.0, 0.4, 0.8, 0.8, 1.0])
    criterion.trust.fill_(0.5)
    teacher, student = (torch.cat(parts) for parts in zip(*criterion.draws(torch.Generator().manual_seed(0), 4)))
    assert sorted(teacher.tolist()) == list(range(10))
    assert len(student) == 10 and not {0, 1} & set(student.tolist())
    torch.testing.assert_close(criterion.used, torch.tensor([0, 0, 0.2, 0.4, 0.4, 0.5, 1, 1, 1, 1]))


# ------------------------------------------------------------ what is chosen


@pytest.mark.parametrize(("kept", "over"), [(5, 0.5), (40, 2.0), (10, 1.0)])
def test_over_says_how_much_more_often_a_kept_instance_is_drawn(kept: int, over: float) -> None:
    n = 50
    criterion = early(n, 2, warmup=0, wait=1, ramp=1, over=over)
    criterion.record(torch.arange(n), torch.where(torch.arange(n) < kept, 1.0, -1.0), torch.zeros(n))
    criterion.listen(torch.randn(n, 2), torch.zeros(n, dtype=torch.long), torch.arange(n))
    criterion.step()
    assert int(criterion.removed.sum()) == n - kept
    counts = torch.zeros(n)
    for seed in range(200):
        for _, student in criterion.draws(torch.Generator().manual_seed(seed), 10):
            counts += torch.bincount(student, minlength=n)
    assert float(counts[:kept].mean() / counts[kept:].mean()) == pytest.approx(over, rel=0.05)


@pytest.mark.parametrize(("kept", "over"), [(40, 1.0), (20, 1.0), (10, 2.0), (1, 24.5)])
def test_kept_instances_have_a_third_of_the_draws(kept: int, over: float) -> None:
    n = 50
    criterion = early(n, 2, warmup=0, wait=1, ramp=1)
    criterion.record(torch.arange(n), torch.where(torch.arange(n) < kept, 1.0, -1.0), torch.zeros(n))
    criterion.listen(torch.randn(n, 2), torch.zeros(n, dtype=torch.long), torch.arange(n))
    criterion.step()
    assert int(criterion.removed.sum()) == n - kept
    assert float(criterion.over) == pytest.approx(over) and criterion.chosen["over"] == pytest.approx(over)
    assert float(criterion.used[:kept].sum() / criterion.used.sum()) == pytest.approx(max(1 / 3, kept / n))


def test_guesses_come_in_over_the_ramp_and_may_need_to_be_sure() -> None:
    criterion = early(4, 2, warmup=1, wait=1, back=None, over=2.0, tau=0.6, ramp=4, lean=0.8)
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.1], [0.0, 2.0], [5.0, 0.0]])
    found, leaning = [], []
    for _ in range(6):
        criterion.record(torch.arange(4), torch.tensor([-1.0, -1.0, -1.0, 1.0]), torch.zeros(4))
        criterion.listen(logits, torch.zeros(4, dtype=torch.long), torch.arange(4))
        criterion.step()
        found.append(criterion.used.tolist())
        leaning.append(float(criterion.leaning))
    assert leaning == pytest.approx([0, 0.4, 0.6, 0.8, 0.8, 0.8])  # whatever `over` is
    assert [row[:2] for row in found[1:]] == [[0, 0]] * 5 and [row[3] for row in found] == [1] * 6
    assert [row[2] for row in found] == pytest.approx([1, 0.25, 0.375, 0.5, 0.5, 0.5])
    assert criterion.suggested.tolist() == [-1, 1, 1, -1]
    assert criterion.competitor.tolist() == [1, 1, 1, 1]


def test_the_learning_rate_rises_with_the_ramp_once_the_warm_up_is_over() -> None:
    criterion = MarvelSemi(4, 2, warmup=2, ramp=4, gentle=0.02)
    found = []
    for _ in range(8):
        found.append(criterion.lr(0.1))
        criterion.record(torch.arange(4), torch.ones(4), torch.zeros(4))
        criterion.step()
    assert found == pytest.approx([0.02, 0.02, 0.04, 0.06, 0.08, 0.1, 0.1, 0.1])
    assert MarvelSemi(4, 2, gentle=0.02).lr(0.01) == 0.01


@pytest.mark.parametrize(("epochs", "warmup"), [(5, 1), (24, 2), (60, 5), (115, 10), (200, 17), (None, 8)])
def test_the_warm_up_is_a_twelfth_of_the_epochs(epochs: int | None, warmup: int) -> None:
    criterion = MarvelSemi(10, 2, epochs)
    assert criterion.warmup == criterion.chosen["warmup"] == warmup


@pytest.mark.parametrize(
    "options",
    [
        {"over": 0.0},
        {"over": 2000.0},
        {"over": "much"},
        {"tau": 1.5},
        {"back": 0},
        {"back": 200},
        {"span": -1.0},
        {"alpha": 0.001},
        {"gentle": 0.0},
        {"strong": 2.0},
        {"lean": -0.5},
        {"lean": math.nan},
        {"gentle": math.nan},
        {"span": math.inf},
        {"spread": math.nan},
        {"temperature": 0.0},
        {"ramp": 2.5},
        {"back": 2.5},
        {"back": True},
        {"zero": "low"},
        {"zero": math.nan},
        {"zero": 10**400},
        {"doubt": 0.0},
        {"doubt": math.nan},
    ],
)
def test_what_it_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        MarvelSemi(10, 2, **options)


# ------------------------------------------------------------ the loss, derived once more


class Doubled:
    """Views that can be told apart: weak is the instance, strong its double."""

    weak_uniforms = 0
    strong_uniforms = 0

    def weak(self, x: Tensor, u: Tensor) -> Tensor:
        return x

    def strong(self, x: Tensor, u: Tensor, strength: float) -> Tensor:
        return 2 * x


@pytest.mark.parametrize(("warm", "begun"), [(True, False), (False, False), (False, True)])
def test_targets_and_loss_by_hand(warm: bool, begun: bool) -> None:
    """One step of five instances for each of teacher and student, one number at a time: in the warm-up, before removal
    begins, and after."""
    n, T, spread, lean = 8, 0.7, 0.3, 0.4
    x, y, _ = problem(n, CLASSES, 0.0, seed=0)
    g = torch.Generator().manual_seed(3)
    criterion = MarvelSemi(n, CLASSES, 12, warmup=3, temperature=T, spread=spread, lean=lean)
    criterion.over.fill_(1.6)
    criterion.trust.fill_(0.5)  # so that r is 0.8
    criterion.clock.fill_(2 if warm else 7)
    criterion.beside = torch.tensor([0, 1, 2, 0, 2, 0, 0, 1])
    if begun:
        criterion.began.fill_(5)
        criterion.removed_at[[1, 4, 6]] = 5
    planted = (y + criterion.beside) % CLASSES
    learnt_y = y if begun else planted
    criterion.guess = torch.rand(n, CLASSES, generator=g).softmax(1)
    criterion.guess[2] = 0  # not seen yet
    criterion.prior, criterion.share = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.5, 0.25, 0.25])
    shown, learnt = torch.tensor([1, 2, 7, 0, 3]), torch.tensor([4, 1, 0, 5, 4])
    u = torch.rand(5, 2, generator=g)
    batches = [Batch(i, y[i], x[i], Doubled(), lambda k: u[:, :k]) for i in (shown, learnt)]
    student, teacher = network(0), network(1)

    guess = criterion.guess.clone()
    for i in shown.tolist():
        p = teacher(x[i : i + 1]).detach().softmax(1)[0]
        if begun and criterion.beside[i]:
            p[planted[i]] = 0
            p = p / p.sum()
        guess[i] = p if guess[i].sum() == 0 else 0.5 * guess[i] + 0.5 * p

    def taught(i: int) -> tuple[Tensor, Tensor]:
        raw = [(float(guess[i, k] * criterion.share[k] / criterion.prior[k])) ** (1 / T) for k in range(CLASSES)]
        guessed = torch.tensor(raw) / sum(raw)
        if not begun or i not in (1, 4, 6):
            return x[i], (1 - 0.8 * lean) * torch.eye(CLASSES)[learnt_y[i]] + 0.8 * lean * guessed
        return 2 * x[i], guessed

    partner = sorted(range(5), key=lambda row: float(u[row, 0]))
    share = 1.0 if warm else max(float(u[0, 1]), 1 - float(u[0, 1]))
    expected, mean = torch.zeros(()), torch.zeros(CLASSES)
    for row, other in enumerate(partner):
        (x_i, t_i), (x_j, t_j) = taught(int(learnt[row])), taught(int(learnt[other]))
        log_p = student((share * x_i + (1 - share) * x_j)[None]).log_softmax(1)[0]
        mean = mean + log_p.exp() / 5
        if warm:
            expected = expected + (1 - log_p[learnt_y[learnt[row]]].exp() ** 0.7) / 0.7 / 5
        else:
            expected = expected - ((share * t_i + (1 - share) * t_j) * log_p).sum() / 5
    if not warm:
        expected = expected + spread * sum(s * torch.log(s / m) for s, m in zip(criterion.share, mean, strict=True))

    loss = criterion(criterion.outputs([student, teacher], *batches), y[shown], shown)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    ours = torch.autograd.grad(loss, list(student.parameters()))
    theirs = torch.autograd.grad(expected, list(student.parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(criterion.guess, guess)
    logits = teacher(x).detach().tolist()
    naive = [
        logits[i][y[i]] - max(logits[i][k] for k in range(CLASSES) if k not in (y[i], planted[i]))
        for i in shown.tolist()
    ]
    assert criterion.margin[shown].tolist() == pytest.approx(naive, abs=1e-5)
    assert int(criterion.visits.sum()) == 5 and not criterion.margin[[4, 5]].any()
    assert all(p.grad is None for p in teacher.parameters())


def test_the_prior_is_what_the_teacher_said_and_the_share_what_was_given() -> None:
    criterion = MarvelSemi(4, 2, warmup=5)
    logits, y = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1.0, 4.0]]), torch.tensor([0, 0, 1, 0])
    for rows in (torch.tensor([0, 1, 2]), torch.tensor([3])):
        criterion.record(rows, torch.zeros(len(rows)), torch.zeros(len(rows)))
        criterion.listen(logits[rows], y[rows], rows)
    criterion.step()
    torch.testing.assert_close(criterion.prior, logits.softmax(1).mean(0))
    assert criterion.share.tolist() == [0.75, 0.25]
    criterion.step()  # an epoch that nobody was seen in changes nothing
    assert criterion.share.tolist() == [0.75, 0.25]
    torch.testing.assert_close(criterion.prior, logits.softmax(1).mean(0))


def test_costs_that_are_weighted_instead_of_drawn_by_hand() -> None:
    """`by_weight=False`: what has no weight counts neither in the costs nor in the mean prediction, and is mixed into
    nothing."""
    n, spread = 6, 0.3
    x, y, _ = problem(n, CLASSES, 0.0, seed=0)
    g = torch.Generator().manual_seed(5)
    criterion = early(n, CLASSES, 12, warmup=3, spread=spread, lean=0.0, temperature=1.0, by_weight=False)
    criterion.clock.fill_(7)
    criterion.removed_at[[1, 3, 4]] = 5
    criterion.weight[[1, 3, 4]] = torch.tensor([0.0, 1.0, 1.0])  # the guess of 1 is not sure enough
    criterion.trust.fill_(0.25)
    criterion.guess = torch.rand(n, CLASSES, generator=g).softmax(1)
    worth = [1.0, 0.0, 1.0, 0.25, 0.25, 1.0]
    index = torch.tensor([2, 1, 4, 0, 3])
    u = torch.rand(5, 2, generator=g)
    batch = Batch(index, y[index], x[index], Doubled(), lambda k: u[:, :k])
    student, teacher = network(0), network(1)
    partner = sorted(range(5), key=lambda row: float(u[row, 0]))
    assert partner.index(1) != 1  # somebody would be mixed with what has no weight

    guess = criterion.guess.clone()
    for i in index.tolist():
        guess[i] = (guess[i] + teacher(x[i : i + 1]).detach().softmax(1)[0]) / 2

    def taught(i: int) -> tuple[Tensor, Tensor]:
        return (2 * x[i], guess[i]) if i in (1, 3, 4) else (x[i], torch.eye(CLASSES)[y[i]])

    total = sum(worth[i] for i in index.tolist())
    expected, mean = torch.zeros(()), torch.zeros(CLASSES)
    for row, other in enumerate(partner):
        i, j = int(index[row]), int(index[other])
        share = max(float(u[0, 1]), 1 - float(u[0, 1])) if worth[j] > 0 else 1.0
        (x_i, t_i), (x_j, t_j) = taught(i), taught(j)
        log_p = student((share * x_i + (1 - share) * x_j)[None]).log_softmax(1)[0]
        mean = mean + worth[i] / total * log_p.exp()
        expected = expected - worth[i] / total * ((share * t_i + (1 - share) * t_j) * log_p).sum()
    expected = expected + spread * sum(torch.log(1 / 3 / m) / 3 for m in mean)
    loss = criterion(criterion.outputs([student, teacher], batch), y[index], index)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{"guesses": False, "back": None}, {"tau": 1.0}], ids=["guesses", "tau"])
def test_where_nothing_may_be_believed_nothing_is_learnt(options: dict[str, Any]) -> None:
    """All is removed, and no guess may be drawn: as MARVEL then, and not under the labels that were removed."""
    n = 12
    x, y, _ = problem(n, CLASSES, 0.0, seed=0)
    criterion = early(n, CLASSES, 12, warmup=0, wait=1, **options)
    criterion.listen(1 - torch.eye(CLASSES)[y], y, torch.arange(n))
    criterion.margin[:], criterion.visits[:] = -1, 1
    criterion.step()
    assert criterion.removed.all() and not criterion.used.any()
    ((shown, learnt),) = criterion.draws(torch.Generator().manual_seed(0), n)
    u = torch.rand(n, 2, generator=torch.Generator().manual_seed(0))
    batches = [Batch(i, y[i], x[i], Doubled(), lambda k: u[:, :k]) for i in (shown, learnt)]
    student, teacher = network(0), network(1)
    loss = criterion(criterion.outputs([student, teacher], *batches), y[shown], shown)
    assert loss == 0 and not any(grad.any() for grad in torch.autograd.grad(loss, list(student.parameters())))


def test_what_is_removed_and_not_seen_keeps_the_weight_of_its_guess() -> None:
    """A guess that was not sure enough when last looked at is not drawn because another epoch has passed."""
    criterion = early(3, 2, warmup=0, wait=1, back=None, tau=0.6, ramp=1)
    everyone, y = torch.arange(3), torch.zeros(3, dtype=torch.long)
    criterion.record(everyone, torch.tensor([-1.0, -1.0, 1.0]), torch.zeros(3))
    criterion.listen(torch.tensor([[0.0, 0.1], [0.0, 3.0], [3.0, 0.0]]), y, everyone)
    criterion.step()
    assert criterion.weight.tolist() == [0, 1, 1]
    criterion.guess[:2] = torch.tensor([[0.1, 0.9], [0.5, 0.5]])  # as if it had changed, unseen
    criterion.record(everyone[2:], torch.ones(1), torch.zeros(1))
    criterion.step()
    assert criterion.weight.tolist() == [0, 1, 1]


def test_over_is_said_once_it_was_chosen() -> None:
    """Of a warm-up of two epochs: when the third has passed."""
    criterion = MarvelSemi(4, 2, warmup=2)
    said = []
    for _ in range(4):
        criterion.record(torch.arange(4), torch.ones(4), torch.zeros(4))
        criterion.step()
        said.append("over" in criterion.chosen)
    assert said == [False, False, True, True]


# ------------------------------------------------------------ in a training


def test_the_teacher_is_an_average_with_statistics_of_its_own() -> None:
    """a <- d a + (1 - d) w, with d from the span; BatchNorm's statistics are those of the batches it was shown."""
    run = Run(config("marvel-semi", 3, span=0.5, warmup=1).but(network="cnn2"), data=images())
    naive = {name: p.detach().clone() for name, p in run.networks[0].named_parameters()}
    for shown in run.steps():
        if shown is None and run.trainer.epoch < 3 and int(run.method.visits.sum()) > 0:
            reach = 0.5 * (run.trainer.epoch + 1) / 5 * 4  # a fifth of the span in the first epoch; four steps an epoch
            d = reach / (1 + reach)
            now = dict(run.trainer.networks[0].named_parameters())
            naive = {name: d * p + (1 - d) * now[name].detach() for name, p in naive.items()}
            found = dict(run.trainer.averages[0].named_parameters())
            torch.testing.assert_close({name: found[name].detach() for name in naive}, naive, rtol=1e-5, atol=1e-6)
    (network,), (teacher,) = run.trainer.networks, run.trainer.averages
    assert not any(p.requires_grad for p in teacher.parameters())
    own, other = dict(teacher.named_buffers()), dict(network.named_buffers())
    norms = [name for name in own if name.endswith("running_mean")]
    assert norms and not any(torch.equal(own[name], other[name]) for name in norms)


@pytest.mark.parametrize(("n", "options"), [(N, {}), (FEWEST, {}), (N, {"late": False})])
def test_an_interrupted_run_goes_on_bit_for_bit(n: int, options: dict[str, Any], tmp_path: Any) -> None:
    asked = config("marvel-semi", 9, warmup=1, wait=1, back=1, ramp=2, **options)
    whole = train(asked, tmp_path / "whole", data=blobs(n))
    interrupted = Run(asked, tmp_path / "cut", data=blobs(n)).steps()
    for shown in interrupted:
        if shown is not None and shown.epoch == 5:
            break
    interrupted.close()  # type: ignore[attr-defined]
    resumed = train(asked, tmp_path / "cut", resume=True, data=blobs(n))
    assert ("zero" in whole.record["chosen"]) == (n == FEWEST)  # type: ignore[index]
    for key in ("final", "chosen", "curves"):
        assert resumed.record[key] == whole.record[key], key  # type: ignore[index]
    states = [run.trainer.state(run.method)[0] for run in (whole, resumed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name].nan_to_num(), states[1][name].nan_to_num()) for name in states[0])
    assert any(name.startswith("average0.") for name in states[0])


def test_what_the_run_tells_of_those_that_returned(tmp_path: Any) -> None:
    run = train(config("marvel-semi", 10, warmup=2, wait=1, back=1, ramp=2, late=False), tmp_path / "run", data=blobs())
    assert run.record is not None
    columns, method = run.instances(), run.method
    back = (columns["returned_at"] > 0) & (columns["removed_at"] == 0)
    assert run.record["final"]["returned"] == back.sum() > 0
    assert run.record["curves"]["returned"][-1] == back.sum()
    wrong_and_out = (columns["removed_at"] > 0) & (columns["given"] != columns["clean"])
    right = columns["suggested"] == columns["clean"]
    assert run.record["final"]["suggestion_accuracy"] == pytest.approx(right[wrong_and_out].mean())
    assert run.record["final"]["suggestion_accuracy"] > 0.8
    assert run.record["chosen"] == {"wait": 1, "warmup": 2, "over": round(float(method.over), 4)}
    guess = method.guess.argmax(1).numpy()
    assert (columns["suggested"] == np.where(guess == columns["given"], -1, guess)).all()


def test_accuracy_is_the_teachers() -> None:
    run = train(config("marvel-semi", 4, warmup=1), data=blobs())
    (teacher,) = run.trainer.averages
    assert run.record is not None
    hits = teacher.eval()(run.data.test_x).argmax(1) == run.data.test_y
    assert run.record["final"]["test_accuracy"] == pytest.approx(float(hits.double().mean()))


def test_packed_runs_equal_runs_alone() -> None:
    asked = [
        config("marvel-semi", 4, warmup=1, wait=1),
        config("ce", 4),
        config("marvel-semi", 4, warmup=1).but(seed=2),
    ]
    packed = [Run(one, data=blobs()) for one in asked]
    for _ in pack(run.steps() for run in packed):
        pass
    for one, run in zip(asked, packed, strict=True):
        alone = train(one, data=blobs())
        states = [of.trainer.state(of.method)[0] for of in (alone, run)]
        assert all(torch.equal(states[0][name].nan_to_num(), states[1][name].nan_to_num()) for name in states[0])


def test_the_estimator_predicts_by_the_teacher() -> None:
    x, y, clean = problem(150, CLASSES, noise=0.4, seed=2)
    model = MarvelClassifier("marvel-semi", epochs=20, lr=0.02, method_params={"warmup": 3}).fit(x.numpy(), y.numpy())
    assert len(model.networks_) == 2
    teacher = model.networks_[1].eval()
    logits = model.criterion_.predict(model.networks_, model._views.plain(x))
    assert torch.equal(logits, teacher(model._views.plain(x)))
    removed = torch.from_numpy(model.removed_)
    assert (removed == ~clean).float().mean() > 0.9
    found = {issue.index: issue.suggested for issue in model.find_label_issues()}
    guesses = model.criterion_.guess.argmax(1).tolist()
    assert all(found[i] == str(guesses[i]) for i in removed.nonzero().squeeze(1).tolist() if guesses[i] != y[i])


def test_the_folder_of_the_estimator_says_what_is_guessed_and_what_returned(tmp_path: Any) -> None:
    x, y, _ = problem(150, CLASSES, noise=0.4, seed=2)
    told = {"warmup": 2, "wait": 1, "back": 1, "ramp": 2}
    model = MarvelClassifier("marvel-semi", epochs=10, lr=0.02, method_params=told).fit(x.numpy(), y.numpy())
    saved = model.save_run(tmp_path / "run", x.numpy(), top=150)
    guess = model.criterion_.guess.argmax(1).tolist()
    assert model.criterion_.rival.tolist() != guess  # else nothing is tested
    for issue in saved.issues:
        assert issue.suggested == ("" if guess[issue.index] == y[issue.index] else str(guess[issue.index]))
        assert issue.returned_at == int(model.criterion_.back_at[issue.index])
    kept_again = {issue.index for issue in saved.issues if issue.returned_at and not issue.removed_at}
    assert kept_again and saved.report is not None
    page = saved.report.read_text(encoding="utf-8")
    assert f"<dt>removed, and returned</dt><dd>{len(kept_again)}</dd>" in page


def test_clean_suggests_what_is_guessed(tmp_path: Any) -> None:
    run = CleanRun(config("marvel-semi", 16, warmup=4), tmp_path / "run", data=blobs(240), canaries=30)
    for _ in run.steps():
        pass
    assert run.record is not None
    columns, guess = run.instances(), run.method.competitor.numpy()  # type: ignore[union-attr]
    others = ~columns["canary"]
    assert (columns["suggested"] == guess)[others].all() and "returned_at" in columns
    assert run.record["final"]["suggestion_accuracy"] > 0.8


def test_the_list_says_when_labels_were_believed_again(tmp_path: Any) -> None:
    asked = config("marvel-semi", 12, warmup=2, wait=1, back=1, ramp=2, late=False)
    run = CleanRun(asked, tmp_path / "run", data=blobs(240), canaries=0, top=150)
    for _ in run.steps():
        pass
    lines = list(csv.DictReader((tmp_path / "run" / "issues.csv").read_text(encoding="utf-8").splitlines()))
    back, removed_at = run.method.returned_at, run.method.removed_at
    assert back is not None and len(lines) == 150 and list(lines[0])[-1] == "returned_at"
    said = {int(line["id"]): (int(line["removed_at"]), int(line["returned_at"])) for line in lines}
    assert said == {i: (int(removed_at[i]), int(back[i])) for i in said}
    assert any(back for _, back in said.values()) and any(not back for _, back in said.values())
    assert run.found()["found"]["returned"] == int(((back > 0) & (removed_at == 0)).sum()) > 0


def test_its_protocol_is_its_own_where_none_is_given() -> None:
    """The problem's learning rate is for methods that need it high; a warm-up tuned for MARVEL is not its own."""
    found = filled(Config(data="cifar10", method="marvel-semi"), PRESETS["cifar10"])
    assert (found.lr, found.schedule, found.options["warmup"]) == (0.06, "cosine", "auto")
    digits = filled(Config(data="digits", method="marvel-semi"), PRESETS["digits"])
    assert (digits.lr, digits.schedule) == (0.01, "drops") and digits.drops == ()
    told = Config(data="cifar10", method="marvel-semi", lr=0.1, drops=(50,), options={"warmup": 9})
    assert filled(told, PRESETS["cifar10"]) == told.but(network="resnet32", epochs=120)
    usual = filled(Config(data="cifar10", method="marvel"), PRESETS["cifar10"])
    assert (usual.lr, usual.schedule, usual.options["warmup"]) == (0.1, "drops", 30)


# ------------------------------------------------------------ its tables


def test_tables_say_what_was_not_run() -> None:
    cells = tuple(
        Cell("blobs", f"{rate:.0%}", row, Config(data="digits", noise="symmetric", rate=rate, method=row))
        for row, rate in (("ce", 0.2), ("marvel-semi", 0.2), ("marvel-semi", 0.4))
    )
    asked = as_plain(cells[1].config.facts())
    record = {"asked": asked, "config": as_plain(cells[1].resolved.facts()), "final": {"test_accuracy": 0.91}}
    lines = ablation(Experiment("mine", "Mine", cells), [record]).splitlines()
    assert lines == [
        "| blobs | 20% | 40% |",
        "| --- | --- | --- |",
        "| marvel-semi | 91.0 (–, 1) | not run |",
        "",
        "blobs, not run at all: ce.",
    ]
    assert ablation(Experiment("mine", "Mine", cells), []) == "blobs, not run at all: ce, marvel-semi."
    told = {**record, "asked": asked | {"options": {"back": None}}, "final": {"test_accuracy": 0.93}}
    shorter = {**record, "config": record["config"] | {"epochs": 7}}
    assert controls([record, told, told, shorter]).splitlines() == [
        "| digits, cnn2, 60 epochs | symmetric 20% |",
        "| --- | --- |",
        "| marvel-semi | 91.0 (–, 1) |",
        "| marvel-semi (back none) | 93.0 (0.0, 2) |",
        "",
        "| digits, cnn2, 7 epochs | symmetric 20% |",
        "| --- | --- |",
        "| marvel-semi | 91.0 (–, 1) |",
    ]


def test_the_course_of_a_run() -> None:
    run = train(config("marvel-semi", 10, warmup=2, wait=1, back=1, ramp=2), data=blobs())
    assert run.record is not None
    removed, clean, back = run.method.removed, run.clean, run.method.returned_at
    assert clean is not None and back is not None
    counts = [10, (clean & ~removed).sum(), (~clean & ~removed).sum(), removed.sum(), ((back > 0) & ~removed).sum()]
    assert [int(said) for said in at(run.record, 10)[:5]] == [int(count) for count in counts]


def test_a_class_without_labels_has_a_gradient() -> None:
    share, z = torch.tensor([0.5, 0.5, 0.0]), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    z.requires_grad_()
    apart = away_from(share, z.softmax(1), torch.ones(4))
    mean = z.detach().softmax(1).mean(0)
    assert apart.item() == pytest.approx(float((0.5 * (0.5 / mean[:2]).log()).sum()), abs=1e-6)
    (gradient,) = torch.autograd.grad(apart, z)
    assert gradient.isfinite().all() and gradient.any()
