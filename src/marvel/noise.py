"""Wrong labels on purpose: named conventions that turn clean labels into given labels.

    none                 as they are
    symmetric            to any *other* class, all alike                              T[k, j] = rate / (K - 1)
    symmetric-inclusive  redrawn from all classes, so that rate (1 - 1/K) are wrong   T[k, j] = rate / K
    circular             to the next class                                            T[k, k + 1 mod K] = rate
    pair                 one rate for each class of a binary problem                  T[0, 1] = a, T[1, 0] = b
    class-dependent      CIFAR-10: truck -> car, bird -> airplane, deer -> horse, cat <-> dog; rate / 2 are wrong
    transition           any row-stochastic matrix T
    instance             each instance has its own row, drawn from its features (Xia et al., NeurIPS 2020)
    file                 given labels read from a file

Each is a pure function `labels, rng -> labels`. T[k, j] is the chance that an instance of class k is given label j;
labels are drawn independently of each other, or with an exact number of wrong ones in each class: `exact=None` means
exact for two classes and independent for more, the reading chosen for the paper's tables. What "40 % noise" came to is
never left to the name: `corrupt` reports the realised rate and matrix with the labels.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marvel.errors import InvalidInput, amount, pick

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]

CIFAR10_CONFUSED = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
"""truck -> car, bird -> airplane, deer -> horse, cat <-> dog (Patrini et al., CVPR 2017)."""


def none(labels: ArrayLike, rng: np.random.Generator, *, classes: int) -> Labels:
    """A copy of the labels."""
    return _checked(labels, classes).copy()


def symmetric(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, rate: float, exact: bool | None = None
) -> Labels:
    """A share `rate` goes to another class, all others alike."""
    _check_classes(classes)
    matrix = np.full((classes, classes), _checked_rate(rate) / (classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return transition(labels, rng, classes=classes, matrix=matrix, exact=exact)


def symmetric_inclusive(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, rate: float, exact: bool | None = None
) -> Labels:
    """A share `rate` is redrawn from all classes, its own included: fewer are wrong than the rate says."""
    _check_classes(classes)
    matrix = np.full((classes, classes), _checked_rate(rate) / classes)
    np.fill_diagonal(matrix, 1 - rate + rate / classes)
    return transition(labels, rng, classes=classes, matrix=matrix, exact=exact)


def circular(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, rate: float, exact: bool | None = None
) -> Labels:
    """A share `rate` goes to the next class, that of the last class to the first."""
    return _mapped(labels, rng, classes, _checked_rate(rate), {k: (k + 1) % classes for k in range(classes)}, exact)


def pair(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, rates: Sequence[float], exact: bool | None = None
) -> Labels:
    """A share a of class 0 goes to class 1, and a share b of class 1 to class 0; rates = (a, b)."""
    if classes != 2:
        raise InvalidInput(f"noise 'pair' is for 2 classes, given {classes}: use 'transition' with a matrix")
    # As objects, so that numpy neither turns text into numbers nor stumbles over rows of unequal length.
    chances = np.asarray(rates, dtype=object)
    if chances.shape != (2,):
        raise InvalidInput(f"rates must be two numbers, one for each class, given {rates!r}: for example (0.4, 0.1)")
    a, b = (_checked_rate(rate, "each of rates") for rate in chances)
    return transition(labels, rng, classes=classes, matrix=np.array([[1 - a, a], [b, 1 - b]]), exact=exact)


def class_dependent(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, rate: float, exact: bool | None = None
) -> Labels:
    """A share `rate` of CIFAR-10's trucks, birds, deer, cats and dogs goes to the class each is confused with."""
    if classes != 10:
        raise InvalidInput(
            f"noise 'class-dependent' is CIFAR-10's, for 10 classes in its order, given {classes}: "
            "use 'transition' with a matrix"
        )
    return _mapped(labels, rng, classes, _checked_rate(rate), CIFAR10_CONFUSED, exact)


def transition(
    labels: ArrayLike, rng: np.random.Generator, *, classes: int, matrix: ArrayLike, exact: bool | None = None
) -> Labels:
    """Each given label is drawn from the row of its clean class.

    `exact` fixes how many of each class are wrong, rounded; which ones, and where they go, is still drawn.
    """
    clean = _checked(labels, classes)
    given = clean.copy()
    for k, row in enumerate(_checked_matrix(matrix, classes)):
        members = np.flatnonzero(clean == k)
        leaving = 1 - row[k]
        if classes == 2 if exact is None else exact:
            # Rounded twice: 0.45 x 10 must be a tie whichever way the rate was computed.
            wrong = rng.permutation(members)[: round(round(leaving * len(members), 6))]
        else:
            wrong = members[rng.random(len(members)) < leaving]
        if len(wrong):
            elsewhere = np.where(np.arange(classes) == k, 0, row)
            given[wrong] = rng.choice(classes, size=len(wrong), p=elsewhere / elsewhere.sum())
    return given


