"""Every claim is shown records that make it hold and records that do not; and the quotations are the paper's."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from marvel.report.cells import Cell, Runs
from marvel.report.claims import CLAIMS, accuracy, page, periods, removal, settings, training
from marvel.report.claims.claim import Claim
from paper_records import flat, paper_record

ROOT = Path(__file__).resolve().parent.parent
BY_NAME = {claim.name: claim for claim in CLAIMS}
Records = list[dict[str, Any]]


def ramp(*points: tuple[int, float]) -> list[float]:
    """A curve through (epoch, value), straight in between."""
    epochs = np.arange(1, points[-1][0] + 1)
    return list(np.interp(epochs, [at for at, _ in points], [value for _, value in points]).tolist())


def curves(cell: Cell, **lines: list[float]) -> Records:
    return [paper_record(cell, curves=lines)]


def finals(cells: Iterable[Cell], *, key: str = "test_accuracy", **by_method: float) -> Records:
    """One record a cell and method, `marvel_plus` being MARVEL+."""
    return [
        paper_record(cell.by(method.replace("_plus", "+")), final={key: value})
        for cell in cells
        for method, value in by_method.items()
    ]


# ---------------------------------------------------------------- training

CE = training.CE


def phases(start: int, end: int, last: float) -> Records:
    return curves(CE, test_accuracy=ramp((1, 0.5), (start, 0.8), (end, 0.8), (100, last)))


def ratio(*points: tuple[int, float], cell: Cell = CE) -> Records:
    return curves(cell, memorisation_ratio=ramp(*points))


def early(best: float, last: float) -> Records:
    plus = paper_record(CE.by("marvel+"), final={"test_accuracy": last})
    return [*curves(CE, test_accuracy=ramp((1, 0.5), (50, best), (100, 0.6))), plus]


def robust(ratios: dict[str, float]) -> Records:
    return [
        paper_record(at.by(method), final={"memorisation_ratio": value})
        for at in training.SYMMETRIC
        for method, value in ratios.items()
    ]


def plus(*points: tuple[int, float]) -> Records:
    return [record for at in training.ASYMMETRIC for record in ratio(*points, cell=at.by("marvel+"))]


def memorising(rise: float, fall: float) -> Records:
    lines = {
        "memorisation_ratio": ramp((1, 0.2), (100, 0.2 + rise)),
        "test_accuracy": ramp((1, 0.8), (100, 0.8 - fall)),
    }
    return [paper_record(at.by(method), curves=lines) for at in training.ASYMMETRIC for method in ("gce", "sce")]


def driven(marvel: float, others: float) -> Records:
    found = []
    for at in training.CIRCULAR:
        epochs = 120 if at.data == "cifar10" else 150
        for method, change in (("marvel", marvel), ("ce", others), ("sce", others)):
            found += ratio((1, 0.4), (40, 0.4), (epochs, 0.4 + change), cell=at.by(method))
    return found


# ---------------------------------------------------------------- removal


def apex(cell: Cell, noisy_none: int, clean: tuple[int, int]) -> Records:
    """Of a hundred: noisy with no positive margin; clean with none and with all five."""
    counts = {
        "noisy": [noisy_none, 0, 0, 0, 0, 100 - noisy_none],
        "clean": [clean[0], 0, 100 - sum(clean), 0, 0, clean[1]],
    }
    return [paper_record(cell, apex=counts)]


def left(cell: Cell, noisy: float, clean: float, settled: int = 22) -> Records:
    epochs = len(ramp((1, 0), (paper_record(cell)["config"]["epochs"], 0)))
    lines = {
        "noisy_remaining": ramp((1, 200), (18, 200), (settled, 200 * noisy), (epochs, 200 * noisy)),
        "clean_remaining": ramp((1, 800), (18, 800), (epochs, 800 * clean)),
    }
    return curves(cell, **lines)


def distribution(of: Callable[[float], float]) -> Records:
    """A histogram of the quantiles `of` the shares 0.0005, 0.0015, ..."""
    margins = np.array([of((k + 0.5) / 1000) for k in range(1000)])
    low, high = float(margins.min()), float(margins.max())
    kept = {
        "survivors": np.histogram(margins, 48, (low, high))[0].tolist(),
        "range": [low, high],
        "moments": {"survivors": [float(margins.mean()), float(margins.std())]},
    }
    return [paper_record(removal.PLUS, histograms={"25": kept, "75": kept})]


def margins(cell: Cell, low: Callable[[int], float], median: Callable[[int], float]) -> Records:
    lines = [[low(e), 0.0, median(e), 9.0, 9.0] for e in range(1, 101)]
    return [paper_record(cell, curves={"margin_survivors": lines})]


def kept(precision: float, recall: float, cells: Iterable[Cell] = removal.KEPT) -> Records:
    return [paper_record(cell, final={"label_precision": precision, "label_recall": recall}) for cell in cells]


# ---------------------------------------------------------------- accuracy


def spreads(marvel: float, others: float) -> Records:
    found = []
    for at in settings.BINARY:
        for method in ("marvel", *accuracy.ROBUST):
            sd = marvel if method == "marvel" else others
            found += [
                paper_record(at.by(method), seed, final={"test_accuracy": 0.8 + sd * (seed - 1)}) for seed in range(3)
            ]
    return found


def skewed(npcl: float, plus_loses: float) -> Records:
    found = []
    for data in settings.PROBLEMS:
        even, odd = Cell(data, "symmetric", (0.2,), ""), Cell(data, "pair", (0.4, 0.0), "")
        found += finals([even], npcl=0.9, marvel_plus=0.9) + finals(
            [odd], npcl=0.9 - npcl, marvel_plus=0.9 - plus_loses
        )
    return found


def selected(noisier: float, less_noisy: float) -> Records:
    cells = [Cell(data, "pair", (0.4, 0.0), "npcl") for data in settings.PROBLEMS]
    return [paper_record(cell, used_by_class={"given": [1.0, 1.0], "clean": [noisier, less_noisy]}) for cell in cells]


def oracle(gap_60: float, gap_80: float) -> Records:
    found = []
    for data in ("cifar10", "cifar100"):
        for rate, gap in ((0.6, gap_60), (0.8, gap_80)):
            found += finals([Cell(data, "symmetric", (rate,), "")], oracle=0.9, marvel=0.9 - gap)
    return found


def against_aum(points: float, f1: float) -> Records:
    return [
        paper_record(at.by(method), final={"test_accuracy": 0.8 + ours * points, "detection_f1": 0.5 + ours * f1})
        for at in settings.CIFAR
        for method, ours in (("marvel", 1), ("aum", 0))
    ]


def table(
    symmetric: float,
    other: float,
    where: Iterable[Cell] = settings.BINARY,
    methods: tuple[str, ...] = accuracy.BASELINES,
) -> Records:
    """MARVEL+ ahead of all others by so much."""
    found = []
    for at in where:
        lead = other if at in accuracy.SKEWED else symmetric
        found += finals([at], marvel_plus=0.8 + lead, **dict.fromkeys(methods, 0.8))
    return found


MULTI = (accuracy.MULTI, ("ce", "sce"))

# ---------------------------------------------------------------- warm-up and wait


def periods_of(option: str, accuracies: dict[Cell, dict[int, float]]) -> Records:
    return [
        paper_record(cell, options={option: value}, final={"test_accuracy": one})
        for cell, by_value in accuracies.items()
        for value, one in by_value.items()
    ]


def warmups(spread: float) -> Records:
    return periods_of("warmup", {c: {20: 0.8, 30: 0.8 + spread, 40: 0.8, 50: 0.8} for c in periods.SENSITIVITY})


def waits(worse: float) -> Records:
    """Each setting's own grid, the selected wait best, its neighbours worse."""
    by_cell = {
        cell: {wait: 0.8 - worse * (wait != best) for wait in grid}
        for cell, grid, best in zip(periods.SENSITIVITY, periods.WAITS, periods.SELECTED)
    }
    return periods_of("wait", by_cell)


