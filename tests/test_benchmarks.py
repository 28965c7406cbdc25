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


APART = ("arithmetic", "million")
"""Pieces that start processes, tested below."""


@pytest.mark.slow
def test_every_piece_gives_rows_and_the_file_holds_them(benchmarks, tmp_path, capsys):
    out = tmp_path / "found.json"
    pieces = [name for name in benchmarks.PIECES if name not in APART]
    only = [word for name in pieces for word in ("--only", name)]
    benchmarks.main(["--quick", "--device", "cpu", "--out", str(out), *only])
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found) == pieces
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


@pytest.mark.slow
@pytest.mark.dist
def test_what_was_computed_is_what_is_measured(benchmarks, tmp_path):
    """A checkpoint and the traffic of two processes are as large as the arithmetic of docs/scale.md says."""
    rows = list(benchmarks.PIECES["arithmetic"](torch.device("cpu"), quick=True))
    assert sum(row.peer == "computed" for row in rows) == 3
    assert all(0.98 < row.ratio < 1.03 for row in rows if row.peer == "computed"), rows


@pytest.mark.slow
def test_a_set_is_stopped_killed_and_cleaned_within_its_memory(benchmarks, tmp_path):
    """The million, small."""
    out = tmp_path / "found.json"
    benchmarks.main(["--only", "million", "--instances", "4000", "--device", "cpu", "--out", str(out)])
    part = json.loads(out.read_text(encoding="utf-8"))["million"]
    assert part["environment"]["command"] == "python -m benchmarks --only million --instances 4000"
    rows = {row["what"]: row for row in part["rows"]}
    assert "of epoch 2" in rows["4,000, until SIGTERM"]["note"]
    assert "of epoch 3" in rows["4,000, until SIGKILL"]["note"]
    assert rows["4,000, most memory of any of the three processes"]["met"]
    assert rows["4,000, detection AUROC"]["value"] > 0.9


def test_the_promise_counts_what_the_code_makes(benchmarks):
    """Against tensors of another size than the one it counts by."""
    promise, n = sys.modules["benchmarks.promise"], 777
    method, ledger = promise.made("marvel", n=n), sys.modules["marvel.ledger"].Ledger(torch.zeros(n), None)
    held = [tensor for tensor in (*method.remembered().values(), *ledger.state().values()) if len(tensor.shape) == 1]
    bytes_of_instances = sum(tensor.nbytes for tensor in held if len(tensor) == n)
    assert promise.checkpoint(n, 0) == bytes_of_instances
    assert promise.clean(10**6, 64) > promise.training(10**6, 64) > 10**6 * (64 + promise.state())
