"""What the paper says of test accuracies: who is better, by how much, and how steadily."""

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from marvel.report.cells import Cell, Runs
from marvel.report.claims.claim import Claim, Finding, final, finals, part_of
from marvel.report.claims.settings import (
    BINARY,
    BINARY_ASYMMETRIC,
    CIFAR,
    CIFAR_ASYMMETRIC,
    PROBLEMS,
    RESNET34_DEPENDENT,
    RESNET34_SYMMETRIC,
)

OURS = ("marvel", "marvel+")
BASELINES = ("ce", "gce", "sce", "npcl")
OTHERS = (
    *("ce", "sce", "bootstrap", "mentornet", "co-teaching", "d2l", "l_dmi", "data-parameters", "dy-bootstrap"),
    *("incv", "aum"),
)
MULTI = tuple(at for at in (*CIFAR, *RESNET34_SYMMETRIC, *RESNET34_DEPENDENT) if at.rates != (0.8,))
SKEWED = {*BINARY_ASYMMETRIC, *CIFAR_ASYMMETRIC, *RESNET34_DEPENDENT}

Accuracy = Callable[[Cell], float | None]
"""Of a cell, in percent: ours, or the paper's."""


def leads(settings: Sequence[Cell], of: Accuracy, needed: Sequence[str], more: Sequence[str] = ()) -> dict[Cell, float]:
    """By how many points the better of MARVEL and MARVEL+ leads the best baseline, where all needed ones were run."""
    found = {}
    for at in settings:
        ours = [accuracy for method in OURS if (accuracy := of(at.by(method))) is not None]
        theirs = {method: of(at.by(method)) for method in dict.fromkeys((*needed, *more))}
        known = [accuracy for accuracy in theirs.values() if accuracy is not None]
        if ours and all(theirs[method] is not None for method in needed):
            found[at] = max(ours) - max(known)
    return found


def ahead(lead: dict[Cell, float]) -> int:
    """In how many settings it is not behind; a hundredth of a point is rounding."""
    return sum(points > -0.01 for points in lead.values())


def ours_of(runs: Runs) -> Accuracy:
    return lambda cell: final(runs, cell)


def papers(cell: Cell) -> float | None:
    return cell.paper


def consistently(
    settings: Sequence[Cell], needed: Sequence[str], more: Sequence[str] = ()
) -> Callable[[Runs], Finding | None]:
    def judge(runs: Runs) -> Finding | None:
        lead = leads(settings, ours_of(runs), needed, more)
        if not lead:
            return None
        figure = f"ahead in {ahead(lead)} of {len(lead)} settings, by {fmean(lead.values()):+.1f} points on average"
        return Finding(figure, ahead(lead) >= 0.9 * len(lead), part_of(list(lead), settings, "settings"))

    return judge


def consistently_own(settings: Sequence[Cell], needed: Sequence[str], more: Sequence[str] = ()) -> Callable[[], str]:
    def own() -> str:
        lead = leads(settings, papers, needed, more)
        return f"ahead in {ahead(lead)} of {len(lead)} settings, by {fmean(lead.values()):+.1f} points on average"

    return own


def larger_when_asymmetric(
    settings: Sequence[Cell], needed: Sequence[str], more: Sequence[str] = ()
) -> Callable[[Runs], Finding | None]:
    def judge(runs: Runs) -> Finding | None:
        lead = leads(settings, ours_of(runs), needed, more)
        both = averages(lead)
        if both is None:
            return None
        return Finding(in_words(both), both[1] >= both[0] + 1, part_of(list(lead), settings, "settings"))

    return judge


def larger_own(settings: Sequence[Cell], needed: Sequence[str], more: Sequence[str] = ()) -> Callable[[], str]:
    def own() -> str:
        both = averages(leads(settings, papers, needed, more))
        assert both is not None
        return in_words(both)

    return own


def averages(lead: dict[Cell, float]) -> tuple[float, float] | None:
    """The mean lead under symmetric noise, and under all other; None where one of them was not run."""
    even = [points for at, points in lead.items() if at not in SKEWED]
    skewed = [points for at, points in lead.items() if at in SKEWED]
    return (fmean(even), fmean(skewed)) if even and skewed else None


