"""The table of what is read off margins on both sides of 0, against counts by hand."""

import math

import pytest

from marvel.report.doubted import beside, doubted

# Bins of a quarter from -4 to 4: at -2 there are 30 right and 50 wrong labels, at 2 there are 300 right and 7 wrong.
BINS, LOW = 32, -4.0


def counted(**at: float) -> list[float]:
    """A histogram with so many margins in each of the two bins beside a place."""
    counts = [0.0] * BINS
    for place, many in at.items():
        middle = round((float(place.replace("minus", "-").replace("plus", "")) - LOW) / 0.25)
        counts[middle - 1] = counts[middle] = many / 2
    return counts


KEPT = {"range": [-4.0, 4.0], "clean": counted(minus2=30, plus2=300), "noisy": counted(minus2=50, plus2=7)}


def test_wrong_labels_are_read_off_both_sides() -> None:
    share, read, true = beside(KEPT, 2.0)
    e = math.exp(-2)
    assert share == pytest.approx(80 / 307)
    # right(-u) = e^-u right(u) and wrong(u) = e^-u wrong(-u), solved for the wrong ones.
    wrong = read * 80
    assert wrong + e * (307 - e * wrong) == pytest.approx(80)
    assert true == pytest.approx(50 / 80)


def test_shares_end_at_nought_and_one() -> None:
    alone = {"range": [-4.0, 4.0], "all": counted(minus2=1, plus2=300)}
    assert beside(alone, 2.0) == (pytest.approx(1 / 300), 0.0, None)
    assert beside({"range": [-4.0, 4.0], "all": counted(minus2=9000, plus2=100)}, 2.0)[:2] == (90.0, 1.0)


def test_too_few_on_the_other_side_say_nothing() -> None:
    assert beside({"range": [-4.0, 4.0], "all": counted(minus2=300, plus2=99)}, 2.0)[0] is None


TOLD = {
    "data": "cifar10",
    "noise": "symmetric",
    "rate": 0.2,
    "method": "marvel-semi",
    "network": "resnet18",
    "epochs": 115,
    "seed": 0,
    "options": {"warmup": "auto"},
}
RECORD = {"config": TOLD, "chosen": {"zero": -1.75, "removal_from": 58}, "histograms": {"50": KEPT}}


def test_the_table_is_of_first_seeds_and_of_runs_by_default() -> None:
    others = [{"options": {"zero": 0.0}}, {"options": {"late": False}}, {"method": "marvel"}, {"seed": 1}]
    wrong = {**RECORD, "histograms": {"50": {"range": KEPT["range"], "all": counted(minus2=1, plus2=307)}}}
    found = doubted([*({**wrong, "config": TOLD | other} for other in others), RECORD])
    shown = found.splitlines()
    assert len(shown) == 2 + 1
    assert shown[0].endswith("| u = 2 (e^-u = 0.14) | u = 3 (e^-u = 0.05) |")
    # Beside 1 and 3 there is nothing.
    place = "cifar10, symmetric 20%, resnet18, 115 epochs"
    assert shown[2] == f"| {place} | 58 | 50 | -1.8 | – | 0.26: 49 % (62 %) | – |"
    unknown = {**RECORD, "histograms": {"50": {"range": KEPT["range"], "all": counted(minus2=80, plus2=307)}}}
    assert "| 0.26: 49 % (–) |" in doubted([unknown])


def test_it_shows_the_last_margins_before_removal() -> None:
    other = {"range": KEPT["range"], "all": counted(minus2=1, plus2=307)}
    assert doubted([{**RECORD, "histograms": {"9": other, "50": KEPT, "60": other}}]) == doubted([RECORD])
    for chosen in ({"zero": 0.0}, {"zero": 0.0, "removal_from": 49}):
        assert "cifar10" not in doubted([{**RECORD, "chosen": chosen}])


def test_a_place_just_below_nought_is_written_without_a_sign() -> None:
    chosen = {"zero": -0.02, "removal_from": 50}
    assert "| 50 | 50 | 0.0 |" in doubted([{**RECORD, "chosen": chosen}])
    assert "| 50 | 50 | – |" in doubted([{**RECORD, "chosen": {"removal_from": 50}}])  # no label was doubted