def best_waits(*best: int, cells: tuple[Cell, ...] = periods.SENSITIVITY) -> Records:
    return periods_of("wait", {c: {w - 2: 0.7, w: 0.8, w + 2: 0.7} for c, w in zip(cells, best)})


def read_off(ten: int, hundred: int) -> Records:
    found = []
    for cell, knee, epochs in ((periods.ASYMMETRIC, ten, 120), (periods.HUNDRED, hundred, 150)):
        rise = ramp((1, 0.1), (knee, 0.5), (epochs, 0.55))
        found += curves(cell, train_accuracy=rise, test_accuracy=rise)
    return found


BOTH_WAYS: dict[str, tuple[Records, Records]] = {
    "early stopping": (early(0.78, 0.82), early(0.84, 0.82)),
    "three phases": (phases(20, 40, 0.7), phases(60, 90, 0.7)),
    "noisy accuracy goes down first": (ratio((1, 0.5), (20, 0.3), (100, 0.9)), ratio((1, 0.3), (20, 0.4), (100, 0.9))),
    "decay enables memorising": (ratio((1, 0.5), (75, 0.5), (76, 0.8), (100, 0.9)), ratio((1, 0.5), (100, 0.6))),
    "majority misclassified": (ratio((1, 0.5), (20, 0.3), (100, 0.9)), ratio((1, 0.5), (20, 0.6), (100, 0.9))),
    "minimum of the memorisation ratio": (
        ratio((1, 0.5), (18, 0.3), (28, 0.3), (100, 0.9)),
        ratio((1, 0.5), (60, 0.3), (100, 0.9)),
    ),
    "robust methods alike when symmetric": (
        robust({"gce": 0.2, "sce": 0.25, "npcl": 0.3, "marvel+": 0.2}),
        robust({"gce": 0.2, "sce": 0.6, "npcl": 0.3, "marvel+": 0.2}),
    ),
    "MARVEL+ stays low when asymmetric": (
        plus((1, 0.5), (20, 0.3), (100, 0.25)),
        plus((1, 0.5), (20, 0.3), (100, 0.5)),
    ),
    "others memorise when asymmetric": (memorising(0.4, 0.1), memorising(0.4, 0.0)),
    "MARVEL drives memorisation down": (driven(-0.2, 0.3), driven(0.1, 0.3)),
    "apex on an easy problem": (apex(removal.EASY, 90, (0, 90)), apex(removal.EASY, 50, (0, 90))),
    "apex on a hard problem": (apex(removal.HARD, 17, (1, 50)), apex(removal.HARD, 17, (9, 50))),
    "remaining on an easy problem": (
        left(removal.EASY.by("marvel+"), 0.1, 0.98),
        left(removal.EASY.by("marvel+"), 0.1, 0.98, settled=60),
    ),
    "remaining on a hard problem": (
        left(removal.HARD.by("marvel+"), 0.5, 0.9),
        left(removal.HARD.by("marvel+"), 0.28, 0.9),
    ),
    "margins are normal": (distribution(NormalDist(3, 2).inv_cdf), distribution(lambda share: float(share > 0.5) * 4)),
    "margins soar": (
        margins(removal.PLUS, lambda e: 0.0, lambda e: e / 10)
        + margins(removal.PLUS.by("ce"), lambda e: 0.0, lambda e: 1.0),
        margins(removal.PLUS, lambda e: 0.0, lambda e: 1.0)
        + margins(removal.PLUS.by("ce"), lambda e: 0.0, lambda e: 1.0),
    ),
    "margins positive after epoch 50": (
        margins(removal.PLUS, lambda e: (e - 50) / 10, lambda e: 9.0),
        margins(removal.PLUS, lambda e: (e - 80) / 10, lambda e: 9.0),
    ),
    "most noisy filtered at 80 %": (
        [record for cell in removal.EIGHTY for record in left(cell, 0.2, 0.7)],
        [record for cell in removal.EIGHTY for record in left(cell, 0.6, 0.7)],
    ),
    "clean labels identified": (kept(0.95, 0.9), kept(0.95, 0.6)),
    "90 % kept, 7 % noisy": (kept(0.93, 0.9), kept(0.8, 0.9)),
    "MARVEL+ improves generalisation": (
        finals(settings.BINARY, marvel=0.8, marvel_plus=0.81),
        finals(settings.BINARY, marvel=0.8, marvel_plus=0.79),
    ),
    "better than AUM": (against_aum(0.02, 0.1), against_aum(0.02, -0.1)),
    "consistently better, binary": (table(0.01, 0.03), table(-0.01, 0.03)),
    "larger margin when asymmetric, binary": (table(0.01, 0.03), table(0.01, 0.01)),
    "smaller spread": (spreads(0.01, 0.02), spreads(0.02, 0.01)),
    "NPCL degrades": (skewed(0.1, 0.02), skewed(0.02, 0.02)),
    "NPCL's classes out of balance": (selected(0.5, 1.0), selected(0.7, 0.9)),
    "better on CIFAR": (table(0.01, 0.03, *MULTI), table(0.01, -0.03, *MULTI)),
    "especially when asymmetric, CIFAR": (table(0.01, 0.03, *MULTI), table(0.03, 0.03, *MULTI)),
    "weak at 80 %": (oracle(0.05, 0.3), oracle(0.05, 0.06)),
    "memorisation lowest from 30 to 40": (
        ratio((1, 0.5), (30, 0.3), (40, 0.3), (120, 0.9), cell=periods.ASYMMETRIC),
        ratio((1, 0.2), (30, 0.4), (40, 0.5), (120, 0.9), cell=periods.ASYMMETRIC),
    ),
    "warm-up read off cross entropy": (read_off(30, 45), read_off(8, 45)),
    "robust to the warm-up": (warmups(0.01), warmups(0.05)),
    "robust to the wait": (waits(0.005), waits(0.03)),
    "longer wait on harder data": (best_waits(8, 6, 16, 16), best_waits(8, 16, 16, 16)),
    "shorter wait with more noise": (
        best_waits(10, 8, 8, 22, cells=periods.BY_NOISE),
        best_waits(8, 8, 10, 22, cells=periods.BY_NOISE),
    ),
}


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_a_claim_is_judged_both_ways(name: str) -> None:
    holding, failing = (BY_NAME[name].judge(Runs(records)) for records in BOTH_WAYS[name])
    assert holding is not None and holding.holds, holding
    assert failing is not None and not failing.holds, failing
    assert holding.figure != failing.figure


