"""What the paper says of training: three phases, memorisation, and what stopping early would give."""

import numpy as np

from marvel.report.cells import ASYMMETRIC_40, Cell, Runs
from marvel.report.claims.claim import Claim, Finding, curve, final, part_of, seeds
from marvel.report.claims.settings import BINARY, CIFAR
from marvel.warmup import SMOOTH, smoothed

CE = Cell("cat-dog", "symmetric", (0.2,), "ce")
CE_RUN = "cross entropy on cat-dog with 20 % symmetric noise"
EDGE = SMOOTH // 2 + 1
"""The epoch that the first mean of five neighbours is of."""


def early_stopping(runs: Runs) -> Finding | None:
    wanted = BINARY + CIFAR
    there = [at for at in wanted if runs.of(at.by("ce")) and runs.of(at.by("marvel+"))]
    if CE.by("") not in there:
        return None
    best = {at: float(np.mean([100 * max(r["curves"]["test_accuracy"]) for r in runs.of(at.by("ce"))])) for at in there}
    last = {at: final(runs, at.by("marvel+")) or 0.0 for at in there}
    below = [at for at in there if best[at] < last[at]]
    at = CE.by("")
    figure = (
        f"on {at.setting}: {best[at]:.1f} % at cross entropy's best epoch (which only the test labels tell), "
        f"{last[at]:.1f} % at MARVEL+'s last; below it in {len(below)} of {len(there)} settings"
    )
    return Finding(figure, at in below and len(below) >= 0.9 * len(there), part_of(there, wanted, "settings"))


def phases(runs: Runs) -> Finding | None:
    accuracy = curve(runs, CE, "test_accuracy")
    if accuracy is None:
        return None
    smooth = smoothed(accuracy.tolist())
    high = np.flatnonzero(smooth >= smooth.max() - 1) + EDGE
    fall = smooth.max() - smooth[-1]
    figure = (
        f"within a point of its highest, {smooth.max():.1f} %, from epoch {high[0]} to {high[-1]}; "
        f"at the end {fall:.1f} points below ({seeds(runs, CE)})"
    )
    return Finding(figure, abs(high[0] - 20) <= 10 and abs(high[-1] - 40) <= 10 and fall >= 2)


def falls_first(runs: Runs) -> Finding | None:
    ratio = curve(runs, CE, "memorisation_ratio")
    if ratio is None:
        return None
    figure = f"memorisation ratio {ratio[0]:.1f} % in epoch 1, {ratio[19]:.1f} % in epoch 20 ({seeds(runs, CE)})"
    return Finding(figure, bool(ratio[19] < ratio[0] - 5))


def majority_misclassified(runs: Runs) -> Finding | None:
    ratio = curve(runs, CE, "memorisation_ratio")
    if ratio is None:
        return None
    return Finding(
        f"{100 - ratio[19]:.1f} % of them misclassified in epoch 20 ({seeds(runs, CE)})", bool(ratio[19] < 50)
    )


def minimum(runs: Runs) -> Finding | None:
    ratio = curve(runs, CE, "memorisation_ratio")
    if ratio is None:
        return None
    smooth = smoothed(ratio.tolist())
    at = int(smooth.argmin())
    near = smooth <= smooth.min() + 2
    first, last = at, at
    while first > 0 and near[first - 1]:
        first -= 1
    while last < len(near) - 1 and near[last + 1]:
        last += 1
    figure = (
        f"lowest, {smooth.min():.1f} %, around epoch {at + EDGE}; within 2 points of that from epoch {first + EDGE} "
        f"to {last + EDGE}, {last - first + 1} epochs ({seeds(runs, CE)})"
    )
    return Finding(figure, abs(at + EDGE - 20) <= 10 and last - first + 1 >= 8)


def jump(runs: Runs) -> Finding | None:
    ratio = curve(runs, CE, "memorisation_ratio")
    if ratio is None:
        return None
    before, after = ratio[70:75].mean(), ratio[75:80].mean()
    figure = (
        f"{before:.1f} % in the five epochs before, {after:.1f} % in the five after ({after - before:+.1f} points), "
        f"{ratio[-1]:.1f} % at the end ({seeds(runs, CE)})"
    )
    return Finding(figure, bool(after - before >= 10))