def in_words(both: tuple[float, float]) -> str:
    return f"leads by {both[0]:+.1f} points on average under symmetric noise, by {both[1]:+.1f} under the other"


# ------------------------------------------------------------ spread


ROBUST = ("gce", "sce", "npcl")


def spread(runs: Runs) -> Finding | None:
    """Only of three runs or more is a standard deviation worth comparing."""

    def of(cell: Cell) -> float | None:
        values = [100 * record["final"]["test_accuracy"] for record in runs.of(cell)]
        return stdev(values) if len(values) >= 3 else None

    smaller, pairs = compare(of)
    if not pairs:
        return None
    figure = f"smaller in {smaller} of {pairs} comparisons with a robust method"
    return Finding(
        figure, smaller >= 0.75 * pairs, part_of(range(pairs), range(len(BINARY) * len(ROBUST)), "comparisons")
    )


def spread_own() -> str:
    smaller, pairs = compare(lambda cell: cell.paper_sd)
    return f"smaller in {smaller} of {pairs} comparisons"


def compare(of: Accuracy) -> tuple[int, int]:
    """In how many pairs of MARVEL and a robust method MARVEL's is smaller, and how many there are."""
    pairs = [(of(at.by("marvel")), of(at.by(method))) for at in BINARY for method in ROBUST]
    known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    return sum(ours < theirs for ours, theirs in known), len(known)


# ------------------------------------------------------------ MARVEL+, NPCL, 80 %, AUM


def plus_is_better(runs: Runs) -> Finding | None:
    gains = plus_gains(ours_of(runs))
    if not gains:
        return None
    return Finding(say_gains(gains), plus_holds(gains), part_of(gains, BINARY, "settings"))


def plus_gains(of: Accuracy) -> list[float]:
    pairs = [(of(at.by("marvel+")), of(at.by("marvel"))) for at in BINARY]
    return [plus - plain for plus, plain in pairs if plus is not None and plain is not None]


def plus_holds(gains: Sequence[float]) -> bool:
    return fmean(gains) > 0 and sum(gain > 0 for gain in gains) > len(gains) / 2


def say_gains(gains: Sequence[float]) -> str:
    more = sum(gain > 0.01 for gain in gains)
    return f"MARVEL+ above MARVEL in {more} of {len(gains)} settings, by {fmean(gains):+.1f} points on average"


def npcl_drops(of: Accuracy) -> dict[str, tuple[float, float]]:
    """How many points NPCL, and MARVEL+, lose from 20 % symmetric to (40 %, 0 %) noise: as many labels are wrong."""
    found = {}
    for data in PROBLEMS:
        even, skewed = Cell(data, "symmetric", (0.2,), ""), Cell(data, "pair", (0.4, 0.0), "")
        four = [of(at.by(method)) for method in ("npcl", "marvel+") for at in (even, skewed)]
        known = [value for value in four if value is not None]
        if len(known) == 4:
            found[data] = known[0] - known[1], known[2] - known[3]
    return found


def npcl_degrades(runs: Runs) -> Finding | None:
    drops = npcl_drops(ours_of(runs))
    if not drops:
        return None
    return Finding(say_drops(drops), npcl_holds(drops), part_of(list(drops), PROBLEMS, "problems"))


def npcl_holds(drops: dict[str, tuple[float, float]]) -> bool:
    npcl, plus = (fmean(drop[k] for drop in drops.values()) for k in (0, 1))
    return npcl >= 5 and npcl > plus


def say_drops(drops: dict[str, tuple[float, float]]) -> str:
    npcl, plus = (fmean(drop[k] for drop in drops.values()) for k in (0, 1))
    return f"NPCL loses {npcl:.1f} points on average, MARVEL+ {plus:.1f}"


FAIR = 5 / 8
"""Of the rightly labelled, the share of the less noisy class at (40 %, 0 %): a fair selection has so many of it."""


