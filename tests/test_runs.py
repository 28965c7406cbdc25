"""The run folder: nothing is lost in a crash, nothing damaged is believed, and any program can read it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from torch import Tensor

from marvel.config import Config
from marvel.data import Data
from marvel.errors import FolderError
from marvel.run import Run, train
from marvel.runs import RunFolder, as_json, write_atomically
from toy import problem

N, CLASSES = 60, ("a", "b", "c")
USUAL: dict[str, Any] = {"data": "toy", "method": "marvel", "noise": "symmetric", "rate": 0.3, "network": "mlp"}
USUAL |= {"epochs": 3, "batch": 32, "device": "cpu", "options": {"warmup": 1, "wait": 1}}


def toy(seed: int = 0) -> Data:
    x, y, _ = problem(N + 20, 3, noise=0.0, seed=seed)
    return Data("toy", x[:N], y[:N], CLASSES, x[N:], y[N:])


def settings(**changes: Any) -> Config:
    return Config(**(USUAL | changes))


# ------------------------------------------------------------ all or nothing


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, b"old")
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError("the power failed")))
            with pytest.raises(OSError, match="the power failed"):
                write_atomically(path, b"new and longer")
        assert path.read_bytes() == b"old"
        assert [p.name for p in path.parent.iterdir()] == ["file.json"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_content_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        target = os.readlink(f"/proc/self/fd/{descriptor}") if Path("/proc/self/fd").exists() else ""
        done.append("sync folder" if target == str(tmp_path) else "sync file")
        fsync(descriptor)

    def renamed(old: Any, new: Any) -> None:
        assert Path(old).parent == tmp_path, "a rename is atomic only within one folder"
        assert Path(old).read_bytes() == b"content"
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_atomically(tmp_path / "file", b"content")
    assert done[:2] == ["sync file", "rename"] and len(done) == 3


@pytest.mark.parametrize("write", ["config", "record", "checkpoint", "instances", "ledger", "cut"])
def test_every_file_is_written_all_or_nothing(write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)

    def once(number: int) -> None:
        if write == "config":
            folder.config = {"number": number}
        elif write == "record":
            folder.record = {"number": number}
        elif write == "checkpoint":
            folder.save_checkpoint(1, {"t": torch.full((3,), number)}, {})
        elif write == "instances":
            folder.write_instances({"number": np.full(3, number)})
        elif write == "ledger":
            folder.write_ledger(1, torch.full((3,), float(number)), torch.ones(3), torch.ones(3, dtype=torch.bool))
        else:
            folder.cut_metrics(number)

    folder.append({"epoch": 1})
    folder.append({"epoch": 2})
    once(2)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("the power failed")))
        with pytest.raises(OSError, match="the power failed"):
            once(1)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    once(1)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} != before


# ------------------------------------------------------------ checkpoints


def tensors(epoch: int) -> dict[str, Tensor]:
    return {
        "weights": torch.arange(6.0).view(2, 3) + epoch,
        "clock": torch.tensor(epoch),
        "half": torch.ones(2).bfloat16(),
    }


FACTS = {"numbers": {"optimizer0.0.step": 3.5}, "seconds": 0.1, "fingerprint": "abc"}


def two_checkpoints(path: Path) -> RunFolder:
    folder = RunFolder(path)
    for epoch in (3, 4):
        folder.save_checkpoint(epoch, tensors(epoch), FACTS | {"seconds": 0.1 * epoch})
    return folder


def loaded(folder: RunFolder) -> int:
    """The epoch of the checkpoint that was found; it is whole."""
    found = folder.load_checkpoint()
    assert found is not None
    epoch, saved, facts = found
    assert facts == FACTS | {"seconds": 0.1 * epoch}
    expected = tensors(epoch)
    assert saved.keys() == expected.keys()
    for name, tensor in expected.items():
        assert saved[name].dtype == tensor.dtype and torch.equal(saved[name], tensor)
    return epoch


def test_a_checkpoint_comes_back_as_it_was_and_the_last_two_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.load_checkpoint() is None
    for epoch in range(6):
        folder.save_checkpoint(epoch, tensors(epoch), FACTS | {"seconds": 0.1 * epoch})
        assert loaded(folder) == epoch
        kept = sorted(p.name for p in (tmp_path / "checkpoint").iterdir())
        last = [k for k in (epoch - 1, epoch) if k >= 0]
        assert kept == [f"{k:04d}.{kind}" for k in last for kind in ("json", "safetensors")]


def test_the_newest_is_the_highest_number_also_beyond_four_digits(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for epoch in (9998, 9999, 10000, 10001):
        folder.save_checkpoint(epoch, tensors(epoch), FACTS | {"seconds": 0.1 * epoch})
        assert loaded(folder) == epoch


def test_a_tensor_that_is_not_contiguous_is_saved_as_it_looks(tmp_path: Path) -> None:
    RunFolder(tmp_path).save_checkpoint(1, {"t": torch.arange(6).view(2, 3).T}, {})
    found = RunFolder(tmp_path).load_checkpoint()
    assert found is not None and torch.equal(found[1]["t"], torch.tensor([[0, 3], [1, 4], [2, 5]]))


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "longer":
        path.write_bytes(content + b"\0")
    else:
        path.write_bytes(b"[1, 2]\n")


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "longer", "something else"])
@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(how: str, kind: str, tmp_path: Path) -> None:
    folder = two_checkpoints(tmp_path)
    damage(tmp_path / "checkpoint" / f"0004.{kind}", how)
    assert loaded(folder) == 3
    damage(tmp_path / "checkpoint" / "0003.safetensors", how)
    with pytest.raises(FolderError, match="no checkpoint in .* is whole: start again in another folder"):
        folder.load_checkpoint()


@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_a_flipped_bit_anywhere_is_never_believed(kind: str, tmp_path: Path) -> None:
    """What is found is the newest checkpoint or the one before, each as it was saved: never a mixture."""
    folder = two_checkpoints(tmp_path)
    path = tmp_path / "checkpoint" / f"0004.{kind}"
    whole = path.read_bytes()
    found = []
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        found.append(loaded(folder))
    assert found.count(3) > 0.9 * len(found)
    assert kind == "json" or set(found) == {3}  # a space may become something that JSON does not mind


@pytest.mark.parametrize("note", [b"{}", b"null", b'{"sha256": 3}', b'{"epoch": "x"}', b"\xff\xfe", b"[" * 100])
def test_a_note_that_is_none_is_passed_over(note: bytes, tmp_path: Path) -> None:
    folder = two_checkpoints(tmp_path)
    (tmp_path / "checkpoint" / "0004.json").write_bytes(note)
    assert loaded(folder) == 3


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path: Path) -> None:
    whole = train(settings(), tmp_path / "whole", data=toy())
    steps = Run(settings(), tmp_path / "parts", data=toy()).steps()
    for epoch in steps:
        if epoch is not None and epoch.epoch == 2:
            break
    damage(tmp_path / "parts" / "checkpoint" / "0002.safetensors", "truncated")
    again = train(settings(), tmp_path / "parts", resume=True, data=toy())
    assert torch.equal(again.method.quality, whole.method.quality)
    for name in ("metrics.jsonl", "instances.parquet"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_without_a_whole_checkpoint_says_so(tmp_path: Path) -> None:
    train(settings(), tmp_path, data=toy())
    for path in (tmp_path / "checkpoint").glob("*.safetensors"):
        damage(path, "truncated")
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(FolderError, match="no checkpoint in .* is whole"):
        train(settings(), tmp_path, resume=True, data=toy())
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


# ------------------------------------------------------------ metrics.jsonl


def test_metrics_are_lines_that_can_be_cut(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "new")
    assert folder.metrics() == []
    folder.cut_metrics(3)
    assert not (tmp_path / "new").exists()
    lines = [{"epoch": e, "loss": 1 / e, "none": None, "list": [1, 2]} for e in (1, 2, 3)]
    for line in lines:
        folder.append(line)
    assert folder.metrics() == lines
    folder.cut_metrics(5)
    assert folder.metrics() == lines
    folder.cut_metrics(2)
    assert folder.metrics() == lines[:2]
    folder.append(lines[2])
    assert folder.metrics() == lines
    folder.cut_metrics(0)
    assert folder.metrics() == [] and (tmp_path / "new" / "metrics.jsonl").read_bytes() == b""


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for epoch in (1, 2):
        folder.append({"epoch": epoch})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"epoch": 3, "tra')
    assert [line["epoch"] for line in folder.metrics()] == [1, 2]
    folder.cut_metrics(2)
    folder.append({"epoch": 3})
    assert [line["epoch"] for line in folder.metrics()] == [1, 2, 3]


def test_a_damaged_line_is_said(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 1}\n{"epo\x00\n{"epoch": 3}\n')
    with pytest.raises(FolderError, match="metrics.jsonl is damaged in line 2"):
        RunFolder(tmp_path).metrics()


# ------------------------------------------------------------ whose folder it is


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(settings(epochs=1), tmp_path, data=toy())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FolderError, match="holds a run already: add --resume"):
        Run(settings(epochs=1), tmp_path, data=toy())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 1}, "holds a run with seed = 0, not 1: name another folder"),
        ({"epochs": 4}, "holds a run with epochs = 2, not 4"),
        ({"rate": 0.2}, "holds a run with rate = 0.3, not 0.2"),
        ({"lr": 0.5}, "holds a run with lr = 0.01, not 0.5"),
        ({"options": {"warmup": 1, "wait": 2}}, "holds a run with options = "),
        ({"method": "ce", "options": {}}, "holds a run with method = marvel, not ce"),
    ],
)
def test_another_run_does_not_go_on_here(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    train(settings(epochs=2), tmp_path, data=toy())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FolderError, match=said):
        Run(settings(**({"epochs": 2} | changes)), tmp_path, resume=True, data=toy())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_path_may_be_spelt_otherwise_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, what is the same file has another name; and another file may have the same."""
    for name in ("now", "other"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", toy().x.numpy())
        np.save(tmp_path / name / "y.npy", toy().y.numpy())
        (tmp_path / name / "c.csv").write_text("row,corrected\n0,1\n", encoding="utf-8")
    named = {"data": "x.npy", "labels": "y.npy", "corrections": "c.csv", "network": "mlp", "options": {}}
    config = settings(epochs=1, method="ce", noise="none", rate=0.0, **named)
    monkeypatch.chdir(tmp_path / "now")
    train(config, "run")
    train(config, tmp_path / "first")
    weights = {"weights": str(tmp_path / "first" / "network.safetensors")}
    train(config.but(**weights), "run2")

    monkeypatch.chdir(tmp_path)
    files = {key: f"now/{named[key]}" for key in ("data", "labels", "corrections")}
    train(config.but(**files), "now/run", resume=True)
    train(config.but(**files, weights="first/network.safetensors"), "now/run2", resume=True)
    train(config.but(**{key: str(tmp_path / path) for key, path in files.items()}), "now/run", resume=True)
    for key, path in files.items():
        with pytest.raises(FolderError, match=f"holds a run with {key} = .*, not other/"):
            train(config.but(**{**files, key: path.replace("now", "other")}), "now/run", resume=True)
    with pytest.raises(FolderError, match="holds a run with corrections = .*, not None"):
        train(config.but(**{**files, "corrections": None}), "now/run", resume=True)
    np.save("now/y.npy", (toy().y.numpy() + 1) % 3)
    with pytest.raises(FolderError, match="holds a run on other data"):
        train(config.but(**files), "now/run", resume=True)


@pytest.mark.parametrize("damaged", [None, "x", 3, [], {"path": 1}])
def test_what_says_nothing_of_files_is_compared_as_it_is_spelt(tmp_path: Path, damaged: Any) -> None:
    """As in the folders of older versions, which did not note every file."""
    train(settings(epochs=1), tmp_path, data=toy())
    folder = RunFolder(tmp_path)
    before = folder.config
    assert before is not None
    folder.config = {**before, "data": {**before["data"], "origin": damaged, "files": damaged}}
    with pytest.raises(FolderError, match="holds a run with data = "):
        Run(settings(epochs=1, data="other"), tmp_path, resume=True, data=toy())
    train(settings(epochs=1), tmp_path, resume=True, data=toy())


def test_other_data_does_not_go_on_here(tmp_path: Path) -> None:
    train(settings(epochs=1), tmp_path, data=toy())
    with pytest.raises(FolderError, match="holds a run on other data .*name another folder"):
        Run(settings(epochs=1), tmp_path, resume=True, data=toy(seed=1))


def test_other_labels_do_not_go_on_here(tmp_path: Path) -> None:
    """The settings name the same file, but what is in it has changed."""
    labels = tmp_path / "labels.npy"
    np.save(labels, toy().y.numpy())
    config = settings(noise="file", rate=0.0, noise_file=str(labels), epochs=1)
    train(config, tmp_path / "run", data=toy())
    np.save(labels, (toy().y.numpy() + 1) % 3)
    with pytest.raises(FolderError, match="other labels"):
        train(config, tmp_path / "run", resume=True, data=toy())


def test_how_a_run_is_computed_may_change_on_the_way(tmp_path: Path) -> None:
    train(settings(epochs=1), tmp_path, data=toy())
    train(settings(epochs=1, source="streamed", ledger=True, checkpoint_every=2), tmp_path, resume=True, data=toy())


@pytest.mark.parametrize(
    "content", ['{"name": "somebody\'s project"}', "[1]", '{"config": 3}', '{"config": {}}', "{", "null"]
)
def test_a_config_that_is_not_of_a_run_is_said(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    for resume in (True, False):
        with pytest.raises(FolderError):
            Run(settings(), tmp_path, resume=resume, data=toy())
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == content


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(FolderError, match="is a file: name a folder for the run"):
        Run(settings(), tmp_path / "run", data=toy())
    assert (tmp_path / "run").read_text() == "mine"


def test_clear_forgets_the_run_and_its_stages_and_nothing_else(tmp_path: Path) -> None:
    """A stage that stayed would be read back as finished by the next run, whatever its settings."""
    train(settings(epochs=1, ledger=True), tmp_path, data=toy())
    two_checkpoints(tmp_path / "first")
    RunFolder(tmp_path / "first").append({"epoch": 1})
    two_checkpoints(tmp_path / "first" / "inner")
    mine = [tmp_path / "notes.txt", tmp_path / "first" / "notes.txt", tmp_path / "other" / "config.json"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    train(settings(epochs=1), tmp_path / "another run", data=toy())
    mine += [path for path in (tmp_path / "another run").rglob("*") if path.is_file()]
    RunFolder(tmp_path).clear()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(mine)
    train(settings(epochs=1), tmp_path, data=toy())


# ------------------------------------------------------------ instances and ledger


def test_the_columns_of_instances(tmp_path: Path) -> None:
    run = train(settings(), tmp_path, data=toy())
    table = pyarrow.parquet.read_table(tmp_path / "instances.parquet").to_pydict()
    assert list(table) == [
        *("index", "given", "suggested", "quality", "label_quality", "weight", "removed_at", "epochs_seen", "clean"),
    ]
    method = run.method
    assert table["index"] == list(range(N))
    assert table["given"] == run.corruption.labels.tolist() != table["clean"]
    assert table["clean"] == toy().y.tolist()
    assert table["suggested"] == method.rival.tolist()
    assert table["quality"] == method.quality.tolist()
    assert table["label_quality"] == pytest.approx([1 / (1 + np.exp(-q)) for q in table["quality"]], rel=1e-5)
    assert table["weight"] == method.weight.tolist()
    assert table["removed_at"] == method.removed_at.tolist() and any(table["removed_at"])
    assert table["epochs_seen"] == [3] * N
    read = RunFolder(tmp_path).instances()
    assert {name: column.tolist() for name, column in read.items()} == table


def test_instances_without_a_known_truth(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(FolderError, match="the run has not finished; go on with --resume"):
        folder.instances()
    train(settings(noise="none", rate=0.0, epochs=1), tmp_path, data=toy())
    assert "clean" not in folder.instances()
    (tmp_path / "instances.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(FolderError, match="instances.parquet is damaged"):
        folder.instances()


def test_the_ledger_is_what_each_epoch_showed_in_half_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(settings(method="oracle", options={}, ledger=True), tmp_path, data=toy())
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    step = run.method.step

    def watched(validation: float | None = None) -> Any:
        shown = step(validation)
        seen.append((shown.margin.clone(), shown.mask.clone(), run.method.weight.clone()))
        return shown

    monkeypatch.setattr(run.method, "step", watched)
    for _ in run.steps():
        pass
    kept = dict(RunFolder(tmp_path).ledger())
    assert list(kept) == [1, 2, 3]
    for (margin, mask, weight), half in zip(seen, kept.values()):
        assert set(half) == {"margin", "weight"}
        assert half["margin"].dtype == half["weight"].dtype == torch.float16
        assert 0 < int(mask.sum()) < N
        assert torch.equal(half["margin"].isnan(), ~mask)
        assert torch.equal(half["margin"][mask], margin[mask].half())
        assert torch.equal(half["weight"], weight.half())


def test_there_is_no_ledger_unless_asked_for(tmp_path: Path) -> None:
    train(settings(epochs=1), tmp_path, data=toy())
    assert list(RunFolder(tmp_path).ledger()) == [] and not (tmp_path / "ledger").exists()
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "0001.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(FolderError, match="0001.safetensors is damaged"):
        list(RunFolder(tmp_path).ledger())


# ------------------------------------------------------------ JSON, small, without pickle


def test_nan_is_refused() -> None:
    assert as_json({"a": [1.5, None]}) == b'{"a": [1.5, null]}\n'
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            as_json({"value": value})


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_the_record_of_a_long_run_is_strict_and_small(tmp_path: Path) -> None:
    config = settings(epochs=120, rate=0.4, hold_out=0.2, checkpoint_every=0, options={"warmup": 20, "wait": 3})
    train(config, tmp_path, data=toy())
    content = (tmp_path / "record.json").read_bytes()
    assert len(content) < 60_000
    record = json.loads(content, parse_constant=refuse)
    assert len(record["curves"]["test_accuracy"]) == 120
    assert list(record["histograms"]) == [str(e) for e in (10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 100, 110, 120)]
    for name in ("config.json", "metrics.jsonl"):
        for line in (
            (tmp_path / name).read_text().splitlines() if name.endswith("l") else [(tmp_path / name).read_text()]
        ):
            json.loads(line, parse_constant=refuse)


def test_no_file_of_a_run_is_a_pickle(tmp_path: Path) -> None:
    train(settings(ledger=True), tmp_path, data=toy())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".parquet", ".safetensors"}
    for path in files:
        content = path.read_bytes()
        assert content[:2] not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), path


def test_an_old_checkpoint_that_a_kill_left_is_swept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for epoch in (1, 2):
        folder.save_checkpoint(epoch, {"weight": torch.ones(2)}, {"seconds": 0.0})
    first = {path: path.read_bytes() for path in (folder.path / "checkpoint").glob("0001.*")}
    folder.save_checkpoint(3, {"weight": torch.ones(2)}, {"seconds": 0.0})
    for path, content in first.items():
        assert not path.exists()
        path.write_bytes(content)  # killed before it was removed
    folder.sweep()
    assert {path.stem for path in (folder.path / "checkpoint").iterdir()} == {"0002", "0003"}


def test_what_is_blanked_is_blanked_in_the_stages_too(tmp_path: Path) -> None:
    folder, ones = RunFolder(tmp_path), torch.ones(4)
    stage = RunFolder(tmp_path / "round1")
    (tmp_path / "round1" / "checkpoint").mkdir(parents=True)
    for one in (folder, stage):
        one.write_ledger(1, ones, ones, ones.bool())
    folder.blank_ledger([1, 2])
    for one in (folder, stage):
        ((_, kept),) = one.ledger()
        assert kept["margin"].isnan().tolist() == kept["weight"].isnan().tolist() == [False, True, True, False]