# ------------------------------------------------------------ memorisation across methods

ROBUST = ("gce", "sce", "npcl", "marvel+")
SYMMETRIC = tuple(Cell(data, "symmetric", (0.2,), "") for data in ("truck-car", "cat-dog"))
ASYMMETRIC = tuple(Cell(data, "pair", ASYMMETRIC_40, "") for data in ("truck-car", "cat-dog"))


def similar_when_symmetric(runs: Runs) -> Finding | None:
    there = [at for at in SYMMETRIC if not runs.lacking(at.by(method) for method in ROBUST)]
    if not there:
        return None
    spans, told = [], []
    for at in there:
        ratios = [final(runs, at.by(method), "memorisation_ratio") or 0.0 for method in ROBUST]
        spans.append(max(ratios) - min(ratios))
        told.append(f"{at.data}: {min(ratios):.1f} to {max(ratios):.1f} %")
    return Finding("; ".join(told), max(spans) <= 15, part_of(there, SYMMETRIC, "problems"))


def plus_stays_low(runs: Runs) -> Finding | None:
    there = [at for at in ASYMMETRIC if runs.of(at.by("marvel+"))]
    if not there:
        return None
    rises, told = [], []
    for at in there:
        cell = at.by("marvel+")
        ratio = curve(runs, cell, "memorisation_ratio")
        assert ratio is not None
        warm = runs.of(cell)[0]["chosen"]["warmup"]
        rises.append(ratio[warm:].max() - ratio[warm - 1])
        told.append(
            f"{at.data}: {ratio[warm - 1]:.1f} % when the warm-up ends, at most {ratio[warm:].max():.1f} % after it, "
            f"{ratio[-1]:.1f} % at the end ({seeds(runs, cell)})"
        )
    return Finding("; ".join(told), max(rises) <= 5, part_of(there, ASYMMETRIC, "problems"))


def others_memorise(runs: Runs) -> Finding | None:
    wanted = [at.by(method) for at in ASYMMETRIC for method in ("gce", "sce")]
    there = [cell for cell in wanted if runs.of(cell)]
    if not there:
        return None
    holds, told = True, []
    for cell in there:
        ratio, accuracy = curve(runs, cell, "memorisation_ratio"), curve(runs, cell, "test_accuracy")
        assert ratio is not None
        assert accuracy is not None
        smooth = smoothed(accuracy.tolist())
        rise, fall = ratio[-1] - ratio.min(), smooth.max() - smooth[-1]
        holds = holds and bool(rise >= 10) and bool(fall >= 1)
        told.append(f"{cell}: ratio {rise:+.1f} points from its lowest, accuracy {-fall:+.1f} from its highest")
    return Finding("; ".join(told), holds, part_of(there, wanted, "runs"))


CIRCULAR = (Cell("cifar10", "circular", (0.4,), ""), Cell("cifar100", "circular", (0.2,), ""))


def marvel_drives_it_down(runs: Runs) -> Finding | None:
    there = [at for at in CIRCULAR if not runs.lacking(at.by(method) for method in ("ce", "sce", "marvel"))]
    if not there:
        return None
    holds, told = True, []
    for at in there:
        warm = runs.of(at.by("marvel"))[0]["chosen"]["warmup"]
        changes = {}
        for method in ("marvel", "ce", "sce"):
            ratio = curve(runs, at.by(method), "memorisation_ratio")
            assert ratio is not None
            changes[method] = ratio[-1] - ratio[warm - 1]
        holds = holds and changes["marvel"] < 0 and min(changes["ce"], changes["sce"]) >= 10
        shown = ", ".join(f"{at.by(method)} {change:+.1f}" for method, change in changes.items())
        told.append(f"{shown} points from epoch {warm} to the end")
    return Finding("; ".join(told), holds, part_of(there, CIRCULAR, "settings"))