def npcl_imbalance(runs: Runs) -> Finding | None:
    wanted = [Cell(data, "pair", (0.4, 0.0), "npcl") for data in PROBLEMS]
    shares = {}
    for cell in wanted:
        used = [r["used_by_class"]["clean"] for r in runs.of(cell) if "clean" in r.get("used_by_class", {})]
        if used:
            shares[cell.data] = fmean(less / (more + less) for more, less in used)
    if not shares:
        return None
    told = ", ".join(f"{data} {share:.1%}" for data, share in shares.items())
    figure = f"share of the less noisy class among the instances of the last epoch's loss: {told}"
    return Finding(figure, fmean(shares.values()) > FAIR, part_of(list(shares), wanted, "problems"))


def gaps(of: Accuracy, data: str) -> tuple[float, float] | None:
    """By how many points MARVEL is below the oracle at 60 % and at 80 % symmetric noise."""
    found = []
    for rate in (0.6, 0.8):
        cell = Cell(data, "symmetric", (rate,), "marvel")
        ours, best = of(cell), of(cell.by("oracle"))
        if ours is not None and best is not None:
            found.append(best - ours)
    return (found[0], found[1]) if len(found) == 2 else None


def weak_at_80(runs: Runs) -> Finding | None:
    there = {data: gap for data in ("cifar10", "cifar100") if (gap := gaps(ours_of(runs), data)) is not None}
    if not there:
        return None
    holds = all(at_80 > 2 * at_60 for at_60, at_80 in there.values())
    return Finding(say_gaps(there), holds, part_of(list(there), ("cifar10", "cifar100"), "problems"))


def say_gaps(there: dict[str, tuple[float, float]]) -> str:
    told = [
        f"{data}: {at_60:.1f} points below the oracle at 60 %, {at_80:.1f} at 80 %"
        for data, (at_60, at_80) in there.items()
    ]
    return "; ".join(told)


def weak_own() -> str:
    return say_gaps({data: gap for data in ("cifar10", "cifar100") if (gap := gaps(papers, data)) is not None})


def better_than_aum(runs: Runs) -> Finding | None:
    there = [at for at in CIFAR if not runs.lacking([at.by("marvel"), at.by("aum")])]
    wins = {"test_accuracy": 0, "detection_f1": 0}
    for key in wins:
        for at in there:
            both = finals(runs, [at.by("marvel"), at.by("aum")], key)
            wins[key] += both is not None and both[0] > both[1]
    if not there:
        return None
    figure = (
        f"more accurate than AUM in {wins['test_accuracy']} of {len(there)} settings, "
        f"better at detecting (F1) in {wins['detection_f1']}"
    )
    return Finding(figure, min(wins.values()) > len(there) / 2, part_of(there, CIFAR, "settings"))


def never(runs: Runs) -> None:
    """The data must be asked for."""