def test_only_what_needs_absent_data_is_never_judged() -> None:
    assert set(BY_NAME) - set(BOTH_WAYS) == {"real-world boost"}
    assert len(BY_NAME) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_without_runs_nothing_is_claimed(claim: Claim) -> None:
    assert claim.judge(Runs([])) is None and claim.verdict(Runs([])) == "not run"


def test_a_part_of_the_runs_is_said_to_be_one() -> None:
    some = finals(settings.BINARY[:3], marvel=0.8, marvel_plus=0.81)
    claim = BY_NAME["MARVEL+ improves generalisation"]
    found = claim.judge(Runs(some))
    assert found is not None and found.part == "3 of 32 settings"
    assert claim.verdict(Runs(some)) == "holds so far"
    assert claim.verdict(Runs(BOTH_WAYS[claim.name][0])) == "holds"
    assert claim.verdict(Runs(BOTH_WAYS[claim.name][1])) == "does not hold"


def test_figures_are_the_numbers() -> None:
    """By hand: the memorisation ratio is 30 % up to epoch 75, then 80 %."""
    lines = flat(0.3, 75) + flat(0.8, 25)
    found = BY_NAME["decay enables memorising"].judge(Runs(curves(CE, memorisation_ratio=lines)))
    assert found is not None
    assert found.figure == (
        "30.0 % in the five epochs before, 80.0 % in the five after (+50.0 points), 80.0 % at the end (1 seed)"
    )
    kept_60 = BY_NAME["90 % kept, 7 % noisy"].judge(Runs(kept(0.93, 0.9)))
    assert kept_60 is not None
    assert kept_60.figure == "90.0 % of the clean labels kept, 7.0 % of those kept are wrong (1 seed)"


