"""The experiments of `marvel clean` end in records: their scripts, small, as they are run."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from marvel.report.tables import read_records
from marvel.report.thorough import thorough as table

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


def run(script: str, *words: object) -> None:
    subprocess.run([sys.executable, EXPERIMENTS / script, *map(str, words)], check=True, timeout=300)


@pytest.mark.slow
def test_calibration_ends_in_a_record_of_every_noise(tmp_path: Path) -> None:
    results, scores = tmp_path / "records.jsonl", tmp_path / "scores"
    run("calibration.py", "--seeds", "0", "--epochs", "3", "--results", results, "--scores", scores)
    found = [json.loads(line) for line in results.read_text().splitlines()]
    wanted = {(noise, rate) for noise in ("symmetric", "circular") for rate in (0.1, 0.2, 0.4)}
    wanted.add(("class-dependent", 0.3))
    assert {(record["asked"]["noise"], record["asked"]["rate"]) for record in found} == wanted
    assert len(list(scores.glob("*.npz"))) == len(found) == 7


@pytest.mark.slow
def test_detection_stands_beside_confident_learning(tmp_path: Path) -> None:
    pytest.importorskip("cleanlab")
    results = tmp_path / "records.jsonl"
    for part in ("train", "judge"):
        run("detection.py", part, "--data", "digits", "--epochs", "12", "--out", tmp_path, "--results", results)
    (record,) = (json.loads(line) for line in results.read_text().splitlines())
    found = record["found"]
    assert found["marvel clean"]["detection_auroc"] > 0.8
    assert found["confident learning"]["self_confidence_detection_auroc"] > 0.8
    assert record["wall_ours"] > 0 and record["wall_folds"] > 0


def test_the_thorough_mode_stands_beside_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    thorough = importlib.import_module("thorough")
    monkeypatch.setattr(thorough, "DIGITS", (("symmetric", 0.2),))
    monkeypatch.setattr(thorough, "CLOTHES", ())
    few = [{**settings, "epochs": 8} for settings in thorough.grid() if settings["seed"] == 0]
    monkeypatch.setattr(thorough, "grid", lambda: few)
    monkeypatch.setattr(sys, "argv", ["thorough.py", "--results", str(tmp_path / "records.jsonl")])
    thorough.main()
    thorough.main()  # what is there already is left out
    found = read_records(tmp_path / "records.jsonl")
    assert [record["asked"]["method"] for record in found] == ["marvel", "marvel-semi"]
    lines = table(found).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["marvel", "marvel-semi"]
    for record, line in zip(found, lines, strict=True):
        final, wrong = record["final"], record["estimate"]["wrong"]
        covers = wrong["low"] <= final["wrong_labels"] <= wrong["high"]
        assert f"| {int(covers)} of 1 | {100 * final['detection_auroc']:.1f} (–, 1) |" in line
        assert final["detection_auroc"] > 0.9
