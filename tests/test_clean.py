"""`marvel clean`: canaries, estimates, the cut-off, and what the folder says in the end."""

import csv
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from marvel.clean import clean, cut, prepare, timed
from marvel.clean.canaries import CLAIM, Canaries, confusions, how_many, left_out, plant
from marvel.clean.densities import falling, ratio, shape, without_right
from marvel.clean.estimate import LEVEL, Estimate, Scores, by_accident, curve, estimate, favoured, of_canaries, pooled
from marvel.clean.findings import Findings
from marvel.clean.judgement import Judgement
from marvel.clean.recapture import Sample, missed
from marvel.cli import main
from marvel.data import Data, from_arrays
from marvel.errors import FolderError, InvalidInput
from marvel.ledger import Ledger
from marvel.method import Seen
from marvel.methods import METHODS
from marvel.runs import RunFolder
from marvel.trainer import Epoch

Rng = np.random.Generator


def blobs(n: int = 1200, classes: int = 4, wrong: float = 0.15, seed: int = 0) -> Data:
    """Points around `classes` centres, easily told apart; the clean labels are known."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % classes
    x = 3 * rng.standard_normal((classes, 6))[truth] + rng.standard_normal((n, 6))
    given = np.where(rng.random(n) < wrong, (truth + rng.integers(1, classes, n)) % classes, truth)
    names = [f"class {c}" for c in range(classes)]
    return from_arrays(x.astype(np.float32), given, classes=names, clean=truth)


QUICK: dict[str, Any] = {"epochs": 12, "warmup": 2, "wait": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return clean(blobs(), tmp_path_factory.mktemp("runs") / "blobs", **QUICK)


# ------------------------------------------------------------ canaries


@pytest.mark.parametrize(
    ("n", "wanted", "number"),
    [
        (50_000, None, 1000),
        (2000, None, 60),
        (1257, None, 60),
        (1100, None, 55),  # a twentieth
        (900, None, 0),  # a twentieth would be too few to claim anything, so none are planted
        (900, 30, 30),
        (1000, 0.1, 100),
        (1000, 0, 0),
    ],
)
def test_how_many_canaries(n: int, wanted: float | None, number: int) -> None:
    assert how_many(n, wanted) == number


@pytest.mark.parametrize("wanted", [-1, 1.5, 0.3, 900, float("nan")])
def test_a_number_of_canaries_that_cannot_be_meant(wanted: float) -> None:
    with pytest.raises(InvalidInput, match="canaries"):
        how_many(1000, wanted)


def test_canaries_are_wrong_labels_and_leave_small_classes_alone() -> None:
    given = np.repeat([0, 1, 2, 3], [500, 400, 9, 1])
    canaries = plant(given, 5, 80, np.random.default_rng(0), None)
    assert len(canaries) == 80 and len(set(canaries.index.tolist())) == 80
    assert (canaries.label != given[canaries.index]).all()
    assert set(given[canaries.index].tolist()) == {0, 1}
    assert 4 not in canaries.label  # a class without an instance
    planted = canaries.planted(given)
    assert (planted != given).sum() == 80 and np.array_equal(np.flatnonzero(canaries.mask(len(given))), canaries.index)
    again = plant(given, 5, 80, np.random.default_rng(0), None)
    assert np.array_equal(again.index, canaries.index) and np.array_equal(again.label, canaries.label)


def test_no_canaries_where_no_class_can_spare_one() -> None:
    assert len(plant(np.arange(60) % 20, 20, 5, np.random.default_rng(0), None)) == 0


@pytest.mark.parametrize(("sizes", "wanted", "made"), [
    ([60, *[7] * 200], 73, 12), ([40] * 5 + [8] * 150, 60, 40), ([1000, 30], 200, 200), ([12, 11, 10], 5, 5),
])  # fmt: skip
def test_no_class_gives_more_than_a_fifth_of_its_labels(sizes: list[int], wanted: int, made: int) -> None:
    given = np.repeat(np.arange(len(sizes)), sizes)
    for seed in range(20):
        index = plant(given, len(sizes), wanted, np.random.default_rng(seed), None).index
        assert len(index) == made == len(set(index.tolist())) and (np.diff(index) > 0).all()
        taken = np.bincount(given[index], minlength=len(sizes))
        assert all(count <= size // 5 for count, size in zip(taken.tolist(), sizes, strict=True))


def test_where_classes_have_room_each_label_is_as_likely() -> None:
    given, counts = np.repeat([0, 1, 2], [100, 200, 300]), np.zeros(600)
    for seed in range(2000):
        counts[plant(given, 3, 30, np.random.default_rng(seed), None).index] += 1
    assert stats.chisquare(counts).pvalue > 0.001


def test_classes_too_small_for_canaries_give_none_unasked() -> None:
    """One class of thirty and many of eight: the thirty are not sacrificed for a claim that cannot be made."""
    g = torch.Generator().manual_seed(0)
    y = torch.cat([torch.zeros(30, dtype=torch.long), 1 + torch.arange(1200) % 150])
    x = 3 * torch.randn(151, 20, generator=g)[y] + torch.randn(1230, 20, generator=g)
    small = Data("small", x, y, tuple(f"c{k}" for k in range(151)), mean=(0.0,) * 20, std=(1.0,) * 20)
    quick: dict[str, Any] = {"epochs": 2, "device": "cpu"}
    found = clean(small, **quick)
    assert len(found.run.canaries) == 0 and found.estimate is None
    why = "no more than 6 of 1,230 labels can be made wrong where 50 are needed: a class of 10 labels or more can spare"
    assert any(said.startswith(why) for said in found.found["warnings"])
    found = clean(small, canaries=90, **quick)
    assert len(found.run.canaries) == 6
    assert any(said.startswith(f"6 canaries are fewer than 50: {why}") for said in found.found["warnings"])
    with pytest.raises(InvalidInput, match="no more than 6 of 1,230 labels"):
        clean(small, precision=0.9, **quick)
    y = torch.cat([torch.arange(400) % 5, 5 + torch.arange(600) % 146])  # five classes of 80, many of four or five
    found = clean(replace(small, x=3 * torch.randn(151, 20, generator=g)[y], y=y), canaries=90, **quick)
    assert "80 of the 90 canaries were made: a class of 10 labels or more" in " ".join(found.found["warnings"])


def test_leaving_one_out_is_what_fitting_without_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short formula, against one fit for each instance; the features are made of all, in both."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((24, 3)), rng.integers(0, 3, 24)
    seen: dict[str, Any] = {}
    solve = np.linalg.solve

    def spy(gram: Any, right: Any) -> Any:
        seen.update(gram=gram.copy(), z=right.T.copy())
        return solve(gram, right)

    monkeypatch.setattr(np.linalg, "solve", spy)
    short = left_out(x, y, 3)
    z, penalty = seen["z"], seen["gram"] - seen["z"].T @ seen["z"]
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        coefficients = solve(z[rest].T @ z[rest] + penalty, z[rest].T @ np.eye(3)[y[rest]])
        assert np.allclose(z[i] @ coefficients, short[i], atol=1e-8)


def test_the_first_guess_sees_what_a_class_is_mistaken_for() -> None:
    rng = np.random.default_rng(2)
    truth = np.arange(900) % 3
    x = 3 * np.eye(3)[truth] + 0.5 * rng.standard_normal((900, 3))
    given = np.where((rng.random(900) < 0.2) & (truth == 0), 2, truth)
    guess = confusions(x, given, 3)
    assert guess[0, 2] > 0.9
    assert np.allclose(guess.sum(axis=1)[0], 1)
    canaries = plant(given, 3, 150, rng, x)
    flipped = canaries.label[given[canaries.index] == 0]
    assert (flipped == 2).mean() > 0.75 and (flipped == 1).any()


# ------------------------------------------------------------ densities


def scores(rng: Rng, n: int, m: int, share: float, apart: float) -> tuple[Any, Any, int]:
    """Canaries and others: normal, right labels `apart` higher than wrong ones."""
    wrong = int(rng.binomial(n, share))
    others = np.concatenate([rng.standard_normal(wrong), apart + rng.standard_normal(n - wrong)])
    return rng.standard_normal(m), others, wrong


@pytest.mark.parametrize("model", [ratio, shape])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
def test_a_model_finds_the_share_of_wrong_labels(model: Callable[..., Any], share: float) -> None:
    rng = np.random.default_rng(3)
    found, truth, chances = [], [], []
    for _ in range(6):
        canaries, others, wrong = scores(rng, 2000, 150, share, 4.0)
        fit = model(Sample(canaries, np.arange(len(canaries))), others, 40, rng)
        found.append(float(np.median(fit.wrong)))
        truth.append(wrong)
        assert fit.chance.shape == others.shape and fit.chance.min() >= 0 and fit.chance.max() <= 1
        assert (np.diff(fit.chance[np.argsort(others)]) <= 1e-9).all()  # never rises with the score
        is_wrong = np.arange(len(others)) < wrong
        chances.append((fit.chance[is_wrong].mean(), fit.chance[~is_wrong].mean()))
    assert np.mean(chances, axis=0)[0] > 0.7 and np.mean(chances, axis=0)[1] < 0.05
    assert abs(np.mean(found) / np.mean(truth) - 1) < 0.08


def test_canaries_that_are_right_by_accident_are_taken_out() -> None:
    """Cells of known content: a quarter of the canaries lie where right labels do."""
    wrong, right = np.array([0.4, 0.3, 0.2, 0.08, 0.02]), np.array([0.0, 0.01, 0.04, 0.15, 0.8])
    seen, held = 400 * (0.75 * wrong + 0.25 * right), 5000 * (0.25 * wrong + 0.75 * right)
    mended = without_right(seen, held, 0.25)
    assert np.allclose(mended[:-1] / 300, wrong[:-1], atol=0.02)


def test_falling_is_the_nearest_falling_sequence() -> None:
    from sklearn.isotonic import isotonic_regression

    rng = np.random.default_rng(4)
    for _ in range(50):
        values, weight = rng.random(12), rng.random(12) + 0.1
        assert np.allclose(falling(values, weight), isotonic_regression(values, sample_weight=weight, increasing=False))


# ------------------------------------------------------------ recapture


def test_what_is_found_is_the_share_of_canaries_below_the_cut() -> None:
    """Against the Beta posterior, where canaries are on their own."""
    rng = np.random.default_rng(21)
    share = Sample(np.repeat([-1.0, 1.0], [30, 10]), np.arange(40)).found(0.0, 20_000, rng)
    expected = rng.beta(30.5, 10.5, 20_000)
    assert np.allclose(np.quantile(share, [0.05, 0.5, 0.95]), np.quantile(expected, [0.05, 0.5, 0.95]), atol=0.01)


def test_what_is_in_doubt_about_canaries() -> None:
    rng = np.random.default_rng(22)
    score, alone = np.repeat([-1.0, 1.0], [30, 10]), np.arange(40)
    together = Sample(score, np.repeat(np.arange(4), 10))  # three groups found, one missed
    assert together.found(0.0, 4000, rng).std() > 2 * Sample(score, alone).found(0.0, 4000, rng).std()
    right = Sample(score, alone, right=0.125).found(0.0, 4000, rng)
    assert abs(np.median(right) - 30 / 35) < 0.02  # 5 of the 10 that were missed have a right label
    hidden = Sample(score, alone, hidden=0.4).found(0.0, 4000, rng)
    assert abs(hidden.mean() - np.mean([(30 - k) / (40 - k) for k in np.linspace(0, 16, 50)])) < 0.02
    hard = Sample(-score, alone)
    asked = Sample(score, alone, harder=hard, doubt=0.3).found(0.0, 4000, rng)
    assert abs((asked < 0.5).mean() - 0.3) < 0.03
    assert (Sample(score, alone).found(-np.inf, 100, rng) > 0).all()  # nothing found: nothing is divided by 0


def test_wrong_labels_that_were_missed_lie_where_missed_canaries_do() -> None:
    rng = np.random.default_rng(23)
    x = np.linspace(0, 6, 120)
    where = lambda scores: np.bincount(np.searchsorted(x, scores).clip(0, 119), minlength=120).astype(float)  # noqa: E731
    wrong, right = where(rng.normal(1.5, 0.3, 60)), where(rng.normal(4, 0.5, 400))
    chance = missed(x, where(rng.normal(1.5, 0.3, 20)), wrong + right, 60.0)
    assert abs((chance * (wrong + right)).sum() - 60) < 0.1
    assert (chance * wrong).sum() > 50
    assert missed(x, np.zeros(120), wrong + right, 46.0) == pytest.approx(np.full(120, 0.1))  # no canary was missed


# ------------------------------------------------------------ estimate


def told(
    rng: Rng,
    n: int = 1500,
    m: int = 80,
    share: float = 0.2,
    apart: float = 4.0,
    classes: int = 6,
    noise: str = "symmetric",
) -> tuple[Scores, Any]:
    """What a run might have shown, by the definition of each part, and the truth.

    Circular noise is harder to see: its wrong labels have scores higher by 1, and so have canaries flipped that way.
    """
    truth = rng.integers(0, classes, n)
    given = truth.copy()
    which = rng.random(n) < share
    step = rng.integers(1, classes, n) if noise == "symmetric" else np.ones(n, dtype=int)
    given[which] = (truth[which] + step[which]) % classes
    canary = np.zeros(n, dtype=bool)
    canary[rng.choice(n, m, replace=False)] = True
    label = given.copy()
    flips = rng.integers(1, classes, n)
    if noise == "circular":
        flips = np.where(rng.random(n) < 0.6, 1, flips)
    label[canary] = (given[canary] + flips[canary]) % classes
    wrong = label != truth
    hard = wrong & (label == (truth + 1) % classes) & (noise == "circular")
    score = np.where(wrong, -apart / 2 + hard, apart / 2) + rng.standard_normal(n)
    other = (label + rng.integers(1, classes, n)) % classes
    rival = np.where(wrong, truth, other)
    return Scores(score, label, given, rival, score < 0, canary, classes), given != truth


@pytest.mark.parametrize(
    ("noise", "share", "repeats"),
    [
        ("symmetric", 0.2, 10),
        ("circular", 0.2, 10),
        *(pytest.param("symmetric", share, 40, marks=pytest.mark.slow) for share in (0.05, 0.2, 0.4)),
        *(pytest.param("circular", share, 40, marks=pytest.mark.slow) for share in (0.05, 0.2, 0.4)),
    ],
)
def test_intervals_cover_the_truth_at_their_rate(noise: str, share: float, repeats: int) -> None:
    rng = np.random.default_rng(5)
    covered, widths = [], []
    for _ in range(repeats):
        shown, wrong = told(rng, share=share, noise=noise)
        found = estimate(shown, rng, draws=20)
        assert found is not None
        covered.append(found.low <= wrong.sum() <= found.high)
        widths.append((found.high - found.low) / wrong.sum())
    assert np.mean(covered) >= LEVEL - 0.1  # 40 repeats: two standard errors
    assert np.median(widths) < 0.8


def test_no_claim_with_fewer_than_50_canaries() -> None:
    rng = np.random.default_rng(6)
    assert estimate(told(rng, m=CLAIM - 1)[0], rng) is None
    assert estimate(told(rng, m=CLAIM)[0], rng) is not None


def test_favoured_pairs_are_those_a_label_goes_wrong_by_systematically() -> None:
    rng = np.random.default_rng(7)
    often = favoured(told(rng, noise="circular")[0])
    assert {tuple(pair) for pair in np.argwhere(often).tolist()} == {((c + 1) % 6, c) for c in range(6)}
    assert favoured(told(rng, noise="symmetric")[0]).sum() <= 1


def test_frequent_pairs_do_not_hide_favoured_ones() -> None:
    """Of 30 pairs, 3 have 14 and 3 have 8: the mean is 2.2, and 8 is not far above it, but far above the other 24."""
    given = np.repeat(np.arange(6), [14, 14, 14, 8, 8, 8])
    yes, no = np.ones(66, dtype=bool), np.zeros(66, dtype=bool)
    often = favoured(Scores(np.zeros(66), given, given, (given + 5) % 6, yes, no, 6))
    assert {tuple(pair) for pair in np.argwhere(often).tolist()} == {((c + 1) % 6, c) for c in range(6)}


def test_a_probability_is_a_share() -> None:
    """Of the labels said to be wrong with a probability near p, a share near p is."""
    rng = np.random.default_rng(8)
    said, wrong = [], []
    for _ in range(6):
        shown, truth = told(rng, n=3000, m=150, apart=2.5)
        found = estimate(shown, rng, draws=20)
        assert found is not None
        others = ~shown.canary
        said.append(found.chance[others])
        wrong.append(truth[others])
    p, w = np.concatenate(said), np.concatenate(wrong)
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
        inside = (p >= low) & (p < high)
        assert abs(w[inside].mean() - p[inside].mean()) < 0.15


def test_two_classes_where_a_flip_makes_a_wrong_label_right() -> None:
    rng = np.random.default_rng(9)
    covered = []
    for _ in range(8):
        shown, wrong = told(rng, classes=2, share=0.25, m=150)
        accident = by_accident(shown, np.where(wrong, 1.0, 0.0))
        assert abs(accident[shown.canary].mean() - 0.25) < 0.1
        found = estimate(shown, rng, draws=20)
        assert found is not None and np.isnan(found.chance[shown.canary]).all()
        covered.append(found.low <= wrong.sum() <= found.high)
    assert np.mean(covered) >= 0.75


def test_models_that_are_worlds_apart_are_weighed_by_the_number() -> None:
    lower, higher = np.array([0.9, 0.1, 0.0, np.nan]), np.array([1.0, 1.0, 1.0, np.nan])
    near = pooled(np.stack([lower, higher]), 1.5)  # 2 are expected by the mean: not more than twice as many
    assert np.array_equal(near[:3], [0.95, 0.55, 0.5]) and np.isnan(near[3])
    for chances in ([lower, higher], [higher, lower]):
        apart = pooled(np.stack(chances), 0.9)  # below what either says: the lower one
        assert np.array_equal(apart[:3], lower[:3]) and np.isnan(apart[3])
    rare, all_of_them = np.full(100, 0.01), np.ones(100)
    assert np.isclose(pooled(np.stack([rare, all_of_them]), 10).sum(), 10)


def test_rare_classes_full_of_wrong_labels_do_not_put_everything_on_the_list() -> None:
    """95 % are of one class and a tenth of the labels is redrawn, so that most labels of rare classes are wrong.

    Hardly any canary has the frequent class for its false label, and of those that do most are right by accident.
    """
    rng = np.random.default_rng(2)
    centres, n = 1.5 * rng.standard_normal((4, 32)), 2000
    truth = rng.choice(4, size=n, p=[0.95, 0.04, 0.008, 0.002])
    x = centres[truth] + rng.standard_normal((n, 32))
    given = np.where(rng.random(n) < 0.1, rng.integers(0, 4, n), truth)
    found = clean(from_arrays(x.astype(np.float32), given, clean=truth), seed=2, device="cpu")
    final = found.run.record["final"] if found.run.record is not None else {}
    assert final["detection_precision"] > 0.9 and final["detection_recall"] > 0.9


def test_what_is_said_of_a_canarys_own_label() -> None:
    """Ten canaries, four whose competitor is not their own label; a fifth of all labels is wrong: two of the four."""
    canary = np.ones(10, dtype=bool)
    given, label = np.zeros(10, dtype=int), np.ones(10, dtype=int)
    rival = np.array([0] * 6 + [2] * 4)
    shown = Scores(np.zeros(10), label, given, rival, canary, canary, 3)
    assert np.allclose(of_canaries(shown, 0.2), [0] * 6 + [0.5] * 4)


def test_the_curve_is_of_expected_hits() -> None:
    chance = np.array([0.5, 1.0, np.nan, 0.0, 0.5])
    points = curve(chance, 2.5)  # more than they add up to
    assert points[0] == {"flagged": 1, "precision": 1.0, "recall": 0.4}
    assert points[-1] == {"flagged": 4, "precision": 0.5, "recall": 0.8}
    assert [point["recall"] for point in curve(chance, 1.6)] == [
        pytest.approx(share) for share in (1 / 1.6, 1.5 / 1.6, 1, 1)
    ]
    assert [point["recall"] for point in curve(chance, 0.4)] == [None] * 4
    assert curve(np.zeros(3), 2.5) == []


# ------------------------------------------------------------ cut-off


def test_the_cut_off_has_the_highest_expected_f1() -> None:
    rng = np.random.default_rng(10)
    for _ in range(20):
        chance = np.sort(rng.beta(0.3, 0.5, 200))[::-1]
        f1 = [2 * chance[:k].sum() / (k + chance.sum()) for k in range(1, 201)]
        assert cut.listed(chance) == 1 + int(np.argmax(f1))


def test_the_cut_off_by_precision_and_by_number() -> None:
    chance = np.array([1.0, 1.0, 0.7, 0.1, 0.0])
    assert [cut.listed(chance, precision=p) for p in (1.0, 0.9, 0.7, 0.5)] == [2, 3, 4, 5]
    assert cut.listed(np.array([0.4]), precision=0.9) == 0
    assert cut.listed(chance, top=2) == 2 and cut.listed(chance, top=99) == 5
    assert cut.listed(np.array([0.1, 0.1])) == 0  # no wrong label is expected


@pytest.mark.parametrize(("precision", "top"), [(0.9, 10), (0.0, None), (1.2, None), (None, 0)])
def test_a_cut_off_that_cannot_be_meant(precision: float | None, top: int | None) -> None:
    with pytest.raises(InvalidInput):
        cut.check(precision, top)


# ------------------------------------------------------------ a run


def issues_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "issues.csv").read_text(encoding="utf-8").splitlines()))


def test_what_is_found_is_a_line_to_look_at(cleaned: Any) -> None:
    wrong = cleaned.estimate["wrong"]
    shown = f"about {wrong['value']:.0f} wrong ({wrong['low']:.0f} to {wrong['high']:.0f})"
    assert repr(cleaned) == f"Cleaned({len(cleaned.issues)} of 1200 labels listed, {shown}, in {cleaned.folder})"


def test_canaries_are_put_back_everywhere(cleaned: Any) -> None:
    run, folder = cleaned.run, RunFolder(cleaned.folder)
    canaries: Canaries = run.canaries
    columns = folder.instances()
    given = blobs().y.numpy()
    assert len(canaries) == 60 and np.array_equal(columns["given"], given)
    assert np.array_equal(np.flatnonzero(columns["canary"]), canaries.index)
    for name in ("quality", "label_quality", "weight"):
        assert np.isnan(columns[name][canaries.index]).all(), name
        assert np.isfinite(np.delete(columns[name], canaries.index)).all(), name
    assert (columns["removed_at"][canaries.index] == 0).all()
    for _, kept in folder.ledger():
        assert torch.equal(kept["margin"].isnan().nonzero().squeeze(1), torch.from_numpy(canaries.index))
    names = blobs().classes
    for line in issues_of(cleaned.folder):
        assert line["given"] == names[given[int(line["id"])]]
    assert torch.equal(run.trainer.y, torch.from_numpy(canaries.planted(given)))  # but it was trained with them


def test_the_folder_says_what_was_found(cleaned: Any) -> None:
    folder = RunFolder(cleaned.folder)
    columns, found, data = folder.instances(), folder.found, blobs()
    assert found is not None
    lines = issues_of(cleaned.folder)
    assert list(lines[0]) == [
        *("rank", "id", "given", "suggested", "quality", "label_quality", "removed_at", "wrong_probability")
    ]
    assert "returned" not in found["found"]  # of a method that removes for good
    flagged = np.flatnonzero(columns["flagged"])
    assert sorted(int(line["id"]) for line in lines) == flagged.tolist()
    chances = [float(line["wrong_probability"]) for line in lines]
    assert chances == sorted(chances, reverse=True)
    assert [int(line["rank"]) for line in lines] == list(range(1, len(lines) + 1))
    assert found["found"]["flagged"] == len(lines) == sum(row["flagged"] for row in found["found"]["by_class"])
    assert sum(row["n"] for row in found["found"]["by_class"]) == len(data) == found["n"]
    assert sum(pair["count"] for pair in found["found"]["pairs"]) == (columns["suggested"][flagged] >= 0).sum()
    assert found["canaries"] == 60 and found["estimate"]["wrong"]["level"] == LEVEL
    assert [issue.index for issue in cleaned.issues] == [int(line["id"]) for line in lines]
    record = folder.record
    assert record is not None and record["final"]["detection_f1"] > 0.9
    assert record["final"]["suggestion_accuracy"] > 0.9
    wrong = (data.y != data.clean).sum().item()
    assert record["final"]["wrong_labels"] == wrong
    assert found["estimate"]["wrong"]["low"] <= wrong <= found["estimate"]["wrong"]["high"]


def test_an_interrupted_run_goes_on_to_the_same_list(cleaned: Any, tmp_path: Path) -> None:
    run = prepare({**QUICK, "data": "arrays"}, tmp_path / "cut", data=blobs())
    for epoch in run.steps():
        if epoch is not None and epoch.epoch == 5:
            break
    resumed = clean(blobs(), tmp_path / "cut", resume=True, **QUICK)
    assert resumed.issues == cleaned.issues and resumed.found["estimate"] == cleaned.found["estimate"]
    with pytest.raises(FolderError, match="60 canaries, not 70"):
        clean(blobs(), tmp_path / "cut", resume=True, canaries=70, **QUICK)


def test_without_clean_labels_and_without_canaries(tmp_path: Path) -> None:
    data = replace(blobs(), clean=None)
    found = clean(data, canaries=0, **QUICK)
    assert found.estimate is None and found.found["curve"] == [] and found.found["warnings"] == []
    removed = found.run.method.removed.nonzero().squeeze(1).tolist()
    assert sorted(issue.index for issue in found.issues) == removed
    assert all(issue.wrong_probability is None for issue in found.issues)
    assert found.run.record is not None and "detection_f1" not in found.run.record["final"]
    assert len(clean(data, canaries=0, top=7, **QUICK).issues) == 7
    with pytest.raises(InvalidInput, match="canaries"):
        clean(data, canaries=0, precision=0.9, **QUICK)


def test_too_few_labels_for_a_claim_are_said() -> None:
    found = clean(blobs(300), **QUICK)
    assert found.estimate is None and len(found.run.canaries) == 0
    few = "300 labels are too few to make 50 of them wrong unasked; --canaries 50 does. Nothing is claimed about"
    assert found.found["warnings"][0].startswith(few)
    resumed = clean(blobs(300), canaries=0, **QUICK)  # as the command goes on: with the number that the folder holds
    assert resumed.found["warnings"] == found.found["warnings"]
    few = "200 labels are too few to make 50 of them wrong; 250 have room for as many. Nothing is claimed about"
    assert clean(blobs(200), **QUICK).found["warnings"][0].startswith(few)
    for top in (None, 5):
        (said,) = clean(blobs(200), top=top, **QUICK).found["warnings"]
        assert not said.endswith(".")  # whoever prints it ends the sentence
    assert clean(blobs(300), canaries=50, **QUICK).estimate is not None


def test_a_method_that_removes_nothing_lists_negative_qualities() -> None:
    found = clean(blobs(300), method="ce", epochs=4, device="cpu")
    quality = found.run.method.quality
    assert sorted(issue.index for issue in found.issues) == (quality < 0).nonzero().squeeze(1).tolist()


def test_a_class_of_one_instance_and_most_of_a_class_gone() -> None:
    data = blobs(1200, wrong=0.0)
    y, x = data.y.clone(), data.x.clone()
    assert isinstance(x, torch.Tensor)
    y[0] = 3
    few = (y == 3).nonzero().squeeze(1)[:40]
    y[y == 3] = 2
    y[few] = 3
    x[few[1:]] = x[(y == 1).nonzero().squeeze(1)[:39]]  # all but one of them look like class 1
    found = clean(replace(data, x=x, y=y, clean=None), **QUICK)
    assert any("most of class class 3" in warning for warning in found.found["warnings"])
    y[few[1:]] = 1
    assert clean(replace(data, x=x, y=y, clean=None), **QUICK).found["found"]["by_class"][3]["n"] == 1


def test_many_classes_that_are_gone_are_one_warning() -> None:
    """Of 13 classes of four: three of each of the first twelve are removed, of the last one three are listed."""
    given = np.repeat(np.arange(13), 4)
    gone = np.arange(52) % 4 < 3
    columns = {"given": given, "flagged": gone & (given == 12), "removed_at": (gone & (given < 12)).astype(int)}
    names = [f"c{k}" for k in range(13)]
    removed, listed = Findings(columns, names, np.flatnonzero(columns["flagged"])).warnings()
    assert removed.startswith("most of 12 classes is removed, c0 (3 of 4), c1 (3 of 4), ")
    assert "c9 (3 of 4) and 2 more: look at some of them" in removed and "c10" not in removed
    assert listed.startswith("most of class c12 (3 of 4) is listed: look")


def test_how_long_it_takes_is_said_once_after_a_few_steps() -> None:
    run = prepare({**QUICK, "data": "arrays"}, data=blobs())
    told: list[float] = []
    at = [k for k, _ in enumerate(timed(run, told.append)) if told][:1]
    assert len(told) == 1 and 0 < told[0] < 600 and at[0] < 20


@pytest.mark.parametrize("batch", [300, 150, 100])
def test_how_long_it_takes_where_an_epoch_is_a_step_or_a_few(batch: int) -> None:
    """Whatever turn the timing begins with, the end of an epoch or a step."""
    run = prepare({**QUICK, "data": "arrays", "epochs": 20, "batch": batch}, data=blobs(300))
    told: list[float] = []
    began = time.perf_counter()
    for _ in timed(run, told.append):
        pass
    assert len(told) == 1 and 0 < told[0] < 10 * (time.perf_counter() - began)


def test_precision_and_top_choose_the_list(cleaned: Any) -> None:
    judgement: Judgement = cleaned.run.judgement
    assert judgement.estimate is not None
    for precision in (0.5, 0.99):
        chance = judgement.estimate.chance[replace(judgement, precision=precision).listed]
        assert chance.mean() >= precision
    assert replace(judgement, top=5).listed.tolist() == judgement.ranked[:5].tolist()


def claims(value: float, chance: list[float], top: int) -> dict[str, Any]:
    """What is claimed of these chances with this estimate, where the first `top` are listed."""
    n = len(chance)
    zeros, none = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    judgement = Judgement(Scores(-np.array(chance), zeros, zeros, zeros + 1, none, none, 2), np.zeros(n), 0, top=top)
    said = Estimate(np.array(chance), value, 0.0, 2 * value, np.zeros((2, 2), dtype=bool))
    vars(judgement)["estimate"] = said  # as if it had been estimated
    claimed = judgement.claimed()
    assert claimed is not None and claimed["wrong"]["value"] == round(value, 1)
    return claimed


@pytest.mark.parametrize(("value", "share"), [(3.04, 0.8), (4.8, 0.5), (1.2, 1.0), (0.4, None), (0.04, None)])
def test_the_share_of_wrong_labels_that_is_listed_is_of_the_number_that_is_said(
    value: float, share: float | None
) -> None:
    """It was of the sum of the chances, 2.8 here, and three numbers on one line contradicted each other."""
    claimed = claims(value, [0.9, 0.8, 0.7, 0.2, 0.1, 0.1], 3)
    assert claimed["precision"] == pytest.approx(0.8)
    assert claimed["recall"] == (None if share is None else pytest.approx(share))


# ------------------------------------------------------------ the ledger


def test_the_competitor_is_the_majority_since_the_warm_up() -> None:
    """Against plain counting, on histories that have a majority."""
    rng = np.random.default_rng(11)
    n, epochs, warm = 200, 15, 4
    late = rng.integers(0, 5, n)
    history = rng.integers(0, 5, (epochs, n))
    history[warm:] = np.where(rng.random((epochs - warm, n)) < 0.75, late, history[warm:])
    margins = rng.standard_normal((epochs, n))
    method = METHODS["marvel"](n, 6, epochs, warmup=warm, wait=127)
    ledger = Ledger(torch.zeros(n, dtype=torch.int64), None)
    for e in range(epochs):
        method.epochs_seen = method.epochs_seen + 1
        method.epoch = e + 2
        seen = Seen(torch.from_numpy(margins[e]).float(), torch.ones(n, dtype=torch.bool), torch.from_numpy(history[e]))
        ledger.judge(method, seen)
    counts = np.stack([(history[warm:] == c).sum(axis=0) for c in range(5)])
    clear = counts.max(axis=0) * 2 > epochs - warm
    assert clear.mean() > 0.8
    assert np.array_equal(ledger.rival.numpy()[clear], counts.argmax(axis=0)[clear])
    assert np.allclose(ledger.trust.numpy(), (1 / (1 + np.exp(-margins[1:]))).mean(axis=0), atol=1e-5)


# ------------------------------------------------------------ what was never trained on


def test_what_the_method_holds_out_is_not_judged(tmp_path: Path) -> None:
    """A quarter has no margins: no chance, no suggestion, no place on the list; the number is of all all the same."""
    data = blobs(2000)
    settings: dict[str, Any] = {"method": "data-parameters", "validation": 0.25, "epochs": 8, "device": "cpu"}
    found = clean(data, tmp_path / "run", canaries=100, **settings)
    columns = RunFolder(tmp_path / "run").instances()
    held = columns["epochs_seen"] == 0
    assert held.sum() == 500
    for name in ("quality", "label_quality", "wrong_probability"):
        assert np.isnan(columns[name][held]).all(), name
    assert (columns["suggested"][held] == -1).all() and not columns["flagged"][held].any()
    wrong = (data.y != data.clean).numpy()
    others = ~held & ~columns["canary"]
    assert (columns["flagged"] == wrong)[others].mean() > 0.95
    assert found.estimate is not None
    assert found.estimate["wrong"]["low"] <= wrong.sum() <= found.estimate["wrong"]["high"]
    assert found.estimate["recall"] == pytest.approx(0.75, abs=0.05)  # of the wrong labels a quarter is held out
    told = RunFolder(tmp_path / "run").found
    assert told is not None
    assert any(line.startswith("500 labels were left out of the training") for line in told["warnings"])


@pytest.mark.parametrize("canaries", [0, 60])
def test_what_was_removed_unseen_is_listed_without_a_made_up_suggestion(canaries: int, tmp_path: Path) -> None:
    data = blobs(1200, wrong=0.3)
    settings: dict[str, Any] = {"method": "incv", "rounds": 2, "stage_epochs": 4, "epochs": 4, "device": "cpu"}
    clean(data, tmp_path / "run", canaries=canaries, **settings)
    columns = RunFolder(tmp_path / "run").instances()
    unseen = (columns["epochs_seen"] == 0) & (columns["removed_at"] > 0) & ~columns["canary"]
    assert unseen.sum() > 100
    with (tmp_path / "run" / "issues.csv").open(encoding="utf-8") as file:
        lines = {int(line["id"]): line for line in csv.DictReader(file)}
    for i in np.flatnonzero(unseen):
        assert [lines[i][name] for name in ("suggested", "quality", "label_quality")] == ["", "", ""]
    assert set(list(lines)[: unseen.sum()]) == set(np.flatnonzero(unseen))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "quality nan" not in page.lower()


# ------------------------------------------------------------ the command


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    data = blobs()
    names = np.array(["=ash", "birch", "cedar", "elm"])
    np.savez("mine.npz", x=np.asarray(data.x), y=names[data.y.numpy()])
    return tmp_path


def said(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    return int(stopped.value.code or 0), capsys.readouterr()


FLAGS = "--epochs 12 --warmup 2 --wait 2 --device cpu"


def test_the_command(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = said(f"clean mine.npz {FLAGS}", capsys)
    assert code == 0, shown.err
    assert "labels are wrong (90% interval:" in shown.out and "by 60 labels that were flipped on purpose" in shown.out
    assert "Next: marvel review runs/mine-clean-s0" in shown.out
    assert "This will take about" in shown.err and "1 seconds" not in shown.err
    folder = arrays / "runs" / "mine-clean-s0"
    assert (folder / "report.html").exists()
    assert ",'=ash," in (folder / "issues.csv").read_text(encoding="utf-8")  # no spreadsheet takes it for a formula
    code, shown = said("clean mine.npz --resume --top 3 --json", capsys)
    assert code == 0, shown.err
    facts = json.loads(shown.out)
    assert facts["found"]["flagged"] == 3 and facts["canaries"] == 60
    code, shown = said(f"clean mine.npz {FLAGS}", capsys)
    assert code == 2 and "holds a run already" in shown.err


def test_train_does_not_go_on_with_a_run_of_clean_nor_the_other_way_round(
    arrays: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, other, said_so in (
        (f"clean mine.npz {FLAGS} --canaries 0", "train", "holds a run of marvel clean: go on with marvel clean"),
        (f"train --data mine.npz {FLAGS}", "clean mine.npz", "holds a run of marvel train: name another folder"),
    ):
        code, shown = said(f"{words} --quiet --out {other[:5]}", capsys)
        assert code == 0, shown.err
        held = {path: path.read_bytes() for path in (arrays / other[:5]).rglob("*") if path.is_file()}
        code, shown = said(f"{other} --resume --out {other[:5]}", capsys)
        assert code == 2 and said_so in shown.err
        assert held == {path: path.read_bytes() for path in held}


def test_a_run_goes_on_from_another_folder(
    arrays: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (arrays / "below").mkdir()
    shutil.copy("mine.npz", "below")
    Path("c.csv").write_text("row,corrected\n0,elm\n")
    for words in (
        f"clean mine.npz {FLAGS} --quiet --out run",
        f"clean mine.npz {FLAGS} --corrections c.csv --quiet --out corrected",
        f"train --data mine.npz {FLAGS} --corrections c.csv --quiet --out trained",
    ):
        code, shown = said(words, capsys)
        assert code == 0, shown.err
    monkeypatch.chdir(arrays / "below")
    for data in ("../mine.npz", str(arrays / "mine.npz")):
        code, shown = said(f"clean {data} --quiet --resume --out ../run", capsys)
        assert code == 0, shown.err
    monkeypatch.chdir(arrays.parent)  # what is not named again is where it was
    for words in ("clean {}/mine.npz --quiet --resume --out {}/corrected", "train --quiet --resume --out {}/trained"):
        code, shown = said(words.format(arrays.name, arrays.name), capsys)
        assert code == 0, shown.err
    copied = arrays / "below" / "mine.npz"
    code, shown = said(f"clean {copied} --quiet --resume --out {arrays / 'run'}", capsys)
    assert code == 2 and f"holds a run with data = {arrays / 'mine.npz'}, not " in shown.err


@pytest.mark.parametrize("words", ["train", "clean mine.npz"])
@pytest.mark.parametrize("facts", ["{}", '{"config": 3, "data": {}}', '{"config": {"data": "mine.npz"}}'])
def test_a_folder_of_something_else_is_not_gone_on_with(
    arrays: Path, capsys: pytest.CaptureFixture[str], words: str, facts: str
) -> None:
    (arrays / "else").mkdir()
    (arrays / "else" / "config.json").write_text(facts)
    code, shown = said(f"{words} --resume --quiet --out else", capsys)
    assert code == 2 and "a config.json in the folder that is not of a run" in shown.err


@pytest.mark.parametrize("listed", ["--top 4", "--precision 0.99"])
def test_a_run_that_goes_on_lists_what_it_was_told_to(
    arrays: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    issues = arrays / "runs" / "mine-clean-s0" / "issues.csv"
    with monkeypatch.context() as patch:
        patch.setattr("marvel.cli.progress.Progress.of", lambda *_: interrupted)
        code, shown = said(f"clean mine.npz {FLAGS} {listed}", capsys)
    assert code == 130 and not issues.exists(), shown.err
    code, shown = said("clean mine.npz --resume --quiet", capsys)  # its settings need not be repeated
    assert code == 0, shown.err
    gone_on = issues.read_bytes()
    code, shown = said("clean mine.npz --resume --quiet --top 9", capsys)
    assert code == 0 and len(issues.read_text(encoding="utf-8").splitlines()) == 10
    code, shown = said("clean mine.npz --resume --quiet", capsys)
    assert code == 0 and issues.read_bytes() == gone_on
    code, shown = said(f"clean mine.npz {FLAGS} {listed} --out whole", capsys)
    assert code == 0 and (arrays / "whole" / "issues.csv").read_bytes() == gone_on
    code, shown = said(f"clean mine.npz {FLAGS} --out plain", capsys)
    assert code == 0 and (arrays / "plain" / "issues.csv").read_bytes() != gone_on


def interrupted(epoch: Epoch) -> None:
    if epoch.epoch == 5:
        raise KeyboardInterrupt


def test_the_numbers_that_are_said_agree(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the line, in clean.json and on the page."""
    code, shown = said(f"clean mine.npz {FLAGS} --top 50", capsys)
    assert code == 0, shown.err
    found = RunFolder("runs/mine-clean-s0").found
    assert found is not None
    told, listed = found["estimate"], found["found"]["flagged"]
    assert told["recall"] == pytest.approx(told["precision"] * listed / told["wrong"]["value"]) and told["recall"] < 1
    said_so = (
        f"{told['precision']:.1%} of the list is expected to be wrong, and {told['recall']:.1%} of all wrong labels"
    )
    assert f"50 labels are listed; {said_so} is on it." in shown.out
    page = (arrays / "runs" / "mine-clean-s0" / "report.html").read_text(encoding="utf-8")
    assert f"<dt>of all wrong labels listed</dt><dd>{told['recall']:.0%}</dd>" in page


