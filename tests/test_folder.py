"""Folders of class folders of images: read when asked for, and trained on from disk."""

import errno
import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from marvel import data as datasets
from marvel.config import Config
from marvel.data.folder import read_folder
from marvel.data.images import ImageFiles, read_image
from marvel.errors import DataError, FolderError, InvalidInput
from marvel.run import Run, train


def picture(colour: tuple[int, int, int], width: int = 40, height: int = 24) -> Image.Image:
    return Image.new("RGB", (width, height), colour)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 4)):
        for name, colour in (("red", (220, 30, 30)), ("blue", (30, 30, 220))):
            (tmp_path / part / name).mkdir(parents=True)
            for k in range(count):
                shade = tuple(int(c) for c in np.clip(np.array(colour) + rng.integers(-25, 25, 3), 0, 255))
                picture(shade).save(tmp_path / part / name / f"{k:02d}.jpg")
    return tmp_path


def test_classes_are_folders_and_the_test_set_lies_beside(folder):
    data = datasets.load(str(folder))
    assert data.classes == ("blue", "red") and data.shape == (3, 24, 24)
    assert data.y.tolist() == [0] * 12 + [1] * 12 and data.test_y.tolist() == [0] * 4 + [1] * 4
    assert data.x[0][2].float().mean() > 150 > data.x[0][0].float().mean()
    assert data.x[12][0].float().mean() > 150


def test_without_train_and_test_the_folder_itself_holds_the_classes(folder):
    data = read_folder(folder / "train", size=16)
    assert data.shape == (3, 16, 16) and data.test_x is None and len(data) == 24


def test_hidden_files_are_no_images(folder):
    """Programs leave them: previews, copies of what was opened, notes of the system on a stick."""
    before = datasets.load(str(folder))
    for name in (".preview.jpg", ".ipynb_checkpoints/00-checkpoint.jpg", "._00.jpg"):
        hidden = folder / "train" / "red" / name
        hidden.parent.mkdir(exist_ok=True)
        picture((30, 30, 220)).save(hidden)
    data = datasets.load(str(folder))
    assert data.ids == before.ids and data.set_aside == ()


def test_a_run_does_not_lie_in_its_data(folder, tmp_path_factory):
    """Its folders would be classes the next time."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "link").symlink_to(folder)
    for out in (folder, folder / "runs" / "mine", elsewhere / "link" / "run"):
        with pytest.raises(FolderError, match="lies inside the data itself.*name a folder elsewhere with --out"):
            train(settings(folder, epochs=1), out=out)
    assert sorted(path.name for path in folder.iterdir()) == ["test", "train"]


def test_the_folder_one_is_in_has_a_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert datasets.load(".").name == folder.name


def test_the_middle_is_kept_and_the_shorter_side_scaled(tmp_path):
    image = np.zeros((20, 60, 3), np.uint8)
    image[:, 20:40] = 255
    Image.fromarray(image).save(tmp_path / "wide.png")
    assert (read_image(tmp_path / "wide.png", 20) == 255).all()
    assert read_image(tmp_path / "wide.png", 10).shape == (3, 10, 10)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "I;16"])
def test_every_mode_becomes_three_channels_of_bytes(tmp_path, mode):
    path = tmp_path / ("x.tif" if mode in ("CMYK", "I;16") else "x.png")
    Image.new(mode, (8, 8)).save(path)
    x = read_image(path, 8)
    assert x.shape == (3, 8, 8) and x.dtype == torch.uint8


def test_a_damaged_image_is_named(folder):
    victim = sorted((folder / "train" / "red").iterdir())[3]
    victim.write_bytes(victim.read_bytes()[:100])
    with pytest.raises(DataError, match=victim.name):
        read_image(victim, 16)


def test_a_class_folder_that_may_not_be_read_is_no_empty_class(folder, monkeypatch):
    scandir = os.scandir

    def locked(path="."):
        if str(path).endswith("red"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    with pytest.raises(DataError, match="train/red cannot be read: Permission denied"):
        read_folder(folder)


def test_a_class_may_be_without_test_images(folder):
    shutil.rmtree(folder / "test" / "blue")
    data = read_folder(folder)
    assert data.classes == ("blue", "red") and data.test_y.tolist() == [1] * 4


def test_a_folder_that_cannot_be_meant(tmp_path):
    (tmp_path / "only").mkdir()
    picture((1, 2, 3)).save(tmp_path / "only" / "a.png")
    with pytest.raises(DataError, match="at least two classes"):
        read_folder(tmp_path)


def test_a_selection_stands_for_the_files_it_has(folder):
    images = datasets.load(str(folder)).x
    assert isinstance(images, ImageFiles)
    chosen = images[torch.tensor([3, 1])]
    assert [p.name for p in chosen.paths] == ["03.jpg", "01.jpg"] and chosen.shape == (2, 3, 24, 24)
    assert len(images[torch.arange(24) < 5]) == 5


def test_the_fingerprint_follows_names_and_lengths(folder):
    before = datasets.load(str(folder)).fingerprint()
    assert before == datasets.load(str(folder)).fingerprint()
    picture((1, 2, 3), 80, 80).save(folder / "train" / "red" / "00.jpg")
    assert datasets.load(str(folder)).fingerprint() != before


def settings(folder, **changes) -> Config:
    return Config(
        data=str(folder), size=16, network="cnn2", epochs=8, batch=8, lr=0.05, method="marvel", seed=0,
        options={"warmup": 2, "wait": 2},
    ).but(**changes)  # fmt: skip


def test_a_folder_is_trained_on_from_disk(folder):
    run = train(settings(folder, source="streamed", workers=1))
    assert run.config.source == "streamed" and run.record["final"]["test_accuracy"] == 1.0


def test_from_disk_or_from_memory_the_run_is_the_same(folder):
    ours, theirs = train(settings(folder, source="streamed", workers=0)), train(settings(folder))
    assert (ours.config.source, theirs.config.source) == ("streamed", "resident")
    for a, b in zip(ours.networks, theirs.networks, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert ours.record["curves"] == theirs.record["curves"]
    assert ours.data.fingerprint() == theirs.data.fingerprint()


def test_images_read_without_holding_them_cannot_be_resident(folder):
    with pytest.raises(InvalidInput, match="not held in memory"):
        Run(settings(folder, source="resident"), data=datasets.load(str(folder), hold=False))
