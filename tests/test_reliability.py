"""docs/reliability.md names tests that exist, and its figures are those of the record."""

import json
import re

import pytest

from soaking import FIGURES, PAGE, RECORD, ROOT, collect, page, rendered

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_test_it_names_exists() -> None:
    named = re.findall(r"`tests/(\w+\.py)::(\w+)`", TEXT)
    assert len(set(named)) > 60
    for file, test in named:
        assert re.search(rf"^def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_all_thirty_have_a_line() -> None:
    assert re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE) == [str(number) for number in range(1, 31)]


def test_its_figures_are_those_of_the_record() -> None:
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    assert page(TEXT, told) == TEXT, "python tests/soaking.py"
    assert FIGURES.search(TEXT) and told["promises"]


def test_notes_are_put_together(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    notes = Path(str(tmp_path)) / "notes"
    lines = [{"promise": "a", "kills": 2, "seed": 5}, {"promise": "a", "kills": 3, "slowest_s": 0.5, "seed": 6}]
    notes.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"promise": "b", "slowest_s": 2.0}]))
    monkeypatch.setenv("MARVEL_COMMIT", "f" * 40)
    record = collect(notes)
    assert record["promises"] == {"a": {"kills": 5, "seeds": [5, 6], "slowest_s": 0.5}, "b": {"slowest_s": 2.0}}
    assert "| a | 5 kills, 0.5 slowest s; seed 5, 6 |" in rendered(record)