def test_means_are_over_the_seeds() -> None:
    """MARVEL's precision of 90 and of 96 % make 7 % wrong."""
    cell = removal.KEPT[2]
    records = [
        paper_record(cell, k, final={"label_precision": p, "label_recall": 0.9}) for k, p in enumerate((0.9, 0.96))
    ]
    found = BY_NAME["90 % kept, 7 % noisy"].judge(Runs(records))
    assert found is not None and "7.0 % of those kept are wrong (2 seeds)" in found.figure


def test_leads_are_of_the_best_over_the_best() -> None:
    at = settings.BINARY[0]
    of = {("marvel", 0.7), ("marvel+", 0.9), ("ce", 0.5), ("gce", 0.6), ("sce", 0.8), ("npcl", 0.4)}
    numbers = {at.by(method): 100 * value for method, value in of}
    assert accuracy.leads([at], numbers.get, accuracy.BASELINES) == {at: pytest.approx(10)}
    del numbers[at.by("npcl")]
    assert accuracy.leads([at], numbers.get, accuracy.BASELINES) == {}


def test_how_far_from_normal() -> None:
    """Half at 0 and half at 4, mean 2 and sd 2: just above 0 half lie below, and of the normal 16 %."""
    (record,) = distribution(lambda share: float(share > 0.5) * 4)
    assert removal.from_normal(record, "25") == pytest.approx(100 * (0.5 - NormalDist().cdf(-1)), abs=2)


