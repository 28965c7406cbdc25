"""Every benchmark runs, on sizes that say nothing about speed."""

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def benchmarks(monkeypatch):
    """They lie beside the package, not in it."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(ROOT)
    yield pytest.importorskip("benchmarks.__main__")
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_every_piece_gives_rows_and_the_file_holds_them(benchmarks, tmp_path, capsys):
    out = tmp_path / "found.json"
    benchmarks.main(["--quick", "--device", "cpu", "--out", str(out)])
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found) == list(benchmarks.PIECES)
    for part in found.values():
        assert part["environment"]["torch"] == torch.__version__
        assert part["rows"] and all("value" in row or "note" in row for row in part["rows"])
    assert "F.cross_entropy" in capsys.readouterr().out

    benchmarks.main(["--quick", "--device", "cpu", "--only", "full-run", "--out", str(out)])
    again = json.loads(out.read_text(encoding="utf-8"))
    assert list(again) == list(found) and again["state"] == found["state"]

    document = tmp_path / "performance.md"
    marks = f"<!-- benchmarks: {out} -->\n", "<!-- end of benchmarks -->"
    document.write_text(f"before\n{marks[0]}old{marks[1]}\nafter\n", encoding="utf-8")
    benchmarks.main(["--table", str(document)])
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{marks[0]}") and text.endswith(f"{marks[1]}\nafter\n") and "old" not in text
    assert sum(line.startswith("| ") for line in text.splitlines()) == 2 + sum(len(p["rows"]) for p in again.values())


def test_the_peer_of_a_step_notes_nothing(benchmarks):
    plain = sys.modules["benchmarks.step"].Plain(4, 3)
    logits, y = torch.randn(2, 3), torch.tensor([0, 2])
    assert plain(logits, y, torch.tensor([0, 1])) == torch.nn.functional.cross_entropy(logits, y)
    assert plain.visits.sum() == 0
