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
    assert beside({"range": [-4.0, 4.0], "all": counted(minus2=300)}, 2.0)[1] == 1.0


def test_the_table_is_of_first_seeds_and_of_runs_by_default_where_there_are_any() -> None:
    told = {
        "data": "cifar10",
        "noise": "symmetric",
        "rate": 0.2,
        "method": "marvel-semi",
        "network": "resnet18",
        "epochs": 115,
        "seed": 0,
        "options": {"warmup": "auto"},
    }
    record = {"config": told, "chosen": {"zero": -1.75}, "histograms": {"50": KEPT}}
    others = [{"options": {"zero": 0.0}}, {"options": {"warmup": 45}}, {"method": "marvel"}, {"seed": 1}]
    warming = {**record, "config": told | {"epochs": 200}, "chosen": {"warmup": 50, "zero": -0.02}}
    found = doubted([*({**record, "config": told | other, "chosen": {}} for other in others), warming, record])
    shown = found.splitlines()
    assert len(shown) == 2 + 1
    timed = {**record, "config": told | {"options": {"warmup": 14, "late": False}}, "chosen": {"zero": -1.0}}
    assert doubted([timed, record]) == found and "| -1.0 |" in doubted([timed])
    # Beside 1 and 3 there is nothing: as many margins at -u as were to be expected, none of them wrong.
    assert shown[0].endswith("| u = 2 (e^-u = 0.14) | u = 3 (e^-u = 0.05) |")
    place, none = "cifar10, symmetric 20%, resnet18, 115 epochs", "0.00: 0 % (0 %)"
    assert shown[2] == f"| {place} | -1.8 | {none} | 0.26: 49 % (62 %) | {none} |"
    unknown = {**record, "histograms": {"50": {"range": KEPT["range"], "all": counted(minus2=80, plus2=307)}}}
    assert "| 0.26: 49 % (–) |" in doubted([unknown])


def test_a_place_just_below_nought_is_written_without_a_sign() -> None:
    config = {"data": "d", "noise": "none", "rate": 0, "method": "marvel-semi", "network": "n", "epochs": 9, "seed": 0}
    record = {"config": config | {"options": {}}, "chosen": {"zero": -0.02}, "histograms": {"50": KEPT}}
    assert doubted([record]).splitlines()[2].startswith("| d, n, 9 epochs | 0.0 |")