def test_the_papers_own_numbers() -> None:
    """Added up by hand: NPCL's losses are 2.8, 13.6, 20.9 and 12.4 points, MARVEL+'s 1.4, 1.0, 6.1 and 6.4."""
    own = {claim.name: claim.own() for claim in CLAIMS if claim.own is not None}
    assert own["NPCL degrades"] == "NPCL loses 12.4 points on average, MARVEL+ 3.7"
    assert own["robust to the warm-up"] == "apart by at most 1.5 points"
    assert own["robust to the wait"] == "neighbours apart by at most 0.5 points"
    assert own["weak at 80 %"].startswith("cifar10: 4.9 points below the oracle at 60 %, 31.4 at 80 %")


def test_the_page() -> None:
    shown = page(Runs(BOTH_WAYS["three phases"][0]))
    assert "| three phases | Section 2.2 | **holds** |" in shown
    assert f"{len(CLAIMS)} claims: 1 holds, {len(CLAIMS) - 1} not run." in shown
    assert all(f"## {claim.name}\n\n> {claim.said}" in shown for claim in CLAIMS)


def in_plain_text(latex: str) -> str:
    text = re.sub(r"(?<!\\)%.*", "", latex)
    text = text.replace(r"\name+", "MARVEL+").replace(r"\name{}", "MARVEL").replace(r"\name", "MARVEL")
    text = text.replace(r"\CE{}", "CE").replace(r"\CE", "CE").replace("--", "–").replace(r"\%", "%").replace("$", "")
    text = re.sub(r"Figure~\\ref\{[\w-]+\}", "Figure", text)
    return re.sub(r"\s+", " ", text)


def test_quotations_are_the_papers() -> None:
    paper = ROOT.parent / "shared" / "reference" / "paper.tex"
    if not paper.exists():
        pytest.skip("the paper is not here")
    text = in_plain_text(paper.read_text(encoding="utf-8")).lower()
    for claim in CLAIMS:
        for piece in re.split(r"\[[^\]]*\]", claim.said):
            said = re.sub(r"Figure \d( \(\w\))?", "Figure", piece).strip(" .,").lower()
            assert said in text, f"{claim.name}: {said}"
