"""Files that were cut short, or in which a bit has flipped: noticed by their checksums, and what is whole is used."""

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marvel.clean import clean
from marvel.errors import FolderError
from marvel.export import export
from marvel.report.page import write_page
from marvel.review.decisions import Change, Decisions, read_decisions
from marvel.runs import FORMAT, RunFolder
from soaking import NOTES, note, seed, times

pytestmark = pytest.mark.timeout(300 if NOTES is None else 7200)
PROMISE = "Damaged files are noticed, and the last good state is used"
FORMATS = Path(__file__).parent / "formats"


def damage(path: Path, rng: random.Random) -> None:
    """Cut the file short, or flip one bit of it."""
    content = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        del content[rng.randrange(len(content)) :]
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


# ------------------------------------------------------------ what a run measured


def ledger(folder: RunFolder) -> list[Any]:
    return [(epoch, kept["margin"].nan_to_num(99).tolist(), kept["weight"].tolist()) for epoch, kept in folder.ledger()]


def columns(folder: RunFolder) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in folder.instances().items()}


@pytest.mark.parametrize("kind", ["ledger", "instances"])
def test_a_damaged_ledger_is_noticed_and_never_believed(kind: str, tmp_path: Path) -> None:
    folder, n = RunFolder(tmp_path), 200
    margin = torch.randn(n, generator=torch.Generator().manual_seed(0))
    folder.write_ledger(3, margin, torch.ones(n), torch.ones(n, dtype=torch.bool))
    folder.write_instances({"index": np.arange(n), "quality": margin.numpy(), "id": [f"{k}.png" for k in range(n)]})
    file = tmp_path / {"ledger": "ledger/0003.safetensors", "instances": "instances.parquet"}[kind]
    read: Callable[[RunFolder], Any] = {"ledger": ledger, "instances": columns}[kind]
    expected, whole = read(folder), file.read_bytes()
    started = seed()
    rng, noticed, trials = random.Random(started), 0, times(30, 1000)
    for k in range(trials):
        damage(file, rng)
        found: Any = expected
        try:
            found = read(folder)
        except FolderError:
            noticed += 1
        # A bit that nothing depends on (a reserved one, the name of the program that wrote it) may pass.
        assert found == expected, f"{kind}, trial {k} of MARVEL_SEED={started}"
        file.write_bytes(whole)
    assert noticed > 0.7 * trials
    note(PROMISE, files_damaged=trials, seed=started)


def test_a_column_that_has_another_name_now_is_noticed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_instances({"index": np.arange(9), "quality": np.arange(9.0)})
    file = tmp_path / "instances.parquet"
    for _ in range(file.read_bytes().count(b"quality")):
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"quality", b"qualkty"))
        with pytest.raises(FolderError, match="is damaged"):
            folder.instances()
        file.write_bytes(whole)
    assert folder.instances(["quality", "nothing"]).keys() == {"quality"}


