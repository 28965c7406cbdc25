"""What the paper says of the instances MARVEL removes, of those it keeps, and of their margins."""

from statistics import NormalDist

import numpy as np

from marvel.metrics import QUANTILES
from marvel.report.cells import ASYMMETRIC_40, Cell, Record, Runs
from marvel.report.claims.claim import Claim, Finding, Values, final, finals, noisy_left, part_of, seeds
from marvel.report.figures.margin_distribution import histogram, moments

EASY = Cell("truck-car", "symmetric", (0.2,), "marvel")
HARD = Cell("cat-dog", "pair", ASYMMETRIC_40, "marvel")
PLUS = Cell("cat-dog", "pair", (0.3, 0.1), "marvel+")


def positive(runs: Runs, cell: Cell, kind: str, count: int) -> float | None:
    """The share of the noisy, or clean, instances with so many positive margins in five apex epochs, in percent."""
    shares = [r["apex"][kind][count] / sum(r["apex"][kind]) for r in runs.of(cell) if r["apex"]]
    return 100 * float(np.mean(shares)) if shares else None


def apex_easy(runs: Runs) -> Finding | None:
    noisy, clean = positive(runs, EASY, "noisy", 0), positive(runs, EASY, "clean", 5)
    if noisy is None or clean is None:
        return None
    figure = (
        f"{noisy:.1f} % of the noisy instances have no positive margin in five, "
        f"{clean:.1f} % of the clean ones five ({seeds(runs, EASY)})"
    )
    return Finding(figure, noisy >= 75 and clean >= 75)


def apex_hard(runs: Runs) -> Finding | None:
    noisy, clean = positive(runs, HARD, "noisy", 0), positive(runs, HARD, "clean", 0)
    if noisy is None or clean is None:
        return None
    figure = (
        f"{noisy:.1f} % of the noisy instances have no positive margin in five, "
        f"and {clean:.1f} % of the clean ones ({seeds(runs, HARD)})"
    )
    return Finding(figure, 100 / 9 <= noisy <= 25 and clean <= 3)


def remaining_easy(runs: Runs) -> Finding | None:
    cell = EASY.by("marvel+")
    noisy, clean = noisy_left(runs, cell), noisy_left(runs, cell, "clean")
    if noisy is None or clean is None:
        return None
    first = int((noisy < 100).argmax())
    settled = int((noisy <= noisy[-1] + 5).argmax())
    figure = (
        f"{noisy[-1]:.1f} % of the noisy instances remain, within 5 points of that {settled - first} epochs after the "
        f"first removal; {clean[-1]:.1f} % of the clean ones ({seeds(runs, cell)})"
    )
    return Finding(figure, 5 <= noisy[-1] <= 15 and settled - first <= 10 and clean[-1] >= 95)


def remaining_hard(runs: Runs) -> Finding | None:
    cell = HARD.by("marvel+")
    noisy, clean = noisy_left(runs, cell), noisy_left(runs, cell, "clean")
    if noisy is None or clean is None:
        return None
    figure = (
        f"{100 - noisy[-1]:.1f} % of the noisy instances removed, {clean[-1]:.1f} % of the clean ones kept "
        f"({seeds(runs, cell)})"
    )
    return Finding(figure, 40 <= noisy[-1] <= 60 and clean[-1] > 85)


# ------------------------------------------------------------ margins


def normal(runs: Runs) -> Finding | None:
    records = [r for r in runs.of(PLUS) if {"25", "75"} <= set(r["histograms"])]
    if not records:
        return None
    away = {epoch: float(np.mean([from_normal(r, epoch) for r in records])) for epoch in ("25", "75")}
    figure = (
        f"the cumulative shares differ from the normal's by at most {away['25']:.1f} points in epoch 25 and "
        f"{away['75']:.1f} in epoch 75 ({len(records)} seed{'s' if len(records) > 1 else ''}; survivors)"
    )
    return Finding(figure, max(away.values()) <= 10)