def instance(labels: ArrayLike, rng: np.random.Generator, *, classes: int, rate: float, features: ArrayLike) -> Labels:
    """Instance-dependent noise, after Xia et al. ("Part-dependent label noise", NeurIPS 2020).

    Each instance has its own chance q of a wrong label, from a normal distribution of mean `rate` and standard
    deviation 0.1 cut to [0, 1]. Each class has a random projection of the features onto K numbers; an instance's wrong
    label is drawn from the softmax of these over the other classes, so instances that look alike go wrong alike.

    `features` is (n, ...), a row an instance. Departures: features are standardised over the instances, lest their
    units decide, and a rate of 0 leaves the labels. Near 0 and 1 the cut pulls the realised rate inwards.
    """
    clean = _checked(labels, classes)
    _checked_rate(rate)
    rows = _checked_features(features, len(clean))
    given = clean.copy()
    if rate == 0:
        return given
    chance = rng.normal(rate, 0.1, size=len(clean))
    while (outside := (chance < 0) | (chance > 1)).any():
        chance[outside] = rng.normal(rate, 0.1, size=int(outside.sum()))
    wrong = rng.random(len(clean)) < chance
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1
    for k in range(classes):
        projection = rng.standard_normal((rows.shape[1], classes))
        members = np.flatnonzero(wrong & (clean == k))
        scores = (rows[members] - mean) / spread @ projection
        scores[:, k] = -np.inf
        # The largest of scores plus Gumbel noise is a draw from their softmax.
        given[members] = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return given


def file(labels: ArrayLike, rng: np.random.Generator, *, classes: int, path: str | Path) -> Labels:
    """The given labels of a file, in the order of the clean ones.

    A `.npy` array, a `.npz` of one array (or one called "labels"), or a `.csv` or `.txt` of one whole number a line,
    the first of which may be a heading. Nothing in it is ever unpickled.
    """
    clean = _checked(labels, classes)
    given = _checked(_read(Path(path)), classes, f"the labels of {path}").copy()
    if len(given) != len(clean):
        labels = amount(len(given), "label")
        raise InvalidInput(f"{path} has {labels} for {len(clean)} instances: give one for each, in order")
    return given


NOISE: dict[str, Callable[..., Labels]] = {
    "none": none,
    "symmetric": symmetric,
    "symmetric-inclusive": symmetric_inclusive,
    "circular": circular,
    "pair": pair,
    "class-dependent": class_dependent,
    "transition": transition,
    "instance": instance,
    "file": file,
}


def read_matrix(path: str | Path) -> Matrix:
    """The matrix of a `.npy` file, or of a `.csv` or `.txt` file with a row a line; for `transition`."""
    path = Path(path)
    if path.suffix not in (".npy", ".csv", ".txt"):
        raise InvalidInput(f"a matrix comes from a .npy, .csv or .txt file, given {path}")
    if not path.is_file():
        raise InvalidInput(f"no file of a matrix at {path}")
    try:
        if path.suffix == ".npy":
            content = np.load(path, allow_pickle=False)
        else:
            content = np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
        return np.asarray(content, dtype=np.float64)
    except Exception as error:  # damaged and hostile files fail in a dozen ways, all of which mean the same
        raise InvalidInput(f"{path} cannot be read as a matrix: {error}") from error


@dataclass(frozen=True, eq=False)
class Corruption:
    """Given labels, and what the noise came to."""

    labels: Labels
    """(n,) the given labels."""
    name: str
    """The convention, a key of `NOISE`."""
    options: dict[str, Any]
    """What it was asked for, fit for JSON; features as their shape and digest."""
    realised_rate: float
    """The share of wrong labels."""
    transition: Matrix
    """(K, K) the share of each clean class given each label; rows sum to 1, or to 0 for absent classes."""
    wrong: NDArray[np.bool_]
    """(n,) whether the given label differs from the clean one."""

    def describe(self) -> dict[str, Any]:
        """A summary fit for JSON. The matrix is left out, which has a million entries for a thousand classes."""
        return {
            "name": self.name,
            "options": self.options,
            "instances": len(self.labels),
            "wrong": int(self.wrong.sum()),
            "realised_rate": self.realised_rate,
            "realised_rate_by_class": (self.transition.sum(axis=1) - self.transition.diagonal()).tolist(),
            "sha256": _digest(self.labels.astype("<i8")),
        }


def corrupt(labels: ArrayLike, name: str, rng: np.random.Generator, *, classes: int, **options: Any) -> Corruption:
    """Clean labels -> given labels by the convention of that name, with what it came to.

    All chance comes from `rng` and from nowhere else: the same labels, options and seed give the same result. Give the
    noise a generator of its own, so that adding a draw elsewhere does not change which labels are wrong.
    """
    convention = pick("noise", name, NOISE)
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy Generator, given {rng!r}: write np.random.default_rng(seed)")
    _check_options(name, convention, options)
    clean = _checked(labels, classes)
    given = convention(clean, rng, classes=classes, **options)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (clean, given), 1)
    wrong = given != clean
    return Corruption(
        labels=given,
        name=name,
        options={key: _plain(key, value) for key, value in options.items()},
        realised_rate=float(wrong.mean()),
        transition=counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        wrong=wrong,
    )


