"""Shards: written once, interrupted and gone on with, read in any order, and never trusted blindly."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import miniature
from marvel import data as datasets
from marvel.cli import main
from marvel.config import Config
from marvel.data.images import ImageFiles
from marvel.data.shards import open_shards
from marvel.data.shown import open_instances
from marvel.errors import DataError, FolderError, InvalidInput, UnknownName
from marvel.export import export
from marvel.prepare import prepare
from marvel.review.decisions import Change, Decisions
from marvel.run import Run, train
from marvel.runs import RunFolder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return miniature.archive(tmp_path, "photos", ("train", "test"), each=7)  # 21 and 21


@pytest.fixture
def shards(photos: Path, tmp_path: Path) -> Path:
    prepare(datasets.listing(str(photos)), tmp_path / "shards", rows=8)
    return tmp_path / "shards"


def table(path: Path) -> pa.Table:
    """A shard as any program reads it that knows Arrow."""
    return pa.ipc.open_file(path.read_bytes()).read_all()


# ---------------------------------------------------------------------------------------------- writing


def test_a_shard_holds_every_image_with_its_index_and_label(photos, shards):
    assert sorted(path.name for path in shards.iterdir()) == [
        "shards.json", *(f"test-{k:05d}.arrow" for k in range(3)), *(f"train-{k:05d}.arrow" for k in range(3)),
    ]  # fmt: skip
    rows = [row for k in range(3) for row in table(shards / f"train-{k:05d}.arrow").to_pylist()]
    files = sorted((photos / "train").rglob("*.jpg"))
    assert [row["index"] for row in rows] == list(range(21)) and len(files) == 21
    for row, path in zip(rows, files, strict=True):
        assert row["image"] == path.read_bytes() and row["crc"] == zlib.crc32(path.read_bytes())
        assert row["id"] == path.relative_to(photos).as_posix() and row["label"] == int(path.parent.name[1:])


def test_the_manifest_says_what_was_written(shards):
    told = json.loads((shards / "shards.json").read_text())
    assert told["complete"] and told["listed"] == {"train": 21, "test": 21} and told["classes"] == ["c0", "c1", "c2"]
    for shard in told["shards"]:
        path = shards / shard["file"]
        assert shard["bytes"] == path.stat().st_size and shard["last"] - shard["first"] + 1 == shard["count"]
        assert shard["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_cannot_be_read_is_named_and_left_out(photos, tmp_path):
    (photos / "train" / "c1" / "2.jpg").write_bytes((photos / "train" / "c1" / "3.jpg").read_bytes()[:200])
    (photos / "test" / "c0" / "0.jpg").write_bytes(b"")
    gone = datasets.listing(str(photos))
    (photos / "train" / "c2" / "6.jpg").unlink()  # listed, and then not there
    done = prepare(gone, tmp_path / "out", rows=8)
    train = done.parts["train"]
    assert train.missing == ("train/c2/6.jpg",) and [id for id, _ in train.unreadable] == ["train/c1/2.jpg"]
    assert (train.listed, train.written) == (21, 19) and done.parts["test"].written == 20 and not done.whole
    data = datasets.load(str(tmp_path / "out"))
    assert len(data) == 19 and data.origin.rows.tolist() == [k for k in range(21) if k not in (9, 20)]
    assert {one.id for one in data.set_aside} == {"train/c1/2.jpg", "train/c2/6.jpg", "test/c0/0.jpg"}


def test_larger_images_are_made_smaller_and_others_left_alone(photos, tmp_path):
    path = photos / "train" / "c0" / "0.jpg"
    Image.new("RGB", (300, 200), (200, 30, 30)).save(path)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (300, 200), (30, 30, 200)).save(photos / "train" / "c0" / "1.jpg", exif=turned)
    prepare(datasets.listing(str(photos)), tmp_path / "out", short_side=50)
    rows = table(tmp_path / "out" / "train-00000.arrow").to_pylist()
    assert Image.open(io.BytesIO(rows[0]["image"])).size == (75, 50)
    assert Image.open(io.BytesIO(rows[1]["image"])).size == (50, 75)
    assert rows[2]["image"] == (photos / "train" / "c0" / "2.jpg").read_bytes()
    mean = np.asarray(Image.open(io.BytesIO(rows[0]["image"]))).mean(axis=(0, 1))
    assert np.abs(mean - (200, 30, 30)).max() < 3


def test_an_interrupted_repair_is_not_whole(photos, shards):
    for number in (1, 2):
        (shards / f"train-{number:05d}.arrow").unlink()

    def stop(what: str, done: int, total: int) -> None:
        if done == 18:  # in the midst of the second to be written again
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(datasets.listing(str(photos)), shards, rows=8, watch=stop)
    with pytest.raises(DataError, match="a preparation that was interrupted"):
        datasets.load(str(shards))


def test_an_unreadable_test_image_is_no_row_of_the_training_part(photos, tmp_path):
    broken = sorted((photos / "test").rglob("*.jpg"))[2]
    broken.write_bytes(b"no image")
    prepare(datasets.listing(str(photos)), tmp_path / "out", rows=8)
    (aside,) = datasets.load(str(tmp_path / "out")).set_aside
    assert aside.id.endswith(broken.name) and aside.row is None


def test_a_shard_lies_beside_its_list(shards):
    path = shards / "shards.json"
    path.write_text(path.read_text().replace('"train-00000.arrow"', '"../train-00000.arrow"'))
    with pytest.raises(DataError, match="does not lie beside it"):
        datasets.load(str(shards))


def test_an_interrupted_preparation_goes_on(photos, tmp_path):
    listing, out = datasets.listing(str(photos)), tmp_path / "out"

    def stop(what: str, done: int, total: int) -> None:
        if done == 12:  # in the midst of the second shard
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(listing, out, rows=8, watch=stop)
    assert sorted(path.name for path in out.iterdir()) == ["shards.json", "train-00000.arrow"]
    with pytest.raises(DataError, match=r"shards.json is of a preparation that was interrupted: 8 of 42"):
        datasets.load(str(out))
    first = (out / "train-00000.arrow").stat().st_mtime_ns
    (out / ".train-00001.arrow.part").write_bytes(b"left by a kill")
    seen: list[int] = []
    done = prepare(listing, out, rows=8, watch=lambda what, done, total: seen.append(done))
    assert seen[0] == 9 and seen[-1] == 42 and done.kept == 1 and done.shards == 6
    assert (out / "train-00000.arrow").stat().st_mtime_ns == first and not list(out.glob(".*"))
    prepare(listing, tmp_path / "whole", rows=8)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (out / path.name).read_bytes()


def test_a_shard_that_is_gone_or_cut_short_is_written_again(photos, shards):
    before = {path.name: path.read_bytes() for path in shards.iterdir()}
    (shards / "train-00001.arrow").unlink()
    os.truncate(shards / "test-00000.arrow", 100)
    assert prepare(datasets.listing(str(photos)), shards, rows=8).kept == 4
    assert {path.name: path.read_bytes() for path in shards.iterdir()} == before


def test_other_data_or_settings_do_not_go_into_the_same_folder(photos, shards, tmp_path):
    with pytest.raises(FolderError, match=r"was prepared with settings .*: name another folder"):
        prepare(datasets.listing(str(photos)), shards, rows=9)
    miniature.jpeg(photos / "train" / "c0" / "more.jpg", 0, np.random.default_rng(0))
    with pytest.raises(FolderError, match="name another folder"):
        prepare(datasets.listing(str(photos)), shards, rows=8)
    with pytest.raises(FolderError, match="holds something else"):
        prepare(datasets.listing(str(photos)), photos, rows=8)
    with pytest.raises(FolderError, match="lies inside the data itself"):
        prepare(datasets.listing(str(photos)), photos / "shards", rows=8)
    with pytest.raises(InvalidInput, match="rows must be at least 1"):
        prepare(datasets.listing(str(photos)), tmp_path / "new", rows=0)


# ---------------------------------------------------------------------------------------------- training


def settings(data: Path, **changes: object) -> Config:
    return Config(
        data=str(data), size=16, network="cnn2", epochs=3, batch=8, lr=0.05, device="cpu",
        options={"warmup": 1, "wait": 2},
    ).but(**changes)  # fmt: skip


def outcome(run: Run) -> list[torch.Tensor]:
    return [*(p.detach() for p in run.networks[0].parameters()), run.method.quality, run.method.removed_at]


def test_shards_are_trained_on_as_the_folder_is_bit_for_bit(photos, shards):
    resident = train(settings(photos, source="resident"))
    for changes in ({"source": "resident"}, {"source": "streamed", "workers": 0}, {"source": "streamed", "workers": 1}):
        run = train(settings(shards, **changes))
        assert run.record["final"] == resident.record["final"] and run.data.ids == resident.data.ids
        for ours, theirs in zip(outcome(run), outcome(resident), strict=True):
            assert torch.equal(ours, theirs)


def test_several_processes_share_the_instances_as_they_share_others(shards, monkeypatch):
    """Each reads the contiguous share of each batch that it would of a tensor, and none twice."""
    from marvel import plan as planning
    from marvel.data.batches import Streamed
    from marvel.plan import Plan

    data = datasets.load(str(shards), size=16, hold=False)
    whole = datasets.load(str(shards), size=16, hold=True).x.held
    draws = list(torch.randperm(21, generator=torch.Generator().manual_seed(0)).split(8))
    seen: list[torch.Tensor] = []
    for rank in range(2):
        monkeypatch.setattr(planning, "share", lambda n, rank=rank: slice(n // 2, n) if rank else slice(0, n // 2))
        plan = Plan(draws, (0, "main", 1, "numbers"), torch.device("cpu"))
        for step, (raw,) in enumerate(plan.stream(Streamed(data.x, "cpu"))):
            assert torch.equal(raw, whole[plan.indices(0, step)])
            seen.append(plan.indices(0, step))
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(21))


@pytest.mark.slow
@pytest.mark.dist
def test_two_processes_train_on_shards_as_one_does(tmp_path):
    """Through torchrun, with random parts of images: the same cuts, whoever makes them. BatchNorm would differ."""
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=4)
    prepare(datasets.listing("webvision50", tmp_path), tmp_path / "webvision50", rows=10)
    words = [
        *("train", "--data", str(tmp_path / "webvision50"), "--size", "16", "--network", "cnn4", "--epochs", "3"),
        *("--batch", "8", "--lr", "0.01", "--device", "cpu", "--workers", "0", "--warmup", "1", "--quiet", "--out"),
    ]
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "marvel"]
    for start, out in (([sys.executable, "-m", "marvel"], "one"), (launch, "two")):
        done = subprocess.run(
            [*start, *words, str(tmp_path / out)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    one, two = (RunFolder(tmp_path / name).instances() for name in ("one", "two"))
    assert one["id"].tolist() == two["id"].tolist() and len(set(one["id"])) == 24
    assert np.abs(one["quality"] - two["quality"]).max() < 1e-5 and one["quality"].std() > 0.01


def test_random_parts_are_the_same_from_shards_and_from_files(tmp_path):
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=4)
    small = {"size": 16, "root": str(tmp_path), "workers": 0}
    files = train(settings(Path("webvision50"), **small))
    prepare(datasets.listing("webvision50", tmp_path), tmp_path / "webvision50", rows=10)
    shards = train(settings(Path("webvision50"), **small))  # the shards of that name come first
    assert files.data.origin.kind == "listed" and shards.data.origin.kind == "shards"
    assert shards.data.mean == (0.485, 0.456, 0.406) and shards.data.augment == "resized-crop-flip"
    for ours, theirs in zip(outcome(shards), outcome(files), strict=True):
        assert torch.equal(ours, theirs)


def test_the_fingerprint_is_of_the_content_not_of_its_spread(photos, shards, tmp_path):
    one = datasets.load(str(shards), hold=False).fingerprint()
    prepare(datasets.listing(str(photos)), tmp_path / "other", rows=5)
    assert datasets.load(str(tmp_path / "other"), hold=False).fingerprint() == one
    path = photos / "train" / "c0" / "0.jpg"
    miniature.jpeg(path, 2, np.random.default_rng(9))
    prepare(datasets.listing(str(photos)), tmp_path / "third", rows=5)
    assert datasets.load(str(tmp_path / "third"), hold=False).fingerprint() != one


def test_images_in_shards_can_be_shown(shards, photos):
    data = datasets.load(str(shards))
    shown = open_instances(data.origin, data.origin.rows, data.ids)
    content = shown.picture(20)
    assert content is not None
    theirs = np.asarray(Image.open(photos / data.ids[20]).convert("RGB")).astype(int)
    assert np.abs(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int) - theirs).max() <= 1


def test_corrected_labels_are_written_back(photos, shards, tmp_path):
    """By corrections that are known: what the new shards hold is worked out from the table of them."""
    run = train(settings(shards, epochs=1), tmp_path / "run")
    with Decisions(RunFolder(tmp_path / "run").decisions_file) as decisions:
        decisions.decide([Change(3, "choose", 2), Change(9, "aside")], "test")
    done = export(tmp_path / "run", tmp_path / "out")
    assert (done.written, done.changed, done.aside) == (20, 1, 1)
    before, after = datasets.load(str(shards)), datasets.load(str(tmp_path / "out"))
    keep = [k for k in range(21) if k != 9]
    expected = before.y.clone()
    expected[3] = 2
    assert after.y.tolist() == expected[keep].tolist() and after.origin.rows.tolist() == keep
    assert torch.equal(after.x.held, before.x.held[keep]) and torch.equal(after.test_x.held, before.test_x.held)
    assert [one.id for one in after.set_aside] == [run.data.ids[9]]
    assert not open_shards(tmp_path / "out", thorough=True).faults
    with pytest.raises(FolderError, match="from other files or labels"):
        prepare(datasets.listing(str(photos)), tmp_path / "out", rows=8)


def test_corrected_labels_of_listed_images_are_a_table(tmp_path):
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=2)
    train(settings(Path("webvision50"), root=str(tmp_path), workers=0, epochs=1), tmp_path / "run")
    with Decisions(RunFolder(tmp_path / "run").decisions_file) as decisions:
        decisions.decide([Change(0, "choose", 1)], "test")
    assert export(tmp_path / "run", tmp_path / "out").changed == 1
    data = datasets.load(str(tmp_path / "out" / "labels.csv"), size=16)
    assert [data.classes[y] for y in data.y.tolist()][:3] == ["goldfish", "tench", "goldfish"] and len(data) == 12
    with Decisions(RunFolder(tmp_path / "run").decisions_file) as decisions:
        decisions.decide([Change(1, "aside")], "test")
    assert export(tmp_path / "run", tmp_path / "fewer").written == 11
    assert export(tmp_path / "run", tmp_path / "marked", keep_aside=True).written == 12


# ---------------------------------------------------------------------------------------------- bad shards


def missing(shards: Path) -> None:
    (shards / "train-00001.arrow").unlink()


def truncated(shards: Path) -> None:
    path = shards / "train-00001.arrow"
    os.truncate(path, path.stat().st_size - 1)


def overwritten(shards: Path) -> None:
    """A copy of another shard in its place."""
    shutil.copy(shards / "train-00000.arrow", shards / "train-00001.arrow")


def copied(shards: Path) -> None:
    shutil.copy(shards / "train-00001.arrow", shards / "train-00001 (1).arrow")


def listed_twice(shards: Path) -> None:
    told = json.loads((shards / "shards.json").read_text())
    told["shards"].append(told["shards"][1])
    (shards / "shards.json").write_text(json.dumps(told))


def renamed_copy(shards: Path) -> None:
    """A copy that the manifest knows of."""
    copied(shards)
    told = json.loads((shards / "shards.json").read_text())
    told["shards"].append({**told["shards"][1], "file": "train-00001 (1).arrow"})
    (shards / "shards.json").write_text(json.dumps(told))


def relabelled(shards: Path) -> None:
    """Another label in a file of the same length."""
    path = shards / "train-00001.arrow"
    content = table(path)
    label = content["label"].to_pylist()
    other = content.set_column(1, "label", pa.array([2 - k for k in label], pa.int32()))
    with pa.ipc.new_file(str(path), other.schema) as sink:
        sink.write_table(other)
    assert path.stat().st_size == json.loads((shards / "shards.json").read_text())["shards"][1]["bytes"]


@pytest.mark.parametrize(
    ("harm", "named", "left"),
    [
        (missing, "train-00001.arrow is missing", 13),
        (truncated, "train-00001.arrow is truncated: ", 13),
        (overwritten, "train-00001.arrow is duplicated: 8 of its instances are in train-00000.arrow too", 13),
        (copied, r"train-00001 \(1\).arrow is duplicated: 8 of its instances are in train-00001.arrow too", 21),
        (listed_twice, "train-00001.arrow is listed twice", 21),
        (renamed_copy, r"train-00001 \(1\).arrow is duplicated", 21),
        (relabelled, "train-00001.arrow holds other instances or labels", 13),
    ],
)
def test_a_bad_shard_is_named_and_the_run_stops_or_goes_on(
    shards: Path, harm: Callable[[Path], None], named: str, left: int
) -> None:
    harm(shards)
    with pytest.raises(DataError, match=named):
        datasets.load(str(shards))
    run = train(settings(shards, on_bad_data="skip", epochs=1, source="streamed", workers=0))
    rows = run.data.origin.rows.tolist()
    assert len(rows) == left == len(set(rows)) and rows == sorted(rows)
    assert run.method.epochs_seen.tolist() == [1] * left  # each once
    assert any(one.id.startswith("train-00001") for one in run.data.set_aside)
    assert len(run.data.test_y) == 21


def damage(shards: Path) -> tuple[Path, int]:
    """One bit of an image, in a file of the same length."""
    path = shards / "train-00001.arrow"
    content = bytearray(path.read_bytes())
    image = table(path)["image"][3].as_py()
    content[content.index(image) + len(image) // 2] ^= 1
    path.write_bytes(content)
    return path, 8 + 3


def test_damage_inside_an_image_is_noticed_when_it_is_read(shards):
    path, index = damage(shards)
    for workers in (0, 1):
        with pytest.raises(DataError) as said:
            train(settings(shards, source="streamed", workers=workers))
        assert str(said.value).startswith(f"shard {path}: the bytes of index {index} are not those that were written")
    with pytest.raises(DataError, match="not those that were written"):
        datasets.load(str(shards))  # held in memory: read at once


def test_damage_inside_an_image_is_left_out_before_the_first_epoch(shards):
    damage(shards)
    data = datasets.load(str(shards), on_bad_data="skip")
    assert len(data) == 13 and "is damaged" in data.set_aside[0].reason and "8 instances" in data.set_aside[0].reason
    assert [str(fault) for fault in open_shards(shards, thorough=True).faults] == [
        "train-00001.arrow is damaged: its bytes are not those that were written"
    ]


def test_nothing_left_is_said(shards):
    for path in shards.glob("train-*"):
        path.unlink()
    with pytest.raises(DataError, match="no shard of the training part can be read"):
        datasets.load(str(shards), on_bad_data="skip")


def test_a_damaged_manifest_is_said(shards):
    (shards / "shards.json").write_text("{}")
    with pytest.raises(DataError, match="shards.json is damaged"):
        datasets.load(str(shards))
    with pytest.raises(UnknownName, match="no on_bad_data 'ignore'"):
        datasets.load(str(shards), on_bad_data="ignore")


def test_many_shards_need_few_open_files(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("marvel.data.shards.OPEN_FILES", 2)
    prepare(datasets.listing(str(photos)), tmp_path / "out", rows=2)
    data = datasets.load(str(tmp_path / "out"), size=16, hold=False)
    assert isinstance(data.x, ImageFiles)
    order = torch.randperm(21).tolist()
    held = datasets.load(str(photos), size=16).x.held
    assert all(torch.equal(data.x[k], held[k]) for k in order)


# ---------------------------------------------------------------------------------------------- the command


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return int(stopped.value.code or 0)


def test_the_commands(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (photos / "train" / "c0" / "0.jpg").write_bytes(b"no image")
    assert call("data", "check", "photos") == 0
    assert call("data", "prepare", "photos", "--out", "s", "--rows", "8", "--json") == 0
    told = json.loads(capsys.readouterr().out.partition("be.\n")[2])
    assert told["shards"] == 6 and not told["whole"]
    assert told["parts"]["train"]["unreadable"][0]["id"] == "train/c0/0.jpg"
    assert call("data", "check", "s") == 1  # one image less than was listed
    assert "train/c0/0.jpg: not an image" in capsys.readouterr().out
    (photos / "train" / "c0" / "0.jpg").unlink()
    assert call("data", "prepare", "photos", "--out", "t", "--rows", "8", "--quiet") == 0
    assert call("data", "check", "t") == 0
    damage(tmp_path / "t")
    capsys.readouterr()
    assert call("data", "check", "t") == 1
    assert "train-00001.arrow is damaged" in capsys.readouterr().out
    flags = ("--size", "16", "--network", "cnn2", "--epochs", "1", "--device", "cpu", "--workers", "0")
    missing(tmp_path / "t")
    assert call("train", "--data", "t", *flags) == 2
    said = capsys.readouterr().err
    assert "train-00001.arrow is missing" in said and "--on-bad-data skip" in said and len(said.splitlines()) == 1
    assert call("train", "--data", "t", *flags, "--on-bad-data", "skip") == 0
    assert "set aside: train-00001.arrow: is missing (8 instances)" in capsys.readouterr().err
    assert call("clean", "s", *flags, "--canaries", "0", "--out", "cleaned") == 0
    assert (tmp_path / "cleaned" / "issues.csv").is_file()
    assert call("data", "prepare", "nothing", "--out", "u") == 2
    assert "no dataset of image files 'nothing', nor a folder of that name" in capsys.readouterr().err