def from_normal(record: Record, epoch: str) -> float:
    """The largest difference, in points, between the share of margins below an edge of the histogram and that of the
    normal distribution of their mean and standard deviation."""
    edges, counts = histogram(record, epoch)
    like = NormalDist(*moments(record, epoch))
    below = np.cumsum(counts)[:-1] / counts.sum()
    return float(max(abs(100 * (share - like.cdf(edge))) for share, edge in zip(below, edges[1:-1])))


def quantile(runs: Runs, cell: Cell, which: float) -> Values | None:
    """A quantile of the survivors' margins by epoch, the mean over the seeds."""
    place = QUANTILES.index(which)
    rows = [[epoch[place] for epoch in record["curves"]["margin_survivors"]] for record in runs.of(cell)]
    return np.array(rows, dtype=np.float64).mean(axis=0) if rows else None


def soar(runs: Runs) -> Finding | None:
    plus, ce = quantile(runs, PLUS, 0.5), quantile(runs, PLUS.by("ce"), 0.5)
    if plus is None or ce is None:
        return None
    warm = runs.of(PLUS)[0]["chosen"]["warmup"]
    figure = (
        f"median margin {plus[warm - 1]:.1f} when the warm-up ends and {plus[49]:.1f} in epoch 50, "
        f"cross entropy's then {ce[49]:.1f} ({seeds(runs, PLUS, PLUS.by('ce'))})"
    )
    return Finding(figure, bool(plus[49] >= 2 * ce[49] and plus[49] > plus[warm - 1]))


def positive_after_50(runs: Runs) -> Finding | None:
    low = quantile(runs, PLUS, 0.05)
    if low is None:
        return None
    late = low[50:]
    figure = (
        f"5 % quantile of the survivors positive in {int((late > 0).sum())} of {len(late)} epochs after 50, "
        f"lowest {late.min():.1f} ({seeds(runs, PLUS)})"
    )
    return Finding(figure, bool((late > 0).mean() >= 0.9))


# ------------------------------------------------------------ the labels kept

KEPT = tuple(Cell("cifar10", "symmetric", (rate,), "marvel") for rate in (0.2, 0.4, 0.6))
EIGHTY = tuple(Cell(data, "symmetric", (0.8,), "marvel") for data in ("cifar10", "cifar100"))


def high_accuracy(runs: Runs) -> Finding | None:
    there = [cell for cell in KEPT if runs.of(cell)]
    precision, recall = finals(runs, there, "label_precision"), finals(runs, there, "label_recall")
    if not there or precision is None or recall is None:
        return None
    told = [f"{c.rates[0]:.0%}: precision {p:.1f}, recall {r:.1f} %" for c, p, r in zip(there, precision, recall)]
    return Finding("; ".join(told), min(*precision, *recall) >= 85, part_of(there, KEPT, "noise levels"))


def kept_at_60(runs: Runs) -> Finding | None:
    precision, recall = final(runs, KEPT[2], "label_precision"), final(runs, KEPT[2], "label_recall")
    if precision is None or recall is None:
        return None
    figure = (
        f"{recall:.1f} % of the clean labels kept, {100 - precision:.1f} % of those kept are wrong "
        f"({seeds(runs, KEPT[2])})"
    )
    return Finding(figure, abs(recall - 90) <= 5 and abs(100 - precision - 7) <= 3)


def filtered_at_80(runs: Runs) -> Finding | None:
    there = [cell for cell in EIGHTY if runs.of(cell)]
    if not there:
        return None
    removed, told = [], []
    for cell in there:
        noisy, clean = noisy_left(runs, cell), noisy_left(runs, cell, "clean")
        assert noisy is not None
        assert clean is not None
        removed.append(100 - noisy[-1])
        told.append(f"{cell.data}: {100 - noisy[-1]:.1f} % of the noisy, {100 - clean[-1]:.1f} % of the clean removed")
    return Finding("; ".join(told), min(removed) > 50, part_of(there, EIGHTY, "problems"))


