"""Images in folders and in tables: what cannot be read is named and set aside, what can be converted is, and said."""

import csv
import io
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from marvel import data as datasets
from marvel.config import Config
from marvel.data.images import HELD, SUFFIXES, ImageFiles, check_images, look
from marvel.errors import DataError, InvalidInput
from marvel.run import train

RNG = np.random.default_rng(0)


def noise(height: int = 20, width: int = 30) -> Image.Image:
    return Image.fromarray(RNG.integers(0, 255, (height, width, 3), dtype=np.uint8))


@cache
def blank(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six, then one image of every kind that goes wrong, or nearly."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(6):
            noise().save(tmp_path / "photos" / name / f"{k}.png")
    cat = tmp_path / "photos" / "cat"
    (cat / "a-zero.jpg").write_bytes(b"")
    noise().save(cat / "b-cut.png")
    (cat / "b-cut.png").write_bytes((cat / "b-cut.png").read_bytes()[:-300])
    noise(200, 200).save(cat / "c-cut.jpg")
    (cat / "c-cut.jpg").write_bytes((cat / "c-cut.jpg").read_bytes()[:2000])
    (cat / "d-text.jpg").write_text("not an image")
    (cat / "e-huge.png").write_bytes(blank(10_000, 9_000))
    (cat / "f-huger.png").write_bytes(blank(20_000, 9_000))
    Image.fromarray(RNG.random((20, 30)).astype(np.float32)).save(cat / "g-float.tif")
    (cat / "h-gone.png").symlink_to(tmp_path / "nowhere.png")
    damaged = bytearray((cat / "0.png").read_bytes())
    damaged[60:90] = b"\xff" * 30
    (cat / "i-damaged.png").write_bytes(damaged)
    Image.fromarray(np.linspace(0, 65535, 600).reshape(20, 30).astype(np.uint16)).save(cat / "p-16bit.png")
    Image.new("CMYK", (30, 20), (255, 0, 0, 0)).save(cat / "q-cmyk.jpg")
    Image.fromarray(np.full((20, 30), 40_000, np.int32)).save(cat / "r-32bit.tif")
    return tmp_path / "photos"


BAD = {
    "a-zero.jpg": "the file is empty",
    "b-cut.png": "cannot be decoded",
    "c-cut.jpg": "truncated",
    "d-text.jpg": "not an image of a format that can be read",
    "e-huge.png": "more than 89,478,485 pixels",
    "f-huger.png": "more than 89,478,485 pixels",
    "g-float.tif": "floating-point pixels",
    "h-gone.png": "there is no such file",
    "i-damaged.png": "cannot be decoded",
}


def test_bad_images_are_named_and_the_run_goes_on(folder: Path, tmp_path: Path) -> None:
    config = Config(data=str(folder), epochs=1, network="cnn4", batch=8, device="cpu")
    run = train(config, tmp_path / "run")
    aside = {Path(one.id).name: one.reason for one in run.data.set_aside}
    assert set(aside) == set(BAD)
    assert all(words in aside[name] for name, words in BAD.items()), aside
    assert run.data.ids is not None
    assert set(run.data.ids) == {
        *(f"{name}/{k}.png" for name in ("cat", "dog") for k in range(6)),
        *("cat/p-16bit.png", "cat/q-cmyk.jpg", "cat/r-32bit.tif"),
    }
    assert run.folder is not None and run.folder.config is not None
    assert {one["id"] for one in run.folder.config["data"]["set_aside"]} == {f"cat/{name}" for name in BAD}
    said = " ".join(run.data.notes)
    assert "2 16-bit images became 8-bit RGB: cat/p-16bit.png, cat/r-32bit.tif" in said
    assert "1 CMYK image became 8-bit RGB: cat/q-cmyk.jpg" in said


def test_ids_and_rows_belong_to_the_pixels(folder: Path) -> None:
    data = datasets.load(str(folder), size=20)
    assert data.ids is not None and data.origin is not None
    every = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
    for index in range(len(data)):
        assert every[data.origin.rows[index]] == folder / data.ids[index]
    for index in (0, 5, 9, 12):
        truth = ImageOps.fit(Image.open(folder / data.ids[index]).convert("RGB"), (20, 20))
        assert np.array_equal(data.x[index].permute(1, 2, 0).numpy(), np.asarray(truth)), data.ids[index]
        assert data.classes[int(data.y[index])] == data.ids[index].split("/")[0]


def test_sixteen_bits_are_scaled_not_clipped(folder: Path) -> None:
    seen = look(folder / "cat" / "p-16bit.png", 20)
    assert seen.pixels is not None and seen.converted == "16-bit"
    levels = np.linspace(0, 65535, 600).reshape(20, 30).astype(np.uint16) // 256
    truth = ImageOps.fit(Image.fromarray(levels.astype(np.uint8)), (20, 20))
    assert np.abs(seen.pixels[0].numpy().astype(int) - np.asarray(truth)).max() <= 1


def test_cmyk_keeps_its_colour(folder: Path) -> None:
    seen = look(folder / "cat" / "q-cmyk.jpg", 8)
    assert seen.pixels is not None
    red, green, blue = seen.pixels.float().mean((1, 2)).tolist()
    assert red < 20 and green > 235 and blue > 235  # full cyan


@pytest.mark.parametrize("hold", [True, False])
def test_held_or_not_the_images_are_the_same(folder: Path, hold: bool) -> None:
    data, other = datasets.load(str(folder), hold=hold), datasets.load(str(folder))
    assert isinstance(data.x, ImageFiles) and (data.x.held is not None) == hold
    assert all(torch.equal(data.x[i], other.x[i]) for i in range(len(data)))
    assert data.fingerprint() == other.fingerprint() and (data.mean, data.std) == (other.mean, other.std)
    some = data.take([3, 1])
    assert torch.equal(some.x[0], data.x[3])


def test_what_does_not_fit_is_not_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HELD == 2**30
    monkeypatch.setattr("marvel.data.images.HELD", 15 * 3 * 20 * 20)
    data = datasets.load(str(folder), size=20)
    assert isinstance(data.x, ImageFiles) and data.x.held is None  # 24 files are there, however few are good
    monkeypatch.setattr("marvel.data.images.HELD", 24 * 3 * 20 * 20)
    data = datasets.load(str(folder), size=20)
    assert isinstance(data.x, ImageFiles) and data.x.held is not None


def test_the_size_is_the_median_shorter_side_and_bounded(tmp_path: Path) -> None:
    for name, sides in (("a", (10, 40, 40)), ("b", (40, 300, 40))):
        (tmp_path / name).mkdir()
        for k, side in enumerate(sides):
            noise(side, side + 7).save(tmp_path / name / f"{k}.png")
    assert datasets.load(str(tmp_path)).shape == (3, 40, 40)
    assert datasets.load(str(tmp_path), largest=32).shape == (3, 32, 32)
    assert datasets.load(str(tmp_path), size=12).shape == (3, 12, 12)


def test_reading_is_watched(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    datasets.load(str(folder), watch=lambda *what: told.append(what))
    assert told == [("reading images", k + 1, 24) for k in range(24)]


def test_upright_as_the_camera_says(tmp_path: Path) -> None:
    image = Image.fromarray(np.r_[np.zeros((10, 20, 3)), np.full((10, 20, 3), 255)].astype(np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "x.jpg", exif=exif)
    pixels = look(tmp_path / "x.jpg", 20).pixels
    assert pixels is not None and pixels[:, :5].float().mean() > 200 > 50 > pixels[:, -5:].float().mean()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.png")
    assert look(tmp_path / "x.png", 8).wrong == "there is no such file"


def test_a_name_that_is_no_text_is_set_aside(folder: Path) -> None:
    strange = os.fsencode(folder / "dog") + b"/caf\xe9.png"
    with open(strange, "wb") as file:
        noise().save(file, "PNG")
    data = datasets.load(str(folder))
    assert [one.id for one in data.set_aside if "not UTF-8" in one.reason] == ["dog/caf\\xe9.png"]
    assert data.fingerprint()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "is empty; wanted is a folder of images for each of at least two classes"),
        (["a/", "b/"], r"has folders \(a, b\) but no image in them"),
        (["1.png", "2.png"], "holds 2 images without class folders"),
        (["1.png", "list.csv"], "if list.csv says what the images are, give its path"),
        (["notes.txt"], "holds no images"),
        (["a/1.png", "b/"], "at least two classes, and has 'a' only"),
        (["all/a/1.png", "all/b/1.png"], "has 'all' only; if a and b in it are classes, give .*all"),
    ],
)
def test_a_folder_that_cannot_be_meant_gets_one_clear_line(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=message):
        datasets.load(str(tmp_path))


