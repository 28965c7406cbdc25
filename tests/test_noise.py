"""Noise: what each convention promises, and what is reported of it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from marvel.errors import InvalidInput, UnknownName
from marvel.noise import NOISE, Corruption, corrupt, instance, symmetric, transition

MATRIX = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])


def balanced(classes: int, each: int) -> NDArray[np.int64]:
    """Labels with `each` instances of each class, in turn."""
    return np.tile(np.arange(classes), each)


def make(name: str, labels: NDArray[np.int64], classes: int, seed: int = 0, **options: Any) -> Corruption:
    return corrupt(labels, name, np.random.default_rng(seed), classes=classes, **options)


def wanted(name: str, classes: int, rate: float) -> NDArray[np.float64]:
    """The transition matrix each convention is defined by, entry by entry."""
    matrix = np.zeros((classes, classes))
    for k in range(classes):
        for j in range(classes):
            if name == "symmetric":
                matrix[k, j] = 1 - rate if j == k else rate / (classes - 1)
            elif name == "symmetric-inclusive":
                matrix[k, j] = (1 - rate if j == k else 0) + rate / classes
            elif name == "circular":
                matrix[k, j] = 1 - rate if j == k else rate * (j == (k + 1) % classes)
            else:
                names = ["airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
                moves = {"truck": "car", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
                target = moves.get(names[k])
                matrix[k, j] = float(j == k) if target is None else {k: 1 - rate}.get(j, rate * (names[j] == target))
    return matrix


@pytest.mark.parametrize("name", ["symmetric", "symmetric-inclusive", "circular", "class-dependent"])
@pytest.mark.parametrize("exact", [None, True])
@pytest.mark.parametrize("rate", [0.2, 0.8])
def test_realised_matrix_is_the_one_named(name: str, exact: bool | None, rate: float) -> None:
    each = 4000
    result = make(name, balanced(10, each), 10, rate=rate, exact=exact)
    expected = wanted(name, 10, rate)
    sd = np.sqrt(expected * (1 - expected) / each)
    assert (abs(result.transition - expected) <= 4 * sd).all()
    assert ((result.transition > 0) == (expected > 0)).all()
    if exact is None:
        assert result.transition.diagonal().std() > 0 or name == "class-dependent"


def test_transition_follows_its_matrix() -> None:
    each = 5000
    result = make("transition", balanced(3, each), 3, matrix=MATRIX)
    assert (abs(result.transition - MATRIX) <= 4 * np.sqrt(MATRIX * (1 - MATRIX) / each)).all()
    assert result.options == {"matrix": MATRIX.tolist()}


def test_circular_has_one_way_out_of_each_class() -> None:
    result = make("circular", balanced(7, 500), 7, rate=0.3)
    away = result.transition - np.diag(result.transition.diagonal())
    assert ((away > 0).sum(axis=1) == 1).all()
    assert (away.argmax(axis=1) == (np.arange(7) + 1) % 7).all()


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_symmetric_flips_to_another_class(classes: int) -> None:
    labels = balanced(classes, 300)
    result = make("symmetric", labels, classes, rate=1.0)
    assert (result.labels != labels).all()
    assert result.realised_rate == 1


def test_inclusive_rate_counts_lucky_redraws() -> None:
    n = 50_000
    result = make("symmetric-inclusive", balanced(10, n // 10), 10, rate=0.4)
    assert result.realised_rate == pytest.approx(0.36, abs=4 * np.sqrt(0.36 * 0.64 / n))


def test_class_dependent_leaves_half_the_classes() -> None:
    n = 50_000
    result = make("class-dependent", balanced(10, n // 10), 10, rate=0.4)
    assert result.realised_rate == pytest.approx(0.2, abs=4 * np.sqrt(0.5 * 0.4 * 0.6 / n))
    assert (result.transition.diagonal()[[0, 1, 6, 7, 8]] == 1).all()


def test_pair_has_a_rate_for_each_class() -> None:
    labels = np.array([0] * 200 + [1] * 50)
    result = make("pair", labels, 2, rates=(0.4, 0.1))
    assert result.transition.tolist() == [[0.6, 0.4], [0.1, 0.9]]
    assert make("pair", labels, 2, rates=(0.4, 0)).labels[200:].all()
    assert result.options == {"rates": [0.4, 0.1]}


def test_two_classes_are_exact_and_more_are_not_unless_asked() -> None:
    two, three = balanced(2, 1000), balanced(3, 1000)
    rates = {make("symmetric", two, 2, seed, rate=0.3).realised_rate for seed in range(8)}
    assert rates == {0.3}
    assert len({make("symmetric", two, 2, seed, rate=0.3, exact=False).realised_rate for seed in range(8)}) > 1
    assert len({make("symmetric", three, 3, seed, rate=0.3).realised_rate for seed in range(8)}) > 1
    assert {make("symmetric", three, 3, seed, rate=0.3, exact=True).realised_rate for seed in range(8)} == {0.3}


labels_and_classes = st.integers(2, 12).flatmap(
    lambda classes: st.tuples(st.lists(st.integers(0, classes - 1), min_size=1, max_size=60), st.just(classes))
)


@settings(deadline=None, max_examples=60)
@given(labels_and_classes, st.integers(0, 1000), st.sampled_from(["symmetric", "circular"]), st.integers(0, 9))
def test_exact_is_exact_in_every_class(drawn: tuple[list[int], int], thousandths: int, name: str, seed: int) -> None:
    labels, classes = np.array(drawn[0]), drawn[1]
    result = make(name, labels, classes, seed, rate=thousandths / 1000, exact=True)
    for k in range(classes):
        members = int((labels == k).sum())
        below, remainder = divmod(thousandths * members, 1000)
        count = below + (remainder > 500 or (remainder == 500 and below % 2 == 1))
        assert (result.wrong & (labels == k)).sum() == count


def options_for(name: str, labels: NDArray[np.int64], classes: int, rate: float, folder: Path) -> dict[str, Any]:
    """Options that suit the labels, with a rate where there is one."""
    if name == "none":
        return {}
    if name == "pair":
        return {"rates": (rate, rate / 2)}
    if name == "transition":
        matrix = np.full((classes, classes), rate / classes)
        return {"matrix": matrix + (1 - rate) * np.eye(classes)}
    if name == "file":
        np.save(folder / "labels.npy", (labels + 1) % classes if rate else labels)
        return {"path": folder / "labels.npy"}
    if name == "instance":
        return {"rate": rate, "features": np.random.default_rng(3).normal(size=(len(labels), 4))}
    return {"rate": rate}


@pytest.mark.parametrize("name", sorted(NOISE))
@settings(deadline=None, max_examples=25)
@given(
    drawn=st.one_of(labels_and_classes, st.tuples(st.lists(st.integers(0, 9), min_size=1), st.just(10))),
    rate=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 5),
)
def test_every_convention_is_pure_and_reported(
    name: str, drawn: tuple[list[int], int], rate: float, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    classes = {"pair": 2, "class-dependent": 10}.get(name, drawn[1])
    labels = np.array(drawn[0]) % classes
    kept = labels.copy()
    labels.flags.writeable = False
    options = options_for(name, labels, classes, rate, tmp_path_factory.mktemp("noise"))
    result = make(name, labels, classes, seed, **options)
    assert (labels == kept).all()
    assert not np.shares_memory(result.labels, labels)
    assert result.labels.dtype == np.int64
    assert ((result.labels >= 0) & (result.labels < classes)).all()
    assert (make(name, labels, classes, seed, **options).labels == result.labels).all()
    assert (NOISE[name](labels, np.random.default_rng(seed), classes=classes, **options) == result.labels).all()
    if rate == 0 or name == "none":
        assert (result.labels == labels).all()

    assert (result.wrong == (result.labels != labels)).all()
    assert result.realised_rate == result.wrong.mean()
    for k in range(classes):
        for j in range(classes):
            members = (labels == k).sum()
            share = ((labels == k) & (result.labels == j)).sum() / members if members else 0
            assert result.transition[k, j] == pytest.approx(share)
    described = result.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["wrong"] == result.wrong.sum()
    assert described["sha256"] == hashlib.sha256(result.labels.tobytes()).hexdigest()


def test_another_seed_gives_other_labels() -> None:
    first, second = (make("symmetric", balanced(5, 100), 5, seed, rate=0.5) for seed in (1, 2))
    assert (first.labels != second.labels).any()


def test_description_of_a_small_case() -> None:
    result = make("circular", np.array([0, 0, 0, 0, 1]), 3, rate=0.5, exact=True)
    assert result.describe() == {
        "name": "circular",
        "options": {"rate": 0.5, "exact": True},
        "instances": 5,
        "wrong": 2,
        "realised_rate": 0.4,
        "realised_rate_by_class": [0.5, 0.0, 0.0],
        "sha256": hashlib.sha256(result.labels.tobytes()).hexdigest(),
    }
    assert result.transition.sum(axis=1).tolist() == [1, 1, 0]


def test_tensors_and_lists_are_labels_too() -> None:
    expected = make("symmetric", np.array([0, 1, 2, 1]), 3, rate=0.5).labels
    for labels in ([0, 1, 2, 1], torch.tensor([0, 1, 2, 1]), np.array([0, 1, 2, 1], dtype=np.uint8)):
        assert (corrupt(labels, "symmetric", np.random.default_rng(0), classes=3, rate=0.5).labels == expected).all()


class TestInstance:
    """Instance-dependent noise: the rate is met, and features decide where wrong labels go."""

    n = 6000
    labels = balanced(5, n // 5)
    features = np.random.default_rng(0).normal(size=(n, 8))

    def test_rate_is_met(self) -> None:
        result = make("instance", self.labels, 5, rate=0.4, features=self.features)
        assert result.realised_rate == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / self.n))

    def test_chances_differ_between_instances(self) -> None:
        """Over many draws, the chance of a wrong label spreads by 0.1 around the rate, not like one fixed rate."""
        rng, rounds = np.random.default_rng(1), 400
        labels, features = self.labels[:1000], self.features[:1000]

        class Fixed(np.random.Generator):
            """The same chances each time: only the draws that follow differ."""

            def normal(self, *args: Any, **options: Any) -> Any:
                return np.random.default_rng(7).normal(*args, **options)

        fixed = Fixed(rng.bit_generator)
        wrong = sum((instance(labels, fixed, classes=5, rate=0.4, features=features) != labels) for _ in range(rounds))
        variance = np.var(wrong / rounds)
        assert variance == pytest.approx(0.1**2 + (0.24 - 0.1**2) / rounds, rel=0.2)

    def test_like_instances_go_wrong_alike(self) -> None:
        """Copies of one instance share their target; in symmetric noise they would not."""
        labels = np.zeros(3000, dtype=np.int64)
        features = np.repeat(10 * self.features[:30], 100, axis=0)
        result = make("instance", labels, 5, rate=0.5, features=features)
        given, groups = result.labels.reshape(30, 100), result.wrong.reshape(30, 100)
        shares = [np.bincount(row[wrong], minlength=5).max() / wrong.sum() for row, wrong in zip(given, groups)]
        assert np.mean(shares) > 0.75
        assert len(np.unique(result.labels[result.wrong])) > 1

    def test_units_do_not_matter(self) -> None:
        first = make("instance", self.labels, 5, rate=0.4, features=self.features)
        second = make("instance", self.labels, 5, rate=0.4, features=1000 * self.features + 7)
        assert (first.labels != second.labels).mean() < 0.001

    def test_images_are_flattened_and_described_by_their_digest(self) -> None:
        images = self.features.reshape(self.n, 2, 2, 2)
        flat = make("instance", self.labels, 5, rate=0.4, features=self.features)
        result = make("instance", self.labels, 5, rate=0.4, features=images)
        assert (result.labels == flat.labels).all()
        described = result.options["features"]
        assert described["shape"] == [self.n, 2, 2, 2]
        assert described["sha256"] == hashlib.sha256(images.tobytes()).hexdigest()

    @pytest.mark.parametrize("features", [np.zeros(6000), np.zeros((3, 2)), np.array([["a"]] * 6000)])
    def test_features_must_fit(self, features: NDArray[Any]) -> None:
        with pytest.raises(InvalidInput, match="a row for each of the 6000 instances"):
            make("instance", self.labels, 5, rate=0.4, features=features)

    def test_features_must_be_finite(self) -> None:
        with pytest.raises(InvalidInput, match="finite"):
            make("instance", self.labels, 5, rate=0.4, features=np.full((self.n, 2), np.nan))


class TestFile:
    """Given labels from a file."""

    clean = np.array([0, 1, 2, 0])
    given = np.array([0, 2, 2, 1])

    @pytest.mark.parametrize("name", ["a.npy", "a.npz", "two.npz", "a.csv", "headed.csv", "a.txt", "bom.txt"])
    def test_formats(self, name: str, tmp_path: Path) -> None:
        path, lines = tmp_path / name, "\n".join(map(str, self.given))
        if name == "a.npy":
            np.save(path, self.given.astype(np.uint8))
        elif name == "a.npz":
            np.savez(path, whatever=self.given)
        elif name == "two.npz":
            np.savez(path, labels=self.given, clean=self.clean)
        else:
            heading = {"headed.csv": "label\n", "bom.txt": "\ufeff"}.get(name, "")
            path.write_text(f"{heading}{lines}\n", encoding="utf-8")
        result = make("file", self.clean, 3, path=path)
        assert (result.labels == self.given).all()
        assert result.realised_rate == 0.5
        assert result.options == {"path": str(path)}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0\n1\n2\n", "has 3 labels for 4 instances"),
            ("0\n1\n2\n3\n", "from 0 to 2 for 3 classes, given 3 at index 3"),
            ("0\n1\n2\n-1\n", "given -1 at index 3"),
            ("0\n1\ncat\n2\n", "cannot be read as labels"),
            ("0,1\n1,1\n2,1\n2,1\n", "cannot be read as labels"),
            ("", "given int64 of shape"),
        ],
    )
    def test_lines_that_do_not_fit(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        path.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            make("file", self.clean, 3, path=path)

    def test_files_that_cannot_be_labels(self, tmp_path: Path) -> None:
        np.save(tmp_path / "objects.npy", np.array([0, 1, 2, None]), allow_pickle=True)
        np.save(tmp_path / "floats.npy", np.array([0.0, 1.0, 2.0, 0.5]))
        np.savez(tmp_path / "two.npz", a=self.given, b=self.given)
        (tmp_path / "damaged.npy").write_bytes(b"no array")
        for name, message in {
            "objects.npy": "cannot be read as labels",
            "floats.npy": "must be a list of whole numbers",
            "two.npz": "it holds a, b; call one array 'labels'",
            "damaged.npy": "cannot be read as labels",
            "absent.npy": "no file of labels",
            "labels.pkl": r"\.npy, \.npz, \.csv or \.txt",
        }.items():
            with pytest.raises(InvalidInput, match=message):
                make("file", self.clean, 3, path=tmp_path / name)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), "0.4", True, None])
@pytest.mark.parametrize("name", ["symmetric", "symmetric-inclusive", "circular", "class-dependent", "instance"])
def test_rate_is_from_0_to_1(name: str, rate: Any) -> None:
    options: dict[str, Any] = {"features": np.zeros((10, 2))} if name == "instance" else {}
    with pytest.raises(InvalidInput, match="rate must be a number from 0 to 1, given"):
        make(name, balanced(10, 1), 10, rate=rate, **options)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3], "from 0 to 2 for 3 classes, given 3 at index 2"),
        ([0, -1], "given -1 at index 1"),
        ([0.0, 1.0], "whole numbers"),
        ([[0, 1]], r"given int64 of shape \(1, 2\)"),
        ([], "one for each instance"),
    ],
)
@pytest.mark.parametrize("name", ["none", "symmetric", "transition"])
def test_labels_must_fit(labels: Any, message: str, name: str) -> None:
    choices: dict[str, dict[str, Any]] = {"none": {}, "symmetric": {"rate": 0.2}, "transition": {"matrix": MATRIX}}
    options = choices[name]
    with pytest.raises(InvalidInput, match=message):
        NOISE[name](labels, np.random.default_rng(0), classes=3, **options)
    with pytest.raises(InvalidInput, match=message):
        corrupt(labels, name, np.random.default_rng(0), classes=3, **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("symmetric", {}, "noise 'symmetric' takes rate, exact: missing rate"),
        ("symmetric", {"rats": 0.4}, "missing rate; unknown rats"),
        ("none", {"rate": 0.4}, "noise 'none' takes no options: unknown rate"),
        ("pair", {"rates": (0.1, 0.1)}, "noise 'pair' is for 2 classes, given 3"),
        ("class-dependent", {"rate": 0.1}, "for 10 classes in its order, given 3"),
        ("transition", {"matrix": np.eye(2)}, r"matrix must be of shape \(3, 3\), given \(2, 2\)"),
        ("transition", {"matrix": 0.9 * np.eye(3)}, "rows that sum to 1"),
        ("transition", {"matrix": np.eye(3) * np.nan}, "rows that sum to 1"),
        ("transition", {"matrix": [[1.5, -0.5, 0], [0, 1, 0], [0, 0, 1]]}, "no negative entry"),
        ("transition", {"matrix": [[1], [2, 3], [4]]}, "3 rows of 3 numbers"),
    ],
)
def test_options_must_fit(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make(name, balanced(3, 2), 3, **options)


@pytest.mark.parametrize("rates", [0.4, (0.4,), (0.4, 0.1, 0.2), "0.4", (0.4, 1.2), (0.4, "0.1"), (0.4, (0.1, 0.2))])
def test_pair_takes_two_rates(rates: Any) -> None:
    with pytest.raises(InvalidInput, match="rates must be"):
        make("pair", balanced(2, 5), 2, rates=rates)


def test_names_generators_and_classes_must_fit() -> None:
    with pytest.raises(UnknownName, match="no noise 'symetric'; did you mean 'symmetric'"):
        make("symetric", balanced(3, 2), 3, rate=0.4)
    with pytest.raises(InvalidInput, match=r"given 0: write np\.random\.default_rng\(seed\)"):
        corrupt([0, 1], "none", 0, classes=2)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="classes must be at least 2, given 1"):
        symmetric([0, 0], np.random.default_rng(0), classes=1, rate=0.4)


def test_rows_need_only_sum_to_one_nearly() -> None:
    matrix = np.full((3, 3), 1 / 3).round(7)
    assert len(transition(balanced(3, 50), np.random.default_rng(0), classes=3, matrix=matrix)) == 150
