"""Which records belong to a cell of the paper."""

import json
from pathlib import Path

import pytest

from marvel.errors import DataError, InvalidInput
from marvel.report.cells import Cell, Runs, read_results
from paper_records import paper_record

PLUS = Cell("cat-dog", "pair", (0.4, 0.0), "marvel+")
GCE = Cell("cat-dog", "symmetric", (0.2,), "gce")


def seeds(runs: Runs, cell: Cell) -> list[int]:
    return [record["config"]["seed"] for record in runs.of(cell)]


def test_a_cell_has_its_records_in_the_order_of_their_seeds() -> None:
    runs = Runs([paper_record(PLUS, 2), paper_record(PLUS.by("marvel"), 7), paper_record(PLUS, 0)])
    assert seeds(runs, PLUS) == [0, 2]
    assert runs.lacking([PLUS, PLUS.by("ce"), PLUS.by("marvel")]) == [PLUS.by("ce")]


@pytest.mark.parametrize(
    "other",
    [
        {"config": {"epochs": 50}},
        {"config": {"batch": 64}},
        {"config": {"lr": 0.1}},
        {"config": {"rates": [0.4, 0.1]}},
        {"options": {"wait": 9}},
        {"options": {"warmup": 10}},
        {"options": {"among": "all"}},
        {"options": {"immediate": True}},
    ],
)
def test_what_the_paper_did_not_run_is_left_out(other: dict[str, object]) -> None:
    assert Runs([paper_record(PLUS, **other)]).of(PLUS) == []


def test_a_default_that_is_told_is_still_the_default() -> None:
    told = paper_record(PLUS, 1, options={"among": "survivors", "statistics": "batch"})
    assert seeds(Runs([paper_record(PLUS, 0), told]), PLUS) == [0, 1]


def test_a_seed_counts_once_the_newest() -> None:
    old, new = paper_record(PLUS, final={"test_accuracy": 0.1}), paper_record(PLUS, final={"test_accuracy": 0.9})
    assert Runs([old, new]).of(PLUS) == [new]


def test_of_a_baseline_the_settings_run_most_often_count() -> None:
    few = [paper_record(GCE, seed, options={"q": 0.3}) for seed in range(2)]
    many = [paper_record(GCE, seed, options={"q": 0.9}) for seed in range(3)]
    assert Runs([*few, *many]).of(GCE) == many
    assert Runs([*many, *few]).of(GCE) == many
    assert Runs([few[0], many[0]]).of(GCE) == [many[0]]  # undecided: the later


def test_resnet34_is_a_cell_of_its_own() -> None:
    small, large = (
        Cell("cifar10", "symmetric", (0.4,), "marvel"),
        Cell("cifar10", "symmetric", (0.4,), "marvel", "resnet34"),
    )
    runs = Runs([paper_record(small, 1), paper_record(large, 2)])
    assert seeds(runs, large) == [2] and seeds(runs, small) == [1]
    assert paper_record(large)["config"]["options"] == {"wait": 4, "warmup": 40}


def test_by_option_varies_one_period_and_holds_the_other() -> None:
    marvel = Cell("cifar10", "symmetric", (0.4,), "marvel")
    told = [(8, 30, 0), (8, 30, 1), (6, 30, 0), (8, 20, 0), (6, 20, 0)]
    runs = Runs([paper_record(marvel, seed, options={"wait": a, "warmup": b}) for a, b, seed in told])
    assert {wait: len(found) for wait, found in runs.by_option(marvel, "wait").items()} == {6: 1, 8: 2}
    assert {warmup: len(found) for warmup, found in runs.by_option(marvel, "warmup").items()} == {20: 1, 30: 2}


def test_means_are_over_the_seeds() -> None:
    runs = Runs([paper_record(PLUS, seed, final={"test_accuracy": value}) for seed, value in enumerate((0.5, 0.7))])
    assert runs.mean(PLUS, "test_accuracy") == pytest.approx(0.6)
    assert runs.mean(PLUS, "no_such_number") is None
    assert runs.mean(GCE, "test_accuracy") is None


def test_names() -> None:
    assert str(PLUS) == "MARVEL+ on cat-dog, (40 %, 0 %)"
    assert str(Cell("cifar10", "circular", (0.4,), "ce")) == "Cross entropy on cifar10, 40 % asymmetric"
    assert (
        Cell("cifar10", "class-dependent", (0.1,), "ce", "resnet34").setting
        == "cifar10, 10 % class-dependent, resnet34"
    )


def test_the_papers_number() -> None:
    assert PLUS.paper == 77.5
    assert Cell("cifar10", "symmetric", (0.4,), "marvel", "resnet34").paper == 89.2
    assert Cell("cifar10", "symmetric", (0.4,), "npcl").paper is None


def test_results_are_read_from_files_and_folders_without_those_that_failed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(paper_record(PLUS)) + "\n")
    (tmp_path / "a.failed.jsonl").write_text(json.dumps({"error": "no"}) + "\n")
    assert len(read_results([tmp_path])) == len(read_results([tmp_path / "a.jsonl"])) == 1
    (tmp_path / "b.jsonl").write_text("{\n")
    with pytest.raises(DataError, match="b.jsonl, line 1"):
        read_results([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no files of results"):
        read_results([tmp_path / "empty"])
