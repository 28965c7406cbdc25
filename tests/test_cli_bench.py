"""`marvel bench` and `marvel report`: what they do, say, and end with."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from marvel.bench import folder_of
from marvel.cli import main
from marvel.cli.bench import _longest_first
from marvel.cli.board import Board
from marvel.config import Config
from marvel.experiment.finding import find
from marvel.results import failures, records
from marvel.runs import RunFolder
from marvel.trainer import Epoch
from toy import problem

GRID = """
title = "Mine"
seeds = [0, 1]
[settings]
data = "toy.npz"
noise = "symmetric"
rate = 0.3
epochs = 3
batch = 16
[grid]
method = ["ce", "marvel"]
[options.marvel]
warmup = 1
wait = 1
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    x, y, _ = problem(60, 3, noise=0.0, seed=0)
    np.savez("toy.npz", x=x[:40].numpy(), y=y[:40].numpy(), x_test=x[40:].numpy(), y_test=y[40:].numpy())
    Path("mine.toml").write_text(GRID)
    return tmp_path


def marvel(*words: str) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)


def bench(*words: str) -> int:
    return marvel("bench", "mine.toml", "--width", "2", "--device", "cpu", *words)


def done() -> list[tuple[str, int]]:
    return sorted((r["config"]["method"], r["config"]["seed"]) for r in records(Path("results/mine.jsonl")))


ALL = [("ce", 0), ("ce", 1), ("marvel", 0), ("marvel", 1)]


def test_it_does_what_is_left_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--seeds", "0") == 0
    assert done() == [("ce", 0), ("marvel", 0)]
    said = capsys.readouterr()
    assert "2 runs done. The records are in results/mine.jsonl." in said.out
    assert "[2/2] toy.npz, marvel, seed 0: test " in said.err
    assert bench() == 0 and done() == ALL
    assert "2 runs done; 2 of 4 were done before." in capsys.readouterr().out
    before = Path("results/mine.jsonl").read_bytes()
    assert bench() == 0 and Path("results/mine.jsonl").read_bytes() == before
    assert "0 runs done; 4 of 4 were done before." in capsys.readouterr().out


def test_what_another_file_has_is_not_done_again() -> None:
    assert bench("--results", "results/other.jsonl", "--seeds", "0") == 0
    assert bench() == 0
    assert done() == [("ce", 1), ("marvel", 1)]


def test_data_that_has_changed_under_its_name_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    """The records stay those of the data they were measured on; a copy of it, written later, is the same data."""
    assert bench("--seeds", "0") == 0
    before = dict(np.load("toy.npz"))
    np.savez("toy.npz", **before)
    assert bench("--seeds", "0") == 0
    np.savez("toy.npz", **(before | {"y": before["y"][::-1]}))
    capsys.readouterr()
    assert bench() == 2
    said = capsys.readouterr()
    assert said.err.startswith("marvel: toy.npz has changed since 2 of its runs were done: bring it back as it was")
    assert said.err.count("\n") == 1 and said.out == "" and done() == [("ce", 0), ("marvel", 0)]
    assert bench("--dry-run") == 0  # which reads no data
    assert bench("--results", "new/mine.jsonl", "--runs", "new") == 0
    Path("toy.npz").unlink()  # what was measured on it stays measured
    assert bench("--results", "new/mine.jsonl", "--runs", "new") == 0


def test_what_was_held_out_is_not_taken_for_a_change_of_the_data() -> None:
    Path("mine.toml").write_text(GRID.replace("epochs = 3", "epochs = 2\nhold-out = 0.2"))
    assert bench() == 0 and done() == ALL and bench() == 0