CLAIMS = (
    Claim(
        "early stopping",
        "Introduction",
        "for a network trained with cross entropy loss, its best test accuracy is still inferior to that of other "
        "robust methods (for example, see Figure 1). Simply using early stopping does not yield optimal "
        "performance.",
        "Cross entropy's best epoch is below MARVEL+'s last on cat-dog with 20 % symmetric noise (Figure 1), and "
        "in nine of ten of all settings that were run.",
        "cross entropy and MARVEL+ in the settings of the binary and CIFAR tables",
        early_stopping,
    ),
    Claim(
        "three phases",
        "Section 2.2",
        "the network trained using CE traverses three phases: the learning phase (epoch 1–20), the apex phase "
        "(epoch 20–40), and finally the memorization phase (epoch 40–100).",
        "Test accuracy, over five epochs, is within a point of its highest from an epoch 10 to 30 on until an "
        "epoch 30 to 50, and at the end at least 2 points below.",
        CE_RUN,
        phases,
    ),
    Claim(
        "noisy accuracy goes down first",
        "Section 2.2",
        "In the learning phase, the network is able to learn from the clean instances while seemingly disregarding "
        "the noisy ones, pushing the noisy accuracy down.",
        "The memorisation ratio of epoch 20 is more than 5 points below that of epoch 1.",
        CE_RUN,
        falls_first,
    ),
    Claim(
        "decay enables memorising",
        "Section 2.2",
        "The learning rate decay at epoch 75 unfortunately enables the network to memorize a lot more noisy labels.",
        "The memorisation ratio is at least 10 points higher in the five epochs after than in the five before.",
        CE_RUN,
        jump,
    ),
    Claim(
        "majority misclassified",
        "Section 3.1",
        "at the start of the apex phase (epoch 20), the majority of the noisy instances are misclassified.",
        "The memorisation ratio of epoch 20 is below 50 %.",
        CE_RUN,
        majority_misclassified,
    ),
    Claim(
        "minimum of the memorisation ratio",
        "Section 3.1",
        "the memorization ratio hits the minimum at the start of the apex phase, and stays roughly at that level "
        "for around 10 epochs.",
        "Over five epochs, it is lowest in an epoch 10 to 30, and stays within 2 points of that for 8 epochs or more.",
        CE_RUN,
        minimum,
    ),
    Claim(
        "robust methods alike when symmetric",
        "Section 4.1",
        "When the noise is symmetric, all robust methods perform similarly [in memorization ratio].",
        "The final memorisation ratios of GCE, SCE, NPCL and MARVEL+ are within 15 points of one another.",
        "GCE, SCE, NPCL and MARVEL+ on truck-car and cat-dog with 20 % symmetric noise",
        similar_when_symmetric,
    ),
    Claim(
        "MARVEL+ stays low when asymmetric",
        "Section 4.1",
        "under asymmetric noise, MARVEL+ has the advantage of refraining from memorizing the noisy labels: the "
        "memorization ratio remains at a low level throughout the training.",
        "After the warm-up it never rises more than 5 points above where the warm-up left it; 40 % asymmetric is "
        "read as (40 %, 0 %).",
        "MARVEL+ on truck-car and cat-dog with (40 %, 0 %) noise",
        plus_stays_low,
    ),
    Claim(
        "others memorise when asymmetric",
        "Section 4.1",
        "The other robust methods (except NPCL, which struggles in the asymmetric case) gradually memorize the "
        "noisy labels, leading to a decline in the test accuracy.",
        "GCE and SCE end at least 10 points above their lowest memorisation ratio and at least a point below their "
        "highest test accuracy (over five epochs).",
        "GCE and SCE on truck-car and cat-dog with (40 %, 0 %) noise",
        others_memorise,
    ),
    Claim(
        "MARVEL drives memorisation down",
        "Section 4.2",
        "Under asymmetric noise, MARVEL drives down the memorization ratio as removal kicks in (after a warm-up "
        "period of 30 or 40 epochs for CIFAR-10 and CIFAR-100, respectively), while other methods succumb to the "
        "noisy labels.",
        "From the end of MARVEL's warm-up to the end of training, its ratio falls, and those of cross entropy and "
        "SCE rise by at least 10 points.",
        "cross entropy, SCE and MARVEL on CIFAR-10 with 40 % and CIFAR-100 with 20 % asymmetric noise",
        marvel_drives_it_down,
    ),
)
