"""What the paper says of the warm-up and the wait."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from marvel.paper import paper_number
from marvel.report.cells import Cell, Record, Runs
from marvel.report.claims.claim import Claim, Finding, curve, part_of, seeds
from marvel.report.figures.curves import drops
from marvel.warmup import SMOOTH, knee, peak, smoothed

SENSITIVITY = (
    Cell("cifar10", "symmetric", (0.4,), "marvel"),
    Cell("cifar10", "circular", (0.4,), "marvel"),
    Cell("cifar100", "symmetric", (0.6,), "marvel"),
    Cell("cifar100", "circular", (0.2,), "marvel"),
)
PLACES = ("CIFAR-10 40% Symmetric", "CIFAR-10 40% Asymmetric", "CIFAR-100 60% Symmetric", "CIFAR-100 20% Asymmetric")
"""The same, as the paper's tables of sensitivity name them."""
WARMUPS = (20, 30, 40, 50)
WAITS = ((6, 8, 10, 12), (4, 6, 8, 10), (10, 13, 16, 19), (10, 13, 16, 19))
SELECTED = (8, 6, 16, 16)

ASYMMETRIC = Cell("cifar10", "circular", (0.4,), "ce")
HUNDRED = Cell("cifar100", "symmetric", (0.6,), "ce")