def test_several_experiments_share_the_device_and_what_both_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Each record in its own experiment's file; a run that both ask for is done once, for the first."""
    Path("other.toml").write_text(
        GRID.split("[options")[0].replace('"ce", "marvel"', '"gce", "ce"').replace("0, 1", "0, 2")
    )
    assert bench("other.toml", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "mine: toy.npz, ce, seed 0" in said and "other: toy.npz, gce, seed 2" in said and "of 7 runs" in said
    assert bench("other.toml") == 0
    said = capsys.readouterr().out
    assert "7 runs done. The records are in results/mine.jsonl and results/other.jsonl." in said
    assert done() == sorted([*ALL, ("ce", 2)])
    theirs = sorted((r["config"]["method"], r["config"]["seed"]) for r in records(Path("results/other.jsonl")))
    assert theirs == [("gce", 0), ("gce", 2)]
    assert bench("other.toml", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["experiment"], told["done_before"], told["done"]) == ("mine, other", 7, 0)


def test_some_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--only", "method=ce", "--seeds", "5") == 0 and done() == [("ce", 5)]
    assert bench("--shard", "1/2", "--quiet") == 0 and done() == [("ce", 0), ("ce", 1), ("ce", 5)]
    capsys.readouterr()
    assert bench("--shard", "2/2", "--quiet") == 0 and done() == sorted([*ALL, ("ce", 5)])
    assert capsys.readouterr() == ("", "")


def test_a_dry_run_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--seeds", "0") == 0
    capsys.readouterr()
    assert bench("--dry-run") == 0
    said = capsys.readouterr().out
    assert "toy.npz, ce, seed 1" in said and "seed 0" not in said
    assert "2 of 4 runs are to be done; nothing is known of the cost of 2." in said
    assert bench("--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["done"], len(told["left"])) == (4, 2, 2)
    assert told["left"][0]["settings"]["method"] == "ce" and done() == [("ce", 0), ("marvel", 0)]


def test_what_a_table_of_the_paper_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert marvel("bench", "cifar-symmetric", "--only", "data=cifar10,method=ce", "--seeds", "0", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "CIFAR-10, 20%, CE, seed 0" in said and "4 of 4 runs are to be done, about 3 min of one H200" in said


def test_long_runs_begin_first() -> None:
    runs = [Config(data="cifar10", method=method, seed=seed) for seed in (0, 1) for method in ("ce", "incv", "oracle")]
    found = [
        (config.method, config.seed) for config in _longest_first([c.but(noise="symmetric", rate=0.4) for c in runs])
    ]
    assert found == [(method, seed) for seed in (0, 1) for method in ("incv", "ce", "oracle")]


def test_failures_stop_no_other_and_the_code_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(GRID.replace('"marvel"]', '"npcl", "marvel"]'))
    assert bench() == 1
    said = capsys.readouterr()
    assert done() == ALL and len(failures(Path("results/mine.jsonl"))) == 2
    assert "4 runs done, 2 failed. The records are in results/mine.jsonl. The reasons are in" in said.out
    assert said.out.rstrip().endswith("results/mine.failed.jsonl.")
    assert sum("failed for the same reason" in line for line in said.err.splitlines()) == 1
    assert said.err.splitlines()[-1].startswith("marvel: npcl must be told the noise rate")
    assert said.err.splitlines()[-1].endswith("(2 runs, the first: toy.npz, npcl, seed 0)")
    assert bench("--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["done_before"], told["done"], told["left"], len(told["failed"])) == (6, 4, 0, 0, 2)
    assert bench("--only", "method=ce") == 0  # they were not asked for


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[None]:
    """As a process that is at work in it does: the lock is of the open file, whoever opened it."""
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@pytest.mark.parametrize("engine", [["--width", "2"], pytest.param(["--processes", "1"], marks=pytest.mark.dist)])
def test_a_run_going_on_elsewhere_is_left_to_it(engine: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It is neither a failure nor done, until the other process is gone."""
    words = ["bench", "mine.toml", "--device", "cpu", *engine]
    folder = folder_of(find("mine.toml").cells[1].config, "runs/bench")
    assert folder is not None
    with held_elsewhere(folder):
        assert marvel(*words) == 3
        said = capsys.readouterr()
        assert "3 runs done, 1 going on elsewhere. The records are in results/mine.jsonl." in said.out
        assert "toy.npz, marvel, seed 0: going on elsewhere" in said.err and "fail" not in said.err
        assert done() == [("ce", 0), ("ce", 1), ("marvel", 1)] and not Path("results/mine.failed.jsonl").exists()
        assert marvel(*words, "--json") == 3
        told = json.loads(capsys.readouterr().out)
        assert (told["going_elsewhere"], told["done_elsewhere"], told["left"], told["failed"]) == (1, 0, 0, {})
    assert marvel(*words) == 0 and done() == ALL


def test_what_was_done_elsewhere_meanwhile_is_not_done_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command does the whole grid while this one is at its first run."""
    other: list[int] = []

    def epoch(self: Board, run: str, epoch: Epoch) -> None:
        if not other:
            other.append(0)
            other[0] = subprocess.call(
                [sys.executable, "-m", "marvel", "bench", "mine.toml", "--width", "1", "--device", "cpu", "--quiet"]
            )

    monkeypatch.setattr(Board, "epoch", epoch)
    assert marvel("bench", "mine.toml", "--width", "1", "--device", "cpu") == 0
    said = capsys.readouterr()
    assert "1 run done, 3 done elsewhere." in said.out and done() == ALL


def test_what_another_finished_by_the_end_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run is another's when this command comes to it, and has its record when the last one ends."""
    assert bench("--only", "method=ce", "--seeds", "0", "--runs", "there") == 0
    record = Path("results/mine.jsonl").read_text()
    Path("results/mine.jsonl").unlink()
    folder = folder_of(find("mine.toml").cells[0].config, "runs/bench")
    assert folder is not None
    end = Board.end

    def ends(self: Board, run: str, came_to: str) -> None:
        end(self, run, came_to)
        if len(self.done) == 3:
            with Path("results/mine.jsonl").open("a") as file:
                file.write(record)

    monkeypatch.setattr(Board, "end", ends)
    capsys.readouterr()
    with held_elsewhere(folder):
        assert bench() == 0
    assert "3 runs done, 1 done elsewhere." in capsys.readouterr().out and done() == ALL


def test_the_report_says_what_failed_whatever_the_file_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(GRID.replace('"marvel"]', '"npcl", "marvel"]'))
    assert bench("--results", "there/all.jsonl", "--seeds", "0") == 1
    capsys.readouterr()
    assert marvel("report", "mine.toml", "--results", "there", "--json") == 0
    why = {cell["row"]: cell["why_not_run"] for cell in json.loads(capsys.readouterr().out)["cells"]}
    assert why["ce"] is None and why["npcl"].startswith("npcl must be told the noise rate")


def test_time_that_runs_out_leaves_runs_that_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(GRID.replace("epochs = 3", "epochs = 30000").replace("batch = 16", "batch = 2"))
    assert bench("--max-seconds", "1", "--runs", "there") == 3
    assert done() == []
    assert "0 runs done, 4 left: the same command goes on." in capsys.readouterr().out
    begun = sorted(Path("there").iterdir())
    assert len(begun) == 2
    for folder in begun:
        checkpoint = RunFolder(folder).load_checkpoint()
        assert checkpoint is not None and checkpoint[0] == len(RunFolder(folder).metrics()) > 0


def test_ctrl_c_ends_with_the_epoch_and_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    shown: list[Epoch] = []

    def epoch(self: Board, run: str, epoch: Epoch) -> None:
        shown.append(epoch)
        if len(shown) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Board, "epoch", epoch)
    assert bench() == 130
    said = capsys.readouterr()
    assert "stopping when the epochs going on are done" in said.err
    assert said.err.splitlines()[-1] == "marvel: interrupted; the same command goes on"
    assert done() == [] and signal.getsignal(signal.SIGINT) is before
    cell = find("mine.toml").cells[0].config
    found = RunFolder(folder_of(cell, "runs/bench") or "").load_checkpoint()
    assert found is not None and found[0] == 1
    shown.clear()
    monkeypatch.setattr(os, "kill", lambda *given: None)
    assert bench() == 0 and done() == ALL
    assert min(one.epoch for one in shown[:2]) == 2  # it went on


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench"], "which experiment? `marvel bench --list`"),
        (["bench", "wiat"], "no experiment 'wiat'; did you mean 'wait'?"),
        (["bench", "mine.toml", "--only", "method=sce"], "nothing in mine has method=sce; there is: ce; marvel"),
        (["bench", "mine.toml", "--seeds", "x"], "seeds are written 0,1,2 or 0-9, got 'x'"),
        (["bench", "mine.toml", "--shard", "3/2"], "a shard is written 1/4"),
        (["bench", "mine.toml", "--max-seconds", "0"], "max-seconds must be positive, got 0"),
        (["bench", "mine.toml", "--engine", "rya"], "no engine 'rya'; did you mean 'ray'?"),
        (["bench", "mine.toml", "--width", "2", "--processes", "2"], "--processes goes neither with --width"),
        (["bench", "mine.toml", "--width", "0"], "width must be at least 1, got 0"),
        (["bench", "mine.toml", "--processes", "0"], "processes must be at least 1, got 0"),
        (["bench", "mine.toml", "--device", "cuda:7"], "there is no device cuda:7 here"),
        (["bench", "mine.toml", "--threads", "many"], "threads should be a whole number, got 'many'"),
        (["bench", "mine.toml", "--results", "r.json"], "should be named *.jsonl, got r.json"),
        (["report", "wiat"], "no experiment 'wiat', nor a run folder of that name; did you mean 'wait'?"),
        (["report", "runs/none"], "there is no run folder runs/none"),
        (["report", "mine.toml", "--format", "pdf"], "no format 'pdf'"),
        (["report", "mine.toml", "--out", "x.pdf"], "no format is known for x.pdf"),
        (
            ["report", "mine.toml", "--json", "--out", "t.tex"],
            "--json and --out t.tex ask for json and latex: leave out",
        ),
        (["report", "mine.toml", "--format", "html", "--json"], "--format html and --json ask for html and json"),
        (["report", "mine.toml", "--format", "latex", "--out", "t.MD"], "--format latex and --out t.MD ask for"),
        (["report", ".", "--results", "there"], "--results is of an experiment, and . is a folder: leave it out"),
        (["report", ".", "--only", "method=ce"], "--only is of an experiment, and . is a folder: leave it out"),
        (["report", "."], "holds no finished run"),
        (["report", ".", "--out", "x.pdf"], "is an HTML page, not x.pdf: name it x.html"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert marvel(*words) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.startswith("marvel: ") and shown.count("\n") == 1
    assert not Path("results").exists() and not list(Path().glob("[tx].*"))


@pytest.mark.parametrize("words", [["bench", "mine.toml"], ["demo"]])
def test_torchrun_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert marvel(*words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"marvel: marvel {words[0]} is not for torchrun") and said.count("\n") == 1
    monkeypatch.setenv("RANK", "1")
    assert marvel(*words) == 2 and capsys.readouterr().err == ""


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert marvel("bench", "--list") == 0
    assert "binary-asymmetric" in capsys.readouterr().out
    assert marvel("bench", "--list", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["wait"]["cells"] == 16 and told["wait"]["seeds"] == [0, 1, 2, 3, 4]


def test_which_engine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = vars(sys.modules["marvel.cli.bench"])["_engine"]  # the package's `bench` is the verb
    taken: list[tuple[str, int]] = []
    for name in ("side_by_side", "in_processes", "on_ray"):
        monkeypatch.setattr(f"marvel.engines.{name}", lambda n, name=name: taken.append((name, n)))
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    todo = [Config(seed=seed) for seed in range(5)]
    monkeypatch.setattr("marvel.distributed.device_for", lambda name: "cpu")
    for given in (("local", None, None), ("local", 4, None), ("local", None, 7), ("ray", None, None), ("ray", 2, None)):
        engine(*given, todo)
    engine("local", None, None, todo[:1])
    engine("local", None, None, [])
    monkeypatch.setattr("marvel.distributed.device_for", lambda name: "cuda:0")
    engine("local", None, None, todo)
    engine("local", None, 2, todo)
    assert taken == [
        *(("in_processes", 3), ("side_by_side", 4), ("in_processes", 7), ("on_ray", 8), ("on_ray", 2)),
        *(("in_processes", 1), ("in_processes", 1), ("side_by_side", 8), ("in_processes", 2)),
    ]


@pytest.mark.parametrize(
    ("settings", "every"),
    [
        ({"data": "cat-dog"}, 75),  # 20 s a run, eight at a time: 1.6 s an epoch
        ({"data": "cifar10"}, 36),
        ({"data": "cifar10", "network": "resnet34"}, 8),
        ({"data": "webvision50", "network": "resnet50", "epochs": 160}, 1),
        ({"data": "boot-sneaker"}, 70),
        ({"data": "mine.npz"}, 10),
    ],
)
def test_the_rhythm_of_checkpoints(settings: dict[str, Any], every: int) -> None:
    assert vars(sys.modules["marvel.cli.bench"])["_rhythm"](Config(method="ce", **settings)) == every


# ------------------------------------------------------------ the board


def test_the_board_estimates_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes of building say nothing of how long the rest takes, nor does what was done before a resumption."""
    monkeypatch.setattr("marvel.cli.board.time.monotonic", lambda: now)
    now = 1000.0
    board = Board({"a": "A", "b": "B", "c": "C"}, {"a": 10, "b": 20, "c": 30}, quiet=True)
    assert board.left(1600.0) is None
    now = 1600.0
    board.epoch("b", Epoch("main", 5, 10, {}))  # resumed: half of it was done before
    board.epoch("c", Epoch("main/pass1", 1, 2, {}))  # a training before: says nothing of the whole
    assert board.left(1600.0) is None
    board.epoch("b", Epoch("main", 6, 10, {}))
    assert board.left(1604.0) == pytest.approx(4.0 / 2 * (10 + 8 + 30))
    board.end("a", "fine")
    assert board.left(1606.0) == pytest.approx(6.0 / 12 * (8 + 30))
    board.fail("b", "broken")
    assert board.left(1607.0) == pytest.approx(7.0 / 10 * 30)
    now = 1607.0
    assert board.summary() == "1 of 3 done, 1 failed, 1 going, 10 min passed, about 21 s left"


def test_the_board_estimates_from_runs_that_show_no_epochs() -> None:
    """As those on a cluster."""
    board = Board({"a": "A", "b": "B"}, {}, quiet=True)
    board.end("a", "fine")
    assert board.left(board.began + 3.0) == pytest.approx(3.0)


def test_the_live_table() -> None:
    from rich.console import Console

    board = Board({"a": "[A]", "b": "B", "c": "C"}, {}, quiet=True)
    board.epoch("a", Epoch("main/pass1", 3, 10, {"test_accuracy": 0.5, "removed": 4}))
    board.end("b", "test 90.0%, 3 s")
    board.fail("c", "out of [red]memory[/red]")
    console = Console(width=100, file=io.StringIO())
    console.print(board.table())
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[A]" in said and "pass1 3/10" in said and "test 50.0%, removed 4" in said
    assert "failed: out of [red]memory[/red]" in said and "test 90.0%, 3 s" in said


def test_now_and_then_a_line_says_what_is_going_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("marvel.cli.board.EVERY", -1.0)
    with Board({"a": "A"}, {}) as board:
        board.epoch("a", Epoch("main", 3, 10, {}))
    assert "0 of 1 done, 1 going" in (said := capsys.readouterr().err) and said.endswith("A 3/10\n")


# ------------------------------------------------------------ report


def numbers() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in sorted(records(Path("results/mine.jsonl")), key=lambda r: r["config"]["seed"]):
        found.setdefault(record["config"]["method"], []).append(100 * record["final"]["test_accuracy"])
    return found


def test_the_report_of_an_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert marvel("report", "mine.toml") == 0
    assert "not run" in capsys.readouterr().out
    assert bench() == 0
    capsys.readouterr()
    expected = {
        method: f"{sum(v) / 2:.1f} ({abs(v[0] - v[1]) / 2**0.5:.1f}, 2)" for method, v in numbers().items()
    }  # of two
    for words in ([], ["--format", "markdown"], ["--format", "latex"], ["--format", "html"]):
        assert marvel("report", "mine.toml", *words) == 0
        said = capsys.readouterr().out
        assert all(number in said for number in expected.values()) and "Mine" in said
    for words in (["--json"], ["--format", "json"]):
        assert marvel("report", "mine.toml", *words) == 0
        told = json.loads(capsys.readouterr().out)
        assert [cell["ours"]["test_accuracy"]["values"] for cell in told["cells"]] == list(numbers().values())


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("t.md", "## Mine"), ("t.tex", "% needs"), ("t.html", "<!doctype html>"), ("t.json", "{")],
)
def test_the_file_says_which_format(name: str, beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert marvel("report", "mine.toml", "--out", f"new/{name}") == 0
    assert Path("new", name).read_text().startswith(beginning)
    assert capsys.readouterr().out == ""


def test_flags_that_ask_for_the_same_are_no_contradiction() -> None:
    assert marvel("report", "mine.toml", "--json", "--format", "json", "--out", "t.json") == 0
    assert marvel("report", "mine.toml", "--format", "markdown", "--out", "t.txt") == 0
    assert Path("t.json").read_text().startswith("{") and Path("t.txt").read_text().startswith("## Mine")


def test_a_run_folder_gets_its_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    Path("run/config.json").write_text("{}")
    assert marvel("report", "run", "--format", "latex") == 2
    assert "is an HTML page, not latex" in capsys.readouterr().err
    page: Any = ModuleType("marvel.report.page")

    def write_page(folder: RunFolder, out: Path | None) -> Path:
        (out or folder.path / "report.html").write_text("<p>")
        return out or folder.path / "report.html"

    page.write_page, page.__spec__ = write_page, ModuleSpec("marvel.report.page", None)
    monkeypatch.setitem(sys.modules, "marvel.report.page", page)
    assert marvel("report", "run") == 0 and "The report is run/report.html" in capsys.readouterr().out
    assert marvel("report", "run", "--out", "there.html", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"report": "there.html", "bytes": 3}
