"""Every program in examples/ runs, and does what it says."""

import re
import runpy
from pathlib import Path

import pytest
import torch

from marvel import METHODS
from marvel.experiment.finding import find
from marvel.report.compared import compare, sheet

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the program prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def found_wrong_labels(said: str) -> None:
    rightly, removed = map(int, re.findall(r"(\d+) of (\d+) removed", said)[0])
    assert rightly > 0.85 * removed > 0
    assert len(re.findall(r"given \w+, suggested \w+", said)) == 5


def test_every_example_is_short_and_tested() -> None:
    programs = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert set(programs) == set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert all(len(text.splitlines()) < 60 for text in programs.values())


def test_plain_loop_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("plain_loop.py", capsys)
    wrong, _, removed, rightly = map(int, re.findall(r"\b\d+\b(?![:.%])", said.partition("\n")[2])[:4])
    assert rightly > 0.9 * wrong and rightly > 0.85 * removed
    suspects = re.findall(r"given (\d), suggested (\d), in truth (\d)", said)
    assert len(suspects) == 5
    assert sum(suggested == truth != given for given, suggested, truth in suspects) >= 4


def test_own_method_beats_cross_entropy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "trimmed", METHODS["ce"])  # so that it is gone afterwards
    said = run("own_method.py", capsys)
    accuracies = dict(re.findall(r"(\w+): test accuracy ([\d.]+)%", said))
    assert float(accuracies["trimmed"]) > float(accuracies["ce"]) + 10


def test_own_arrays_names_the_wrong_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["own_arrays.py", str(tmp_path / "run")])
    said = run("own_arrays.py", capsys)
    rows = [int(row) for row in re.findall(r"row (\d+):", said)]
    assert len(rows) == 5 and all(row % 5 == 0 for row in rows)
    assert (tmp_path / "run" / "record.json").is_file()


def test_the_grid_is_one() -> None:
    found = find(str(EXAMPLES / "grid.toml"))
    assert len(found.runs()) == 12 and {cell.config.method for cell in found.cells} == {"ce", "marvel", "marvel+"}
    shown = sheet(found, compare(found, []))
    assert list(shown.headings[-2:]) == ["memorisation ratio", "detection F1"]


def test_sklearn_classifier_beats_cross_entropy(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("sklearn_classifier.py", capsys)
    accuracies = dict(re.findall(r"([\w-]+): test accuracy ([\d.]+)%", said))
    assert float(accuracies["marvel"]) > float(accuracies["ce"]) + 10
    found_wrong_labels(said)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_lightning_module_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str]) -> None:
    found_wrong_labels(run("lightning_module.py", capsys))


def test_huggingface_trainer_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng(devices=[]):  # the Trainer seeds the global generator
        found_wrong_labels(run("huggingface_trainer.py", capsys))


def test_accelerate_loop_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str]) -> None:
    found_wrong_labels(run("accelerate_loop.py", capsys))
