"""Every program in examples/ runs, and does what it says."""

import csv
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from marvel import METHODS
from marvel.experiment.finding import find
from marvel.export import export
from marvel.report.compared import compare, sheet
from marvel.report.page import shown
from marvel.runs import RunFolder

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(autouse=True)
def argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that programs are told to write."""
    monkeypatch.setattr("sys.argv", ["example.py", str(tmp_path / "run")])
    return tmp_path / "run"


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the program prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def torchrun(name: str, folder: Path) -> str:
    """What two processes of it print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(EXAMPLES / name), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def can_be_reviewed(folder: Path, said: str) -> None:
    """The list, the report, and a folder that review and export take."""
    assert f"Next: marvel review {folder}" in said and (folder / "report.html").is_file()
    with (folder / "issues.csv").open(encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    instances = shown(RunFolder(folder))
    assert instances is not None
    first = int(listed[0]["id"])
    assert instances.picture(first) is not None or instances.fields(first)
    done = export(folder, folder.parent / "corrected", accept_all=True)
    assert done.changed == sum(line["suggested"] != "" for line in listed) > 0


def found_wrong_labels(said: str) -> None:
    rightly, removed = map(int, re.findall(r"(\d+) of (\d+) removed", said)[0])
    assert rightly > 0.85 * removed > 0
    assert len(re.findall(r"given \w+, suggested \w+", said)) == 5


def test_every_example_is_short_and_tested() -> None:
    programs = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert set(programs) == set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert all(len(text.splitlines()) < 60 for text in programs.values())


def test_plain_loop_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    said = run("plain_loop.py", capsys)
    wrong, _, removed, rightly = map(int, re.findall(r"\b\d+\b(?![:.%])", said.partition("\n")[2])[:4])
    assert rightly > 0.9 * wrong and rightly > 0.85 * removed
    suspects = re.findall(r"given (\d), suggested (\d), in truth (\d)", said)
    assert len(suspects) == 5
    assert sum(suggested == truth != given for given, suggested, truth in suspects) >= 4
    can_be_reviewed(argument, said)
    assert len(list(RunFolder(argument).ledger())) == 30


@pytest.mark.dist
def test_torchrun_loop_finds_the_wrong_labels(argument: Path) -> None:
    said = torchrun("torchrun_loop.py", argument)
    found_wrong_labels(said)  # once: the first process alone speaks
    can_be_reviewed(argument, said)


def test_own_method_beats_cross_entropy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "trimmed", METHODS["ce"])  # so that it is gone afterwards
    said = run("own_method.py", capsys)
    accuracies = dict(re.findall(r"(\w+): test accuracy ([\d.]+)%", said))
    assert float(accuracies["trimmed"]) > float(accuracies["ce"]) + 10


def test_own_arrays_names_the_wrong_rows(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    said = run("own_arrays.py", capsys)
    rows = [int(row) for row in re.findall(r"row (\d+):", said)]
    assert len(rows) == 5 and all(row % 5 == 0 for row in rows)
    assert (argument / "record.json").is_file()


def test_the_grid_is_one() -> None:
    found = find(str(EXAMPLES / "grid.toml"))
    assert len(found.runs()) == 12 and {cell.config.method for cell in found.cells} == {"ce", "marvel", "marvel+"}
    shown = sheet(found, compare(found, []))
    assert list(shown.headings[-2:]) == ["memorisation ratio", "detection F1"]


def test_sklearn_classifier_beats_cross_entropy(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    said = run("sklearn_classifier.py", capsys)
    accuracies = dict(re.findall(r"([\w-]+): test accuracy ([\d.]+)%", said))
    assert float(accuracies["marvel"]) > float(accuracies["ce"]) + 10
    found_wrong_labels(said)
    can_be_reviewed(argument, said)


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_lightning_module_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    said = run("lightning_module.py", capsys)
    found_wrong_labels(said)
    can_be_reviewed(argument, said)
    assert len(list(RunFolder(argument).ledger())) == 30


def test_huggingface_trainer_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    with torch.random.fork_rng(devices=[]):  # the Trainer seeds the global generator
        said = run("huggingface_trainer.py", capsys)
    found_wrong_labels(said)
    can_be_reviewed(argument, said)


def test_accelerate_loop_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str], argument: Path) -> None:
    said = run("accelerate_loop.py", capsys)
    found_wrong_labels(said)
    can_be_reviewed(argument, said)