CLAIMS = (
    Claim(
        "apex on an easy problem",
        "Section 3.1, Figure 2 (a)",
        "the vast majority of the noisy instances are consistently misclassified, whereas the clean ones are "
        "predominantly correctly classified.",
        "In the first five epochs after the warm-up, at least 75 % of the noisy instances have no positive margin, "
        "and at least 75 % of the clean ones have five.",
        "MARVEL on truck-car with 20 % symmetric noise",
        apex_easy,
    ),
    Claim(
        "apex on a hard problem",
        "Section 3.1, Figure 2 (b)",
        "For the more challenging dataset in Figure 2 (b), still roughly 1/6 of the noisy instances are "
        "identified, at the expense of a negligible fraction of the clean instances.",
        "Between 1/9 and 1/4 of the noisy instances, and at most 3 % of the clean ones, have no positive margin in "
        "the first five epochs after the warm-up; 40 % asymmetric is read as (40 %, 0 %).",
        "MARVEL on cat-dog with (40 %, 0 %) noise",
        apex_hard,
    ),
    Claim(
        "remaining on an easy problem",
        "Section 3.1, Figure 3 (a)",
        "the fraction of remaining noisy instances decreases drastically after the warm-up period, and plateaus at "
        "around 10% in just a few epochs. On the other hand, the clean instances are hardly removed.",
        "5 to 15 % of the noisy instances remain at the end, within 5 points of that at most 10 epochs after the "
        "first removal; at least 95 % of the clean ones remain.",
        "MARVEL+ on truck-car with 20 % symmetric noise",
        remaining_easy,
    ),
    Claim(
        "remaining on a hard problem",
        "Section 3.1, Figure 3 (b)",
        "eventually half of the noisy instances are filtered out, whereas over 85% of the clean instances are "
        "retained.",
        "40 to 60 % of the noisy instances are removed, more than 85 % of the clean ones kept; 40 % asymmetric is "
        "read as (40 %, 0 %).",
        "MARVEL+ on cat-dog with (40 %, 0 %) noise",
        remaining_hard,
    ),
    Claim(
        "margins are normal",
        "Section 3.2, Figure 5",
        "The margins roughly follow a normal distribution.",
        "In epochs 25 and 75, the share of margins below any value is within 10 points of that of the normal "
        "distribution with their mean and standard deviation.",
        "MARVEL+ on cat-dog with (30 %, 10 %) noise",
        normal,
    ),
    Claim(
        "margins soar",
        "Section 3.2, Figure 4 (b)",
        "the margins under training with MARVEL soar up rapidly.",
        "In epoch 50 the median margin of MARVEL+'s survivors is at least twice cross entropy's, and above where "
        "the warm-up left it.",
        "MARVEL+ and cross entropy on cat-dog with (30 %, 10 %) noise",
        soar,
    ),
    Claim(
        "margins positive after epoch 50",
        "Section 3.2, Figure 4 (b)",
        "As shown from the 5% quantile curve, the vast majority of the margins are positive after epoch 50.",
        "The 5 % quantile of the survivors' margins is above 0 in nine of ten epochs after 50.",
        "MARVEL+ on cat-dog with (30 %, 10 %) noise",
        positive_after_50,
    ),
    Claim(
        "most noisy filtered at 80 %",
        "Section 4.2",
        "[Under 80% symmetric noise] MARVEL is still able to identify and filter out most of the noisy instances, "
        "but removing too many instances eventually hurts the network generalization.",
        "More than half of the noisy instances are removed, on CIFAR-10 and on CIFAR-100.",
        "MARVEL on CIFAR-10 and CIFAR-100 with 80 % symmetric noise",
        filtered_at_80,
    ),
    Claim(
        "clean labels identified",
        "Section 4.4, Figure 9",
        "MARVEL is capable of identifying clean labels with high accuracy.",
        "Label precision and recall are at least 85 % on CIFAR-10 with 20, 40 and 60 % symmetric noise.",
        "MARVEL on CIFAR-10 with 20, 40 and 60 % symmetric noise",
        high_accuracy,
    ),
    Claim(
        "90 % kept, 7 % noisy",
        "Section 4.4",
        "MARVEL identifies around 90% of all the clean labels in CIFAR-10 with 60% symmetric noise, and the "
        "filtered training set has only 7% noisy labels.",
        "85 to 95 % of the clean labels are kept, and 4 to 10 % of those kept are wrong.",
        "MARVEL on CIFAR-10 with 60 % symmetric noise",
        kept_at_60,
    ),
)