def test_damaged_results_are_written_anew_from_the_last_checkpoint(tmp_path: Path) -> None:
    place = tmp_path / "place"
    shutil.copytree(FORMATS / str(FORMAT), place)
    names = ("instances.parquet", "record.json", "clean.json", "issues.csv")
    settings: dict[str, Any] = {"epochs": 4, "batch": 32, "ledger": True, "device": "cpu", "network": "cnn2"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        clean("mine.npz", "run", resume=True, report=False, checkpoint_every_steps=1, **settings)
        before = [(place / "run" / name).read_bytes() for name in names]
        for name in names:
            (place / "run" / name).write_bytes(b"half of")
        with pytest.raises(FolderError, match="is damaged.*--resume"):
            RunFolder("run").instances()
        clean("mine.npz", "run", resume=True, report=False, checkpoint_every_steps=1, **settings)
        after = [(place / "run" / name).read_bytes() for name in names]
    assert after[0] == before[0] and after[3] == before[3]
    assert [re.sub(rb'"command": "[^"]*"', b"", one) for one in after] == [
        re.sub(rb'"command": "[^"]*"', b"", one) for one in before
    ]


# ------------------------------------------------------------ decisions


def decided(path: Path, acts: int) -> list[Any]:
    with Decisions(path, of="abc") as decisions:
        for k in range(acts):
            decisions.decide([Change(k, "keep"), Change(1000 + k, "choose", 7)], f"reviewer {k % 2}")
        decisions.undo("reviewer 1")
        return decisions.since(0)


def test_a_damaged_database_is_made_again_from_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "whole" / "decisions.sqlite"
    path.parent.mkdir()
    expected = decided(path, 40)
    counted = read_decisions(path)
    started = seed()
    rng, restored, trials = random.Random(started), 0, times(30, 500)
    for k in range(trials):
        shutil.rmtree(tmp_path / "place", ignore_errors=True)
        shutil.copytree(path.parent, tmp_path / "place")
        file = tmp_path / "place" / path.name
        damage(file, rng)
        how, refused = f"trial {k} of MARVEL_SEED={started}", ""
        try:
            assert read_decisions(file) == counted, how
            with Decisions(file, of="abc") as decisions:
                assert decisions.since(0) == expected, how
                if decisions.restored is not None:
                    restored += 1
                    assert decisions.restored.exists()
                decisions.decide([Change(77, "keep")], "me")
            assert read_decisions(file).keys() == {*counted, 77}, how
        except FolderError as error:
            refused = str(error)
        # The number of the form, and what the decisions are of, are not in the copy.
        assert not refused or re.search("another version|on other data", refused), (how, refused)
    assert restored > trials / 10, "most of the file is empty"
    note(PROMISE, databases_damaged=trials, databases_made_again_in_full=restored, seed=started)


def test_a_text_that_is_none_any_more_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "decisions.sqlite"
    expected = decided(path, 5)
    content = path.read_bytes()
    assert b"reviewer 0" in content
    path.write_bytes(content.replace(b"reviewer 0", b"review\xff\xff 0", 1))
    assert len(read_decisions(path)) == 8
    with Decisions(path, of="abc") as decisions:
        assert decisions.since(0) == expected and decisions.restored is not None


def test_a_damaged_copy_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "decisions.sqlite"
    expected = decided(path, 20)
    copy, rng = tmp_path / "decisions.jsonl", random.Random(seed())
    whole = copy.read_bytes()
    assert whole.count(b"\n") == len(expected)
    for _ in range(20):
        damage(copy, rng)
        with Decisions(path, of="abc") as decisions:
            assert decisions.since(0) == expected and decisions.restored is None
        assert copy.read_bytes() == whole
    copy.write_bytes(whole[:-1])
    Decisions(path, of="abc").close()
    assert copy.read_bytes() == whole
    copy.unlink()  # as in a folder of an older version
    Decisions(path, of="abc").close()
    assert copy.read_bytes() == whole


def test_a_decision_the_database_has_lost_comes_back(tmp_path: Path) -> None:
    """As when the write-ahead log is damaged, which SQLite then passes over without a word."""
    path = tmp_path / "decisions.sqlite"
    with Decisions(path) as decisions:
        decisions.decide([Change(1, "keep")], "me")
        decisions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        decisions.decide([Change(2, "keep")], "me")
        shutil.copytree(tmp_path, tmp_path / "crashed", ignore=shutil.ignore_patterns("crashed"))
    wal = tmp_path / "crashed" / "decisions.sqlite-wal"
    content = bytearray(wal.read_bytes())
    content[40] ^= 1
    wal.write_bytes(content)
    (tmp_path / "crashed" / "decisions.sqlite-shm").unlink(missing_ok=True)
    shutil.copytree(tmp_path / "crashed", tmp_path / "plain")
    (tmp_path / "plain" / "decisions.jsonl").unlink()
    assert read_decisions(tmp_path / "plain" / "decisions.sqlite").keys() == {1}, "what SQLite alone makes of it"
    assert read_decisions(tmp_path / "crashed" / "decisions.sqlite").keys() == {1, 2}
    with Decisions(tmp_path / "crashed" / "decisions.sqlite") as decisions:
        assert [entry.index for entry in decisions.since(0)] == [1, 2] and decisions.restored is not None


def test_two_processes_keep_one_copy(tmp_path: Path) -> None:
    path = tmp_path / "decisions.sqlite"
    with Decisions(path) as mine, Decisions(path) as theirs:
        for k in range(6):
            (mine, theirs)[k % 2].decide([Change(k, "keep")], "me")
    assert (tmp_path / "decisions.jsonl").read_bytes().count(b"\n") == 6


def test_a_copy_that_cannot_be_written_holds_up_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "decisions.sqlite"
    with Decisions(path) as decisions:
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        decisions.decide([Change(1, "keep")], "me")
        monkeypatch.undo()
        decisions.decide([Change(2, "keep")], "me")
    assert (tmp_path / "decisions.jsonl").read_bytes().count(b"\n") >= 2
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM history").fetchone() == (2,)
    connection.close()


# ------------------------------------------------------------ formats


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_run_folder_of_each_format_is_read_resumed_reported_and_exported(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before this one left them: an interrupted run, and decisions about it."""
    shutil.copytree(FORMATS / str(number), tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    folder = RunFolder("run")
    before = folder.metrics()
    assert len(before) == 2 and [epoch for epoch, _ in folder.ledger()] == [1, 2]
    config = folder.config
    assert config is not None
    settings = {k: v for k, v in config["config"].items() if k not in ("data", "precision") and v is not None}
    found = clean("mine.npz", "run", resume=True, report=False, **settings)
    assert found.run.trainer.epoch == 4 and folder.metrics()[:2] == before
    assert write_page(folder).stat().st_size > 10_000
    assert read_decisions(folder.decisions_file)[3].action == "keep"
    with Decisions(folder.decisions_file, of=config["data"]["fingerprint"]) as decisions:
        assert len(decisions.since(0)) == 4
    assert export(folder, "new").written == 60


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.save_checkpoint(1, {"a": torch.zeros(2)}, {})
    assert folder.load_checkpoint() is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marvel.runs.FORMAT", FORMAT + 1)
        folder.save_checkpoint(2, {"a": torch.zeros(2)}, {})
    with pytest.raises(FolderError, match="newer Marvel"):
        folder.load_checkpoint()
