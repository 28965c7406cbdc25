"""Experiments found by name or file, grids written in TOML, and which of their runs are asked for."""

import sys
from pathlib import Path

import pytest

from marvel.config import Config
from marvel.errors import InvalidInput, UnknownName
from marvel.experiment import Cell, Experiment
from marvel.experiment.asked import numbers, only, shard
from marvel.experiment.finding import available, find
from marvel.experiment.grid import read_grid
from marvel.results import identity

GRID = """
title = "Mine"
seeds = [0, 3]
measures = ["test_accuracy", "label_recall"]

[settings]
data = "digits"
noise = "symmetric"
epochs = 5

[grid]
rate = [0.2, 0.4]
method = ["ce", "marvel"]

[options.marvel]
warmup = 2
wait = [1, 2]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Experiment:
    (tmp_path / "mine.toml").write_text(GRID)
    return read_grid(tmp_path / "mine.toml")


# ------------------------------------------------------------ grids


def test_a_grid_is_every_combination(grid: Experiment) -> None:
    assert (grid.name, grid.title, grid.seeds) == ("mine", "Mine", (0, 3))
    assert grid.measures == ("test_accuracy", "label_recall") and grid.headings == ("data", "rate", "method")
    shown = [(cell.group, cell.column, cell.row) for cell in grid.cells]
    assert shown == [
        ("digits", rate, row) for rate in ("0.2", "0.4") for row in ("ce", "marvel (wait 1)", "marvel (wait 2)")
    ]
    expected = Config(data="digits", noise="symmetric", rate=0.4, method="marvel", epochs=5)
    assert grid.cells[-1].config == expected.but(options={"warmup": 2, "wait": 2})


def test_the_first_seed_of_every_cell_comes_before_the_second_of_any(grid: Experiment) -> None:
    assert [config.seed for config in grid.runs()] == [0] * 6 + [3] * 6
    assert [config.seed for config in grid.runs([7])] == [7] * 6


def test_a_grid_of_several_axes_names_them(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        '[grid]\nbatch = [16, 32]\nlr = [0.1]\nrates = [[0.4, 0.0]]\n[settings]\nnoise="pair"'
    )
    found = read_grid(tmp_path / "two.toml")
    assert [cell.column for cell in found.cells] == ["batch 16, lr 0.1, rates 0.4,0", "batch 32, lr 0.1, rates 0.4,0"]
    assert found.cells[0].config.rates == (0.4, 0.0) and found.cells[0].row == "marvel"


def test_a_grid_without_axes_is_one_setting(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('[settings]\nmethod = "gce"\n[options.gce]\nq = 0.5\n')
    (cell,) = read_grid(tmp_path / "one.toml").cells
    assert cell.config == Config(method="gce", options={"q": 0.5}) and cell.row == "gce"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[girds]\n", "no part of .*bad.toml 'girds'; did you mean 'grid'"),
        ("grid = 3\n", r"\[grid\] should be a table"),
        ("[grid]\nrate = 0.2\n", "rate in \\[grid\\] should be a list"),
        ("[grid]\nrate = []\n", "rate in \\[grid\\] should be a list"),
        ("[settings]\nrate = 0.2\n[grid]\nrate = [0.2]\n", r"rate is in \[settings\] and in \[grid\]"),
        ('[options.gce]\nq = 0.5\n[grid]\nmethod = ["ce"]\n', r"\[options.gce\] is of a method that is not run"),
        ("[grid]\nepoch = [1]\n", "no setting 'epoch'; did you mean 'epochs'"),
        ('[grid]\nmethod = ["mravel"]\n', "no method 'mravel'; did you mean 'marvel'"),
        ("seeds = 3\n", "seeds should be a list of whole numbers"),
        ('measures = ["test_acc"]\n', "no measure 'test_acc'; did you mean 'test_accuracy'"),
        ('measures = "test_accuracy"\n', "measures should be a list of names, got 'test_accuracy'"),
        ("measures = 3\n", "measures should be a list of names, got 3"),
        ("measures = []\n", "measures should be a list of names"),
        ("measures = [3]\n", "a measure is said by its name, got 3"),
        ("[settings]\nweight_decay = 0.1\n[grid]\nweight-decay = [0.2]\n", "weight-decay is in .*and in"),
        ("[grid]\nseed = [0, 1]\n", r"write seeds = \[0, 1, 2\] above"),
        ("[settings]\nseed = 1\n", r"write seeds = \[0, 1, 2\] above"),
        ("seeds = [-1]\n", "seeds should be a list of whole numbers"),
        ("seeds = [", "is not a TOML file"),
    ],
)
def test_mistakes_in_a_grid_are_said(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_grid(tmp_path / "bad.toml")


def test_no_record_is_shown_under_two_settings(tmp_path: Path) -> None:
    """Two values of any setting are two runs, or are refused: else the number of one would be that of both."""
    values: dict[str, str] = {
        "precision": '["float32", "bf16"]',
        "threads": "[1, 2]",
        "fast": "[true, false]",
        "source": '["resident", "streamed"]',
        "checkpoint-every": "[1, 2]",
        "batch": "[16, 32]",
        "hold_out": "[0.1, 0.2]",
        "nesterov": "[true, false]",
    }
    how = {"precision", "threads", "fast", "source", "checkpoint-every"}
    for name, two in values.items():
        (tmp_path / "grid.toml").write_text(f"[grid]\n{name} = {two}\n")
        if name in how:
            with pytest.raises(InvalidInput, match=f"{name} says how a run is computed"):
                read_grid(tmp_path / "grid.toml")
        else:
            found = read_grid(tmp_path / "grid.toml")
            assert len({identity(cell.config) for cell in found.cells}) == 2, name


# ------------------------------------------------------------ which runs


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        (["method=ce"], 2),
        (["rate=0.4"], 3),
        (["rate=0.40,method=marvel"], 2),
        (["method=marvel,ce"], 6),
        (["rate=0.4,wait=2"], 1),
        (["rate=0.4", "wait=2"], 4),  # of one list or of the other
        (["method=ce", "method=ce,rate=0.4"], 2),
        (["wait=1,2,rate=0.2"], 2),
        (["row=marvel (wait 2)"], 2),
        (["network=cnn2"], 6),  # as the preset has it
        ([], 6),
    ],
)
def test_conditions(conditions: list[str], rows: int, grid: Experiment) -> None:
    assert len(only(grid, conditions).cells) == rows


def test_a_value_that_is_several(tmp_path: Path) -> None:
    cells = tuple(
        Cell("a", f"({r})", "CE", Config(data="cat-dog", noise="pair", rates=r, method="ce"))
        for r in ((0.4, 0.0), (0.4, 0.1), (0.2, 0.0))
    )
    found = only(Experiment("x", "x", cells), ["rates=0.4,0.1,method=ce"])
    assert [cell.config.rates for cell in found.cells] == [(0.4, 0.1)]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("metod=ce", "no setting 'metod'; did you mean 'method'"),
        ("method=sce", "nothing in mine has method=sce; there is: ce; marvel"),
        ("rate=0.4,wait=5", "nothing in mine has wait=5; there is: 1; 2"),
        ("ce", "a condition is written data=cifar10"),
        ("seed=0", "no setting 'seed'"),
    ],
)
def test_conditions_that_cannot_be_meant(condition: str, words: str, grid: Experiment) -> None:
    with pytest.raises(InvalidInput, match=words):
        only(grid, [condition])


def test_shards_are_all_of_it_once(grid: Experiment) -> None:
    runs = grid.runs()
    parts = [shard(runs, f"{k}/5") for k in range(1, 6)]
    assert sorted(repr(run) for part in parts for run in part) == sorted(map(repr, runs))
    assert {len(part) for part in parts} <= {2, 3}
    for wrong in ("0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        with pytest.raises(InvalidInput, match="a shard is written 1/4"):
            shard(runs, wrong)


def test_seeds() -> None:
    assert numbers("0,1, 4-6,5") == (0, 1, 4, 5, 6)
    for wrong in ("", "a", "3-1", "1,,2", "-1"):
        with pytest.raises(InvalidInput, match="seeds are written"):
            numbers(wrong)


# ------------------------------------------------------------ finding


def test_found_by_name_here_and_among_those_that_come_with_marvel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find("cifar-symmetric").name == "cifar-symmetric"
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "wait.toml").write_text(GRID)
    (tmp_path / "experiments" / "shared_part.py").write_text("X = 1\n")
    assert find("wait").title == "Mine" and find("warmup").title != "Mine"
    assert "shared-part" not in available() and "binary" not in available() and "core" not in available()
    with pytest.raises(UnknownName, match="no experiment 'wiat'; did you mean 'wait'"):
        find("wiat")


def test_a_python_file_may_share_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("from marvel.config import Config\nCONFIG = Config(method='ce')\n")
    (tmp_path / "my_own.py").write_text(
        "from marvel.experiment import Cell, Experiment\nfrom .parts import CONFIG\n"
        "EXPERIMENT = Experiment('my-own', 'Mine', (Cell('a', 'b', 'c', CONFIG),))\n"
    )
    found = find(str(tmp_path / "my_own.py"))
    assert found.cells[0].config == Config(method="ce") and found.file == tmp_path / "my_own.py"
    assert "parts" not in sys.modules


def test_files_that_hold_no_experiment(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file nowhere.py"):
        find("nowhere.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(InvalidInput, match="defines no EXPERIMENT"):
        find(str(tmp_path / "empty.py"))


def test_missing_data_is_said(tmp_path: Path) -> None:
    there = tmp_path / "mine.npz"
    there.write_bytes(b"")
    assert Cell("", "", "", Config(data=str(there))).missing is None
    assert Cell("", "", "", Config(data="cifar10")).missing is None
    assert Cell("", "", "", Config(data="webvision99")).missing == "no dataset 'webvision99' here"