def test_a_folder_of_damaged_images_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match="none of the 2 images in .* can be read, e.g. a/1.png: the file is empty"):
        datasets.load(str(tmp_path))


def test_the_test_set_is_checked_too(tmp_path: Path) -> None:
    for part in ("train", "val"):
        for name in ("a", "b"):
            (tmp_path / part / name).mkdir(parents=True)
            for k in range(3):
                noise().save(tmp_path / part / name / f"{k}.png")
    (tmp_path / "val" / "b" / "1.png").write_bytes(b"")
    data = datasets.load(str(tmp_path))
    assert data.test_y is not None and data.test_y.tolist() == [0, 0, 0, 1, 1]
    assert [one.id for one in data.set_aside] == ["val/b/1.png"]
    assert data.ids is not None and data.ids[0] == "train/a/0.png" and data.origin is not None
    assert data.origin.part == "train"


# ---------------------------------------------------------------------------------------------- tables of paths


def listed(path: Path, rows: list[tuple[Any, ...]], heading: tuple[str, ...] = ("file", "label")) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([heading, *rows])
    return str(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for k in range(8):
        noise().save(tmp_path / "images" / f"{k}.png")
    return tmp_path / "images"


def test_a_table_names_images_from_its_own_folder(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"images/{k}.png", "pq"[k % 2]) for k in range(6)]
    rows += [(str(images / "6.png"), "p"), ("images\\7.png", "q")]
    path = listed(images.parent / "t.csv", rows)
    monkeypatch.chdir("/")
    data = datasets.load(path)
    assert data.ids == tuple(name for name, _ in rows) and data.y.tolist() == [0, 1] * 4
    assert data.origin is not None and (data.origin.kind, data.origin.paths) == ("paths", "file")
    for index in range(8):
        truth = ImageOps.fit(Image.open(images / f"{index}.png"), (20, 20))
        assert np.array_equal(data.x[index].permute(1, 2, 0).numpy(), np.asarray(truth))