def _mapped(
    labels: ArrayLike, rng: np.random.Generator, classes: int, rate: float, towards: dict[int, int], exact: bool | None
) -> Labels:
    """A share `rate` of each class k of `towards` goes to towards[k]."""
    _check_classes(classes)
    matrix = np.eye(classes)
    for k, j in towards.items():
        matrix[k, k], matrix[k, j] = 1 - rate, rate
    return transition(labels, rng, classes=classes, matrix=matrix, exact=exact)


def _check_classes(classes: int) -> None:
    if classes < 2:
        raise InvalidInput(f"classes must be at least 2, given {classes}: one class leaves nothing to be wrong about")


def _checked(labels: ArrayLike, classes: int, what: str = "labels") -> Labels:
    """The labels as an (n,) array of whole numbers from 0 to classes - 1; not a copy where they are one."""
    _check_classes(classes)
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InvalidInput(
            f"{what} must be a list of whole numbers, one for each instance, given {array.dtype} of shape {array.shape}"
        )
    outside = (array < 0) | (array >= classes)
    if outside.any():
        first = int(outside.argmax())
        raise InvalidInput(
            f"{what} must be from 0 to {classes - 1} for {classes} classes, given {array[first]} at index {first}"
        )
    return array.astype(np.int64, copy=False)


def _checked_rate(rate: object, what: str = "rate") -> float:
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= float(rate) <= 1:
        raise InvalidInput(f"{what} must be a number from 0 to 1, given {rate!r}: write 0.4 for 40 %")
    return float(rate)


def _checked_matrix(matrix: ArrayLike, classes: int) -> Matrix:
    """The matrix with rows that sum to 1 to the last digit."""
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"matrix must be {classes} rows of {classes} numbers: {error}") from error
    if array.shape != (classes, classes):
        raise InvalidInput(f"matrix must be of shape {(classes, classes)}, given {array.shape}")
    sums = array.sum(axis=1, keepdims=True)
    if not np.isfinite(array).all() or (array < 0).any() or (abs(sums - 1) > 1e-6).any():
        raise InvalidInput(f"matrix must have no negative entry and rows that sum to 1, given {array.tolist()}")
    normalised: Matrix = array / sums
    return normalised


def _checked_features(features: ArrayLike, n: int) -> NDArray[np.float32]:
    """The features as an (n, d) array."""
    array = np.asarray(features)
    if array.ndim < 2 or len(array) != n or array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"features must be numbers, a row for each of the {n} instances, given {array.dtype} of shape {array.shape}"
        )
    rows = array.reshape(n, -1).astype(np.float32, copy=False)
    if not np.isfinite(rows).all():
        raise InvalidInput("features must be finite, given NaN or infinity: fill or drop those values")
    return rows


def _check_options(name: str, convention: Callable[..., Labels], options: dict[str, Any]) -> None:
    """The options are the convention's own keywords: none missing, none unknown."""
    keywords = {
        key: parameter
        for key, parameter in inspect.signature(convention).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and key != "classes"
    }
    required = [key for key, parameter in keywords.items() if parameter.default is parameter.empty]
    missing = [key for key in required if key not in options]
    unknown = [key for key in options if key not in keywords]
    if missing or unknown:
        faults = [f"{what} {', '.join(keys)}" for what, keys in (("missing", missing), ("unknown", unknown)) if keys]
        raise InvalidInput(f"noise '{name}' takes {', '.join(keywords) or 'no options'}: {'; '.join(faults)}")


def _read(path: Path) -> NDArray[Any]:
    """The array of a label file."""
    if path.suffix not in (".npy", ".npz", ".csv", ".txt"):
        raise InvalidInput(f"labels come from a .npy, .npz, .csv or .txt file, given {path}")
    if not path.is_file():
        raise InvalidInput(f"no file of labels at {path}")
    try:
        if path.suffix in (".csv", ".txt"):
            return _read_lines(path.read_text(encoding="utf-8-sig"))
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content as arrays:
            names = list(arrays)
            if len(names) != 1 and "labels" not in names:
                raise ValueError(f"it holds {', '.join(names) or 'nothing'}; call one array 'labels'")
            array: NDArray[Any] = arrays["labels" if "labels" in names else names[0]]
            return array
    except Exception as error:  # damaged and hostile files fail in a dozen ways, all of which mean the same
        raise InvalidInput(f"{path} cannot be read as labels: {error}") from error


def _read_lines(text: str) -> Labels:
    """One whole number a line; the first line may be a heading."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and not lines[0].lstrip("+-").isdigit() and "," not in lines[0]:
        del lines[0]
    return np.array([int(line) for line in lines], dtype=np.int64)


def _plain(key: str, value: Any) -> Any:
    """An option as JSON has it; features, which may be the whole dataset, as their shape and digest."""
    if key == "features":
        array = np.asarray(value)
        return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": _digest(array)}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str | bool | None):
        return value
    return np.asarray(value).tolist()


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
