"""The paper's numbers, the verdict, and the tables made of records; and the documents hold what would be made now."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest

from marvel.errors import DataError, InvalidInput, UnknownName
from marvel.methods import METHODS
from marvel.paper import PaperNumber, beside, paper_number, verdict
from marvel.report import tables
from marvel.results import HOW as RESULTS_HOW

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# ---------------------------------------------------------------- the paper


@pytest.mark.parametrize(
    ("place", "mean", "sd", "runs", "source"),
    [
        (("cifar-symmetric", "CIFAR-10", "40%", "marvel"), 88.4, 0.2, 5, "authors"),
        (("binary-asymmetric", "Truck", "(40%,0%)", "marvel+"), 92.9, 0.5, 10, "authors"),
        (("resnet34", "Class-Dependent", "40%", "oracle"), 92.4, None, 5, "authors"),
        (("cifar-symmetric", "CIFAR-10", "20%", "aum"), 90.2, None, None, "pleiss"),
        (("real-world", "WebVision50", "final-10", "marvel"), 74.5, None, 1, "authors"),
        (("cifar-symmetric", "CIFAR-10", "80%", "d2l"), None, None, None, "pleiss"),
        (("cifar-asymmetric-waits", "CIFAR-10", "40%", "marvel"), 6, None, None, "authors"),
    ],
)
def test_numbers_of_the_paper(
    place: tuple[str, str, str, str], mean: float | None, sd: float | None, runs: int | None, source: str
) -> None:
    found = paper_number(*place)
    assert found is not None
    assert (found.mean, found.runs, found.source) == (mean, runs, source)
    if sd is not None:
        assert found.sd == sd
    if mean is None:
        assert found.note == "diverged"


def test_a_cell_the_paper_has_not() -> None:
    assert paper_number("cifar-symmetric", "CIFAR-10", "50%", "marvel") is None


def cell(**changes: Any) -> PaperNumber:
    facts = {"mean": 80.0, "sd": 2.0, "source": "authors", "runs": 10, "note": None} | changes
    return PaperNumber("table", "data", "20%", "ce", **facts)


@pytest.mark.parametrize(
    ("ours", "theirs", "bound", "agrees"),
    [
        ([82.0], cell(), 2 * math.sqrt(0.4 + 4), True),
        ([84.3], cell(), 2 * math.sqrt(0.4 + 4), False),
        # Two runs still borrow the paper's sd, three have their own: equal ones leave the paper's share alone.
        ([82.0, 82.0], cell(), 2 * math.sqrt(0.4 + 2), True),
        ([82.0, 82.0, 82.0], cell(), 2 * math.sqrt(0.4), False),
        # Never less than a point, however sure both are; exactly a point still agrees.
        ([81.0], cell(sd=0.1), 1.0, True),
        ([87.4], cell(mean=88.4, sd=0.2, runs=5), 1.0, True),
        ([81.1], cell(sd=0.1), 1.0, False),
    ],
)
def test_verdict(ours: list[float], theirs: PaperNumber, bound: float, agrees: bool) -> None:
    judged = verdict(ours, theirs)
    assert judged is not None
    assert judged.bound == pytest.approx(bound)
    assert judged.difference == pytest.approx(sum(ours) / len(ours) - theirs.mean)  # type: ignore[operator]
    assert judged.agrees is agrees


@pytest.mark.parametrize("changes", [{"source": "pleiss"}, {"runs": 1}, {"runs": None}, {"mean": None}, {"sd": None}])
def test_no_verdict(changes: dict[str, Any]) -> None:
    assert verdict([80.0], cell(**changes)) is None


def test_a_verdict_on_nothing() -> None:
    with pytest.raises(InvalidInput, match="at least one run"):
        verdict([], cell())


def config(**changes: Any) -> dict[str, Any]:
    """MARVEL on CIFAR-10 as the paper ran it, as a record holds it."""
    facts: dict[str, Any] = {
        "data": "cifar10",
        "noise": "symmetric",
        "rate": 0.4,
        "rates": [],
        "method": "marvel",
        "network": "resnet32",
        "epochs": 120,
        "batch": 128,
        "lr": 0.1,
        "drops": [80, 100],
        "hold_out": 0.0,
        "protocol": "final",
        "seed": 0,
        "device": "cpu",
        "options": {"wait": 8, "warmup": 30},
    }
    return facts | changes


CE = {"method": "ce", "options": {}, "drops": [40, 80]}
BINARY = {"network": "resnet18", "epochs": 100, "lr": 0.01, "drops": [75, 90]}


@pytest.mark.parametrize(
    ("changes", "mean"),
    [
        ({}, 88.4),
        (CE, 72.2),
        ({"noise": "circular", "options": {"wait": 6, "warmup": 30}}, 89.4),
        (BINARY | {"data": "cat-dog", "rate": 0.2, "options": {"wait": 4, "warmup": 20}}, 83.3),
        (
            BINARY
            | {"data": "truck-car", "noise": "pair", "rate": 0.0, "rates": [0.4, 0.0]}
            | {"options": {"wait": 3, "warmup": 15}},
            92.4,
        ),
        (BINARY | {"data": "cat-dog", "rate": 0.1, "method": "npcl", "epochs": 200, "options": {}}, 86.0),
        (
            {"network": "resnet34", "hold_out": 0.1, "protocol": "validation", "options": {"wait": 4, "warmup": 40}},
            89.2,
        ),
        (CE | {"network": "resnet34", "hold_out": 0.1, "noise": "class-dependent"}, 76.1),
        # Not what the paper ran:
        ({"drops": [40, 80]}, None),
        (CE | {"drops": [80, 100]}, None),
        ({"epochs": 60}, None),
        ({"batch": 256}, None),
        ({"network": "resnet18"}, None),
        ({"rate": 0.5}, None),
        ({"noise": "symmetric-inclusive"}, None),
        ({"options": {"wait": 9, "warmup": 30}}, None),
        ({"options": {"wait": 8, "warmup": "auto"}}, None),
        ({"hold_out": 0.1}, None),
        ({"network": "resnet34", "options": {"wait": 4, "warmup": 40}}, None),
        ({"data": "digits"}, None),
        ({"schedule": "cosine"}, None),
        ({"optimizer": "adamw"}, None),
        ({"momentum": 0.0}, None),
        ({"nesterov": True}, None),
        ({"weight_decay": 5e-4}, None),
        ({"weights": "mine.safetensors"}, None),
    ],
)
def test_which_number_a_run_stands_beside(changes: dict[str, Any], mean: float | None) -> None:
    found = beside(config(**changes))
    assert (None if found is None else found.mean) == mean


# ---------------------------------------------------------------- tables


def record(accuracy: float, **changes: Any) -> dict[str, Any]:
    final = {"test_accuracy": accuracy, "memorisation_ratio": 0.25, "label_precision": None, "protocol": "final"}
    environment = {"device": "abacus", "marvel": "0.1.0", "commit": None, "torch": "2"}
    facts = config(precision="float32", **changes)
    return {
        "config": facts,
        "final": final,
        "noise": {"realised_rate": 0.4},
        "environment": environment,
        "seconds": 12.0,
        "chosen": {},
    }


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()][2:]


def test_seeds_are_pooled_and_settings_are_not() -> None:
    shown = [record(0.88, seed=seed, device="cuda" if seed else "cpu") for seed in range(2)]
    shown += [record(0.90, seed=2), record(0.7, **CE)]
    rows = cells(tables.accuracy(shown))
    assert [row[2:] for row in rows] == [
        ["MARVEL", "88.7 (1.2, 3)", "88.4 (0.2, 5)", "+0.3", "agrees (bound 1.3)"],
        ["Cross entropy", "70.0 (–, 1)", "72.2 (0.7, 5)", "-2.2", "differs (bound 1.5)"],
    ]
    assert rows[0][:2] == ["cifar10, resnet32", "symmetric 40 %"]


def test_parameters_are_named_where_they_tell_rows_apart() -> None:
    waits = [record(0.88, options={"wait": wait, "warmup": 30}) for wait in (8, 9)]
    rows = cells(tables.accuracy(waits))
    assert [row[2] for row in rows] == ["MARVEL (wait 8)", "MARVEL (wait 9)"]
    assert rows[1][4:] == ["–", "–", "–"]
    among = [record(0.88, method="marvel+", options={"among": among}) for among in ("survivors", "all")]
    assert [row[2] for row in cells(tables.accuracy(among))] == ["MARVEL+", "MARVEL+ (among all)"]  # the default


def test_rows_without_a_verdict_show_the_number() -> None:
    copied = record(0.79, method="bootstrap", options={}, drops=[40, 80], rate=0.2)
    assert cells(tables.accuracy([copied]))[0][4:] == ["77.6 (0.2, –) †", "+1.4", "none"]


def test_detection_and_provenance() -> None:
    shown = [record(0.88, seed=seed) for seed in range(2)]
    shown[1]["final"] = shown[1]["final"] | {"memorisation_ratio": 0.75}
    assert cells(tables.detection(shown))[0][2:] == ["40.0", "MARVEL", "50.0", "–", "–", "–", "–"]
    said = dict(cells(tables.provenance(shown)))
    assert said["device"] == "abacus" and said["commit"] == "not recorded" and said["seeds"] == "0, 1"


def test_settings_of_how_are_those_a_run_is_known_by() -> None:
    assert set(RESULTS_HOW) == tables.HOW


def test_every_method_has_a_row_and_a_section() -> None:
    assert [row[0] for row in cells(tables.methods())] == [f"`{key}`" for key in METHODS]
    pages = tables.method_pages()
    assert all(f"`{key}`" in pages and METHODS[key].__name__ in pages for key in METHODS)


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_hold_what_the_command_makes_now(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == tables.rewritten(text, ROOT), f"run: python -m marvel.report.tables {path.relative_to(ROOT)}"


def test_sections_are_written_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    before = "# A page\n\n<!-- made: accuracy runs.jsonl -->\nold\n<!-- end -->\n\nAfter.\n"
    page.write_text(before)
    Path("runs.jsonl").write_text(json.dumps(record(0.884)) + "\n")
    assert tables.main(["--check", "page.md"]) == 1
    assert page.read_text() == before
    assert tables.main(["page.md"]) == 0
    assert "| 88.4 (–, 1) |" in page.read_text() and "old" not in page.read_text()
    assert page.read_text().endswith("<!-- end -->\n\nAfter.\n")
    assert tables.main(["--check", "page.md"]) == 0
    assert capsys.readouterr().out == "page.md is out of date\npage.md written\n"


def test_records_are_read_once_a_document_and_anew_for_the_next(tmp_path: Path) -> None:
    page = "<!-- made: accuracy runs -->\n<!-- end -->\n" * 2
    (tmp_path / "runs").mkdir()
    for accuracy in (0.884, 0.9):
        (tmp_path / "runs" / "a.jsonl").write_text(json.dumps(record(accuracy)) + "\n")
        made = tables.rewritten(page, tmp_path)
        assert made.count(f"| {100 * accuracy:.1f} (–, 1) |") == 2
        assert tables._by_run.cache_info().misses == 1


@pytest.mark.parametrize(
    ("marker", "kind", "words"),
    [
        ("<!-- made: acuracy results.jsonl -->\n<!-- end -->", UnknownName, "did you mean 'accuracy'"),
        ("<!-- made: accuracy -->\n<!-- end -->", InvalidInput, "made from a file"),
        ("<!-- made: methods -->\nno end", InvalidInput, "stands between"),
        ("<!-- made: accuracy bad.jsonl -->\n<!-- end -->", DataError, "not JSON"),
        ("<!-- made: accuracy empty.jsonl -->\n<!-- end -->", DataError, "no records"),
    ],
)
def test_sections_that_cannot_be_made(tmp_path: Path, marker: str, kind: type[Exception], words: str) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(kind, match=words):
        tables.rewritten(marker, tmp_path)


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        tables.main([str(tmp_path / "nowhere.md")])
    assert stopped.value.code == 2 and "nowhere.md" in capsys.readouterr().err


def test_records_are_left_as_they_are() -> None:
    shown = [record(0.88), record(0.7, **CE)]
    before = copy.deepcopy(shown)
    tables.accuracy(shown), tables.detection(shown), tables.provenance(shown)
    assert shown == before