CLAIMS = (
    Claim(
        "MARVEL+ improves generalisation",
        "Abstract",
        "We also propose MARVEL+, where arduous instances can be upweighted, enabling the network to focus and "
        "improve its learning on them and consequently its generalization.",
        "MARVEL+ is more accurate than MARVEL in more than half of the binary settings, and on average.",
        "MARVEL and MARVEL+ in the 32 settings of the binary tables",
        plus_is_better,
        lambda: say_gains(plus_gains(papers)),
    ),
    Claim(
        "better than AUM",
        "Introduction",
        "We believe such an alternating scheme is more beneficial in terms of prediction accuracy as well as noisy "
        "label detection.",
        "MARVEL is more accurate than AUM, and its removed instances have a higher detection F1, in more than half "
        "of the CIFAR settings.",
        "MARVEL and AUM in the twelve settings of the CIFAR tables",
        better_than_aum,
    ),
    Claim(
        "consistently better, binary",
        "Section 4.1",
        "MARVEL and MARVEL+ consistently outperform other baselines.",
        "In nine of ten binary settings, the better of the two is at least as accurate as the best of cross "
        "entropy, GCE, SCE and NPCL.",
        "the six methods in the 32 settings of the binary tables",
        consistently(BINARY, BASELINES),
        consistently_own(BINARY, BASELINES),
    ),
    Claim(
        "larger margin when asymmetric, binary",
        "Section 4.1; Abstract",
        "the margin is significantly larger under asymmetric noise.",
        "The mean lead over the best baseline is at least a point larger in the asymmetric settings.",
        "the six methods in the 32 settings of the binary tables",
        larger_when_asymmetric(BINARY, BASELINES),
        larger_own(BINARY, BASELINES),
    ),
    Claim(
        "smaller spread",
        "Section 4.1",
        "the standard deviation of MARVEL is consistently smaller than other robust methods, albeit slightly less "
        "so for more challenging datasets (cat, dog) and (aquatic, fish).",
        "MARVEL's standard deviation is the smaller one in three of four comparisons with GCE, SCE or NPCL, of "
        "three runs or more each.",
        "MARVEL, GCE, SCE and NPCL in the 32 settings of the binary tables, three seeds",
        spread,
        spread_own,
    ),
    Claim(
        "NPCL degrades",
        "Section 4.1",
        "NPCL's performance degrades rapidly when the noise level is asymmetric and highly skewed.",
        "From 20 % symmetric to (40 %, 0 %) noise, which has as many wrong labels, NPCL loses at least 5 points on "
        "average, and more than MARVEL+.",
        "NPCL and MARVEL+ on the four binary problems with 20 % symmetric and (40 %, 0 %) noise",
        npcl_degrades,
        lambda: say_drops(npcl_drops(papers)),
    ),
    Claim(
        "NPCL's classes out of balance",
        "Section 4.1",
        "We hypothesize that the low-loss instances NPCL selects in each mini-batch are mainly instances from the "
        "less noisy class, because the noisier class contains more instances with high losses. This results in an "
        "imbalance in the classes.",
        "Of the instances NPCL selects, by their clean label, more than 5/8 are of the less noisy class: its share "
        "of the rightly labelled.",
        "NPCL on the four binary problems with (40 %, 0 %) noise",
        npcl_imbalance,
    ),
    Claim(
        "better on CIFAR",
        "Section 4.2",
        "Again, MARVEL outperforms other baselines.",
        "In nine of ten settings other than 80 % noise, the better of MARVEL and MARVEL+ is at least as accurate "
        "as every other method of the tables that was run, cross entropy and SCE at least. (The oracle is no "
        "baseline, and methods that the paper does not have, such as ELR, are not counted.)",
        "MARVEL, MARVEL+, cross entropy and SCE in the settings of the CIFAR and ResNet-34 tables",
        consistently(MULTI, ("ce", "sce"), OTHERS),
        consistently_own(MULTI, ("ce", "sce"), OTHERS),
    ),
    Claim(
        "especially when asymmetric, CIFAR",
        "Section 4.2",
        "[MARVEL outperforms other baselines,] especially under asymmetric noise and class-dependent noise.",
        "The mean lead over the best other method is at least a point larger there than under symmetric noise "
        "below 80 %.",
        "MARVEL, MARVEL+, cross entropy and SCE in the settings of the CIFAR and ResNet-34 tables",
        larger_when_asymmetric(MULTI, ("ce", "sce"), OTHERS),
        larger_own(MULTI, ("ce", "sce"), OTHERS),
    ),
    Claim(
        "weak at 80 %",
        "Section 4.2",
        "under 80% symmetric noise, MARVEL does not work as effectively as expected.",
        "MARVEL is more than twice as far below the oracle at 80 % as at 60 %.",
        "MARVEL and the oracle on CIFAR-10 and CIFAR-100 with 60 and 80 % symmetric noise",
        weak_at_80,
        weak_own,
    ),
    Claim(
        "real-world boost",
        "Section 4.3",
        "MARVEL achieves a performance boost of 1.4% and 3.3% on WebVision50 and Clothing100K, respectively.",
        "MARVEL is more accurate than cross entropy by 0.4 to 2.4 and by 2.3 to 4.3 points.",
        "cross entropy and MARVEL on WebVision50 and Clothing100K, whose data must be asked for",
        never,
    ),
)