def test_of_no_wrong_labels_no_share_is_said(
    arrays: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marvel.clean.judgement.beyond", lambda found, told: replace(found, value=0.01))
    code, shown = said(f"clean mine.npz {FLAGS} --top 1", capsys)
    assert code == 0, shown.err
    assert "About 0 of" in shown.out and "of the list is expected to be wrong.\n" in shown.out
    page = (arrays / "runs" / "mine-clean-s0" / "report.html").read_text(encoding="utf-8")
    assert "of all wrong labels listed" not in page


def test_without_an_estimate_what_is_listed_is_said(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = said(f"clean mine.npz {FLAGS} --top 9 --canaries 10", capsys)
    assert code == 0, shown.err
    assert "The 9 most suspect of" in shown.out and "look wrong" not in shown.out and "negative" not in shown.out
    page = (arrays / "runs" / "mine-clean-s0" / "report.html").read_text(encoding="utf-8")
    assert "<strong>9</strong> most suspect of" in page and "As many as were asked for" in page
    code, shown = said(f"clean mine.npz {FLAGS} --canaries 10 --out runs/own", capsys)
    assert code == 0, shown.err
    assert "labels look wrong" in shown.out and "removed, or whose margins are negative on average" in shown.out


def test_data_known_by_its_name_gets_a_report_and_nothing_to_review(
    arrays: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = said("clean digits --epochs 2 --canaries 0 --top 3 --out runs/known", capsys)
    assert code == 0, shown.err
    assert (arrays / "runs" / "known" / "report.html").exists() and "marvel review" not in shown.out


def test_how_a_table_was_read_is_said_before_the_training(arrays: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = blobs(300)
    cells = [f"{x[0]:.3f},{x[1]:.3f},{'' if k == 7 else int(y)}" for k, (x, y) in enumerate(zip(data.x, data.y))]
    Path("few.csv").write_text("\n".join(["a,b,label", *cells]) + "\n")
    code, shown = said(f"clean few.csv {FLAGS}", capsys)
    assert code == 0, shown.err
    lines = shown.err.splitlines()
    (columns,) = (k for k, line in enumerate(lines) if "columns are taken as they look" in line)
    (aside,) = (k for k, line in enumerate(lines) if line == "set aside: instance 7: no label")
    assert columns < aside < min(k for k, line in enumerate(lines) if "epoch " in line)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("clean mine.npz --canaries some", "canaries is a number"),
        ("clean mine.npz --canaries 0.5", "too many"),
        ("clean mine.npz --precision 2", "precision is the share"),
        ("clean mine.npz --precision 0.9 --top 4", "give one of them"),
        ("clean mine.npz --canaries 10 --precision 0.9", "50 canaries on, and there are 10: add --canaries 50; or"),
        ("clean mine.npz --wiat 3", "did you mean '--wait'"),
        ("clean nowhere", "no dataset 'nowhere', nor a file or folder of that name. Known"),
        ("clean", "Missing argument"),
    ],
)
def test_mistakes_get_one_line(arrays: Path, capsys: pytest.CaptureFixture[str], words: str, complaint: str) -> None:
    code, shown = said(words, capsys)
    assert code == 2 and complaint in shown.err and len(shown.err.strip().splitlines()) == 1, shown.err
    assert not (arrays / "runs").exists()


@pytest.mark.parametrize(
    ("told", "schedule", "drops"),
    [
        ({}, "cosine", (30,)),
        ({"drops": "10"}, "drops", (10,)),
        ({"--drops": "10", "--epochs": "20"}, "drops", (10,)),
        ({"schedule": "cosine", "drops": "10"}, "cosine", (10,)),
        ({"schedule": "constant"}, "constant", (30,)),
    ],
)
def test_a_schedule_that_is_given_is_the_runs(told: dict[str, str], schedule: str, drops: tuple[int, ...]) -> None:
    """Of `marvel-semi`, which has a cosine where nothing is said; drops that were given were ignored for it."""
    x = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    data = from_arrays(x, np.arange(40) % 2)
    run = prepare({"data": "arrays", "method": "marvel-semi", "device": "cpu", **told}, data=data)
    assert (run.config.schedule, run.config.drops) == (schedule, drops)


def test_a_method_that_removes_little_does_not_hide_what_goes_wrong_systematically() -> None:
    """What is contradicted on average is suspect, too: of labels that go wrong in pairs the number is found without it
    being removed."""
    shown, wrong = told(np.random.default_rng(3), share=0.2, noise="circular")
    kept = replace(shown, removed=np.zeros_like(shown.removed))
    assert kept.suspect.any() and np.array_equal(favoured(kept), favoured(replace(shown, removed=shown.score < 0)))
    found = estimate(kept, np.random.default_rng(0))
    assert found is not None and found.favoured.any() and found.low <= wrong[~shown.canary].sum() <= found.high