def lowest_from_30_to_40(runs: Runs) -> Finding | None:
    ratio = curve(runs, ASYMMETRIC, "memorisation_ratio")
    if ratio is None:
        return None
    smooth = smoothed(ratio.tolist())
    here = smooth[30 - SMOOTH // 2 - 1 : 40 - SMOOTH // 2]
    figure = (
        f"{here.min():.1f} to {here.max():.1f} % in epochs 30 to 40; the lowest of all epochs is {smooth.min():.1f} %, "
        f"around epoch {int(smooth.argmin()) + SMOOTH // 2 + 1} ({seeds(runs, ASYMMETRIC)})"
    )
    return Finding(figure, bool(here.mean() <= smooth.min() + 2))


def read_off(runs: Runs) -> Finding | None:
    """The training accuracy's knee, and the peak of the test accuracy, which stands for a clean validation set's."""
    if runs.lacking((ASYMMETRIC, HUNDRED)):
        return None
    told, near = [], True
    for cell, by_training, by_validation in ((ASYMMETRIC, 30, 30), (HUNDRED, 40, 50)):
        until = drops(runs.of(cell)[0])[0]
        training = fmean(knee(r["curves"]["train_accuracy"], until) for r in runs.of(cell))
        validation = fmean(peak(r["curves"]["test_accuracy"], until) for r in runs.of(cell))
        near = near and abs(training - by_training) <= 10 and abs(validation - by_validation) <= 10
        told.append(
            f"{cell.data}: epoch {training:.0f} by the training accuracy (the paper: {by_training}), "
            f"{validation:.0f} by clean labels ({by_validation})"
        )
    return Finding("; ".join(told), near)


# ------------------------------------------------------------ sensitivity


def means(found: Mapping[int, list[Record]], only: Sequence[int] | None = None) -> dict[int, float]:
    """Test accuracy in percent by the value of an option."""
    return {
        value: 100 * fmean(record["final"]["test_accuracy"] for record in records)
        for value, records in found.items()
        if only is None or value in only
    }


def listed(accuracy: Mapping[int, float]) -> str:
    return ", ".join(f"{value}: {one:.1f}" for value, one in accuracy.items())


def robust_to_warmup(runs: Runs) -> Finding | None:
    found = {cell: means(runs.by_option(cell, "warmup"), WARMUPS) for cell in SENSITIVITY}
    there = {cell: accuracy for cell, accuracy in found.items() if len(accuracy) >= 3}
    if not there:
        return None
    spans = [max(accuracy.values()) - min(accuracy.values()) for accuracy in there.values()]
    figure = "; ".join(f"{cell.setting}: {listed(accuracy)} %" for cell, accuracy in there.items())
    return Finding(figure, max(spans) <= 2, part_of(list(there), SENSITIVITY, "settings"))


def robust_to_warmup_own() -> str:
    spans = []
    for place in PLACES:
        numbers = [paper_number("warmup", place, str(warmup), "marvel") for warmup in WARMUPS]
        known = [number.mean for number in numbers if number is not None and number.mean is not None]
        spans.append(max(known) - min(known))
    return f"apart by at most {max(spans):.1f} points"


def robust_to_wait(runs: Runs) -> Finding | None:
    away, told = [], []
    there = []
    for cell, waits, selected in zip(SENSITIVITY, WAITS, SELECTED, strict=True):
        accuracy = means(runs.by_option(cell, "wait"), waits)
        apart = neighbours_apart(accuracy, selected)
        if apart is not None:
            there.append(cell)
            away.append(apart)
            told.append(f"{cell.setting}: {listed(accuracy)} %")
    if not there:
        return None
    return Finding("; ".join(told), max(away) <= 1, part_of(there, SENSITIVITY, "settings"))


def neighbours_apart(accuracy: Mapping[int, float], selected: int) -> float | None:
    """By how much the accuracies of the next shorter and longer wait differ from that of the selected one."""
    waits = sorted(accuracy)
    if selected not in accuracy or len(waits) < 2:
        return None
    place = waits.index(selected)
    near = [waits[k] for k in (place - 1, place + 1) if 0 <= k < len(waits)]
    return max(abs(accuracy[wait] - accuracy[selected]) for wait in near)


def robust_to_wait_own() -> str:
    away = []
    for place, waits, selected in zip(PLACES, WAITS, SELECTED, strict=True):
        numbers = {wait: paper_number("wait", place, str(wait), "marvel") for wait in waits}
        known = {
            wait: number.mean for wait, number in numbers.items() if number is not None and number.mean is not None
        }
        apart = neighbours_apart(known, selected)
        assert apart is not None
        away.append(apart)
    return f"neighbours apart by at most {max(away):.1f} points"


# ------------------------------------------------------------ the wait chosen


def best_waits(runs: Runs, cells: tuple[Cell, ...]) -> dict[Cell, int]:
    """The wait of the highest test accuracy in each setting where three or more were run."""
    found = {}
    for cell in cells:
        accuracy = means(runs.by_option(cell, "wait"))
        if len(accuracy) >= 3:
            found[cell] = max(accuracy, key=lambda wait: accuracy[wait])
    return found


def say_waits(best: Mapping[Cell, int]) -> str:
    return "best wait " + ", ".join(f"{wait} on {cell.setting}" for cell, wait in best.items())


def longer_when_harder(runs: Runs) -> Finding | None:
    best = best_waits(runs, SENSITIVITY)
    ten = [wait for cell, wait in best.items() if cell.data == "cifar10"]
    hundred = [wait for cell, wait in best.items() if cell.data == "cifar100"]
    if not ten or not hundred:
        return None
    return Finding(say_waits(best), min(hundred) > max(ten), part_of(list(best), SENSITIVITY, "settings"))


BY_NOISE = tuple(Cell("cifar10", "symmetric", (rate,), "marvel") for rate in (0.2, 0.4, 0.6, 0.8))


def shorter_with_noise(runs: Runs) -> Finding | None:
    best = best_waits(runs, BY_NOISE)
    if len(best) < len(BY_NOISE):
        return None
    low, middle, high, extreme = (best[cell] for cell in BY_NOISE)
    return Finding(say_waits(best), low >= middle >= high and low > high and extreme > high)


CLAIMS = (
    Claim(
        "memorisation lowest from 30 to 40",
        "Section 3.4",
        "from Figure 6 (a), it seems that the warm-up period can be set to anywhere from 30 to 40 epochs, because "
        "the memorization ratio is the lowest during these epochs.",
        "Over five epochs, the memorisation ratio is on average within 2 points of its lowest there.",
        "cross entropy on CIFAR-10 with 40 % asymmetric noise",
        lowest_from_30_to_40,
    ),
    Claim(
        "warm-up read off cross entropy",
        "Section 3.4, Figure 6",
        "The warm-up period is set to 30 using either method [on CIFAR-10]. The warm-up period is set to 50 "
        "(orange, with clean validation set) or 40 (blue, otherwise) [on CIFAR-100].",
        "The knee of the training accuracy, and the first epoch of test accuracy within a point of its highest, "
        "both before the learning rate first falls, are within 10 epochs of these.",
        "cross entropy on CIFAR-10 with 40 % asymmetric and CIFAR-100 with 60 % symmetric noise",
        read_off,
    ),
    Claim(
        "robust to the warm-up",
        "Section 4.5",
        "a wide range of warm-up periods work for MARVEL, resulting in roughly identical performance. Hence MARVEL "
        "proves robust to the warm-up period.",
        "In each of the paper's four settings, the accuracies with warm-ups of 20, 30, 40 and 50 epochs (three of "
        "them at least) differ by at most 2 points.",
        "MARVEL with four warm-ups in four settings of CIFAR-10 and CIFAR-100",
        robust_to_warmup,
        robust_to_warmup_own,
    ),
    Claim(
        "robust to the wait",
        "Section 4.5",
        "a slight misspecification of the wait period has a negligible impact on the performance of the network, "
        "and thus MARVEL proves robust to the wait period.",
        "In each of the paper's four settings, the next shorter and the next longer wait of its table are within a "
        "point of the selected one.",
        "MARVEL with four waits in four settings of CIFAR-10 and CIFAR-100",
        robust_to_wait,
        robust_to_wait_own,
    ),
    Claim(
        "longer wait on harder data",
        "Section 4.5",
        "a more challenging dataset benefits from a longer wait period, as displayed by CIFAR-10 and CIFAR-100.",
        "The most accurate wait is longer in every setting of CIFAR-100 than in any of CIFAR-10.",
        "MARVEL with at least three waits in four settings of CIFAR-10 and CIFAR-100",
        longer_when_harder,
    ),
    Claim(
        "shorter wait with more noise",
        "Section 4.5",
        "For a given dataset, the wait period shortens for higher or more skewed noise levels, unless the dataset "
        "is extremely noisy (e.g., (aquatic, fish) with 40% asymmetric noise, or CIFAR-10 with 80% symmetric "
        "noise), in which case a longer wait period works better.",
        "On CIFAR-10 the most accurate wait does not grow from 20 to 40 and 60 % symmetric noise, is shorter at 60 "
        "than at 20 %, and longer at 80 than at 60 %.",
        "MARVEL with at least three waits on CIFAR-10 with 20, 40, 60 and 80 % symmetric noise",
        shorter_with_noise,
    ),
)