def test_rows_without_an_image_are_named_and_set_aside(images: Path) -> None:
    rows = [(f"images/{k}.png", "pq"[k % 2], f"id{k}") for k in range(6)]
    rows += [("images/nope.png", "p", "id6"), ("", "q", "id7"), ("images/1.png", "p", "id8")]
    rows += [("images/../images/2.png", "p", "id9"), ("images/6.png", "", "id10"), ("images/", "p", "id11")]
    path = listed(images.parent / "t.csv", rows, ("file", "label", "name"))
    data = datasets.load(path, id="name")
    assert {one.id: one.reason for one in data.set_aside} == {
        "id6": "there is no such file",
        "id7": "no image is named",
        "id8": "the same image is in row 1, labelled 'q'",
        "id9": "the same image is in row 2",
        "id10": "no label",
        "id11": "there is no such file",
    }
    assert data.ids == tuple(f"id{k}" for k in range(6))


def test_an_image_is_the_same_by_its_whole_path(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"images/{k}.png", "pq"[k % 2]) for k in range(6)]
    listed(
        images.parent / "t.csv", [*rows, (str(images / "1.png"), "q"), (f"../{images.parent.name}/images/2.png", "p")]
    )
    monkeypatch.chdir(images.parent)
    data = datasets.load("t.csv")
    assert [one.reason for one in data.set_aside] == ["the same image is in row 1", "the same image is in row 2"]


def test_a_table_whose_images_are_elsewhere_says_where_it_looked(tmp_path: Path) -> None:
    path = listed(tmp_path / "t.csv", [(f"{k}.png", "pq"[k % 2]) for k in range(6)])
    with pytest.raises(
        DataError, match=f"none of the 6 images can be read, e.g. 0.png: .*folder of the table, {tmp_path}"
    ):
        datasets.load(path)


def test_which_column_holds_the_paths(images: Path) -> None:
    rows = [(f"images/{k}.png", f"images/{7 - k}.png", "pq"[k % 2]) for k in range(8)]
    path = listed(images.parent / "t.csv", rows, ("left", "right", "label"))
    with pytest.raises(InvalidInput, match="several columns of image files: add --paths and one of left, right"):
        datasets.load(path)
    assert datasets.load(path, paths="right").ids == tuple(right for _, right, _ in rows)
    with pytest.raises(InvalidInput, match="no column 'rigth'; did you mean 'right'"):
        datasets.load(path, paths="rigth")
    with pytest.raises(InvalidInput, match="columns are for tables of features"):
        datasets.load(path, paths="left", columns="right=leave")


def test_a_split_of_a_table_of_images_is_its_test_set(images: Path) -> None:
    rows = [(f"images/{k}.png", "pq"[k % 2], "test" if k > 5 else "train") for k in range(8)]
    (images / "7.png").write_bytes(b"")
    data = datasets.load(listed(images.parent / "t.csv", rows, ("file", "label", "split")))
    assert data.ids == tuple(name for name, _, part in rows if part == "train")
    assert data.test_x is not None and len(data.test_x) == 1
    truth = ImageOps.fit(Image.open(images / "6.png"), (20, 20))
    assert np.array_equal(data.test_x[0].permute(1, 2, 0).numpy(), np.asarray(truth))
    assert [(one.id, one.row) for one in data.set_aside] == [("images/7.png", None)]


def test_a_huge_list_is_interrupted_at_once(tmp_path: Path) -> None:
    """Ctrl-C during reading does not wait for all images to be decoded."""
    noise().save(tmp_path / "x.png")

    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    before = os.times().user
    with pytest.raises(KeyboardInterrupt):
        check_images([tmp_path / "x.png"] * 50_000, hold=False, watch=stop)
    assert os.times().user - before < 5
