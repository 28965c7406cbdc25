"""Instances as a person sees them: the pixels and cells of the source, and no error for one that is gone."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from marvel import data as datasets
from marvel.data.origin import Origin
from marvel.data.shown import Instances, open_instances
from marvel.errors import DataError

RNG = np.random.default_rng(0)


def shown(data: datasets.Data) -> Instances:
    assert data.origin is not None and data.ids is not None
    found = open_instances(data.origin, data.origin.rows.tolist(), data.ids)
    assert found.n == len(data)
    return found


def pixels(content: bytes | None) -> np.ndarray:
    assert content is not None and content[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0")
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(3):
            image = Image.fromarray(RNG.integers(0, 255, (20, 30, 3), dtype=np.uint8))
            image.save(tmp_path / "photos" / name / f"{k}.png")
    return tmp_path / "photos"


def test_a_picture_of_a_folder_is_the_file(folder: Path) -> None:
    data = datasets.load(str(folder))
    found = shown(data)
    for index in range(6):
        assert data.ids is not None
        assert np.array_equal(pixels(found.picture(index)), np.asarray(Image.open(folder / data.ids[index])))
        assert found.fields(index) == {}
    assert pixels(found.picture(0, largest=10)).shape == (7, 10, 3)


def test_large_pictures_are_made_small_and_16_bits_are_seen(folder: Path) -> None:
    Image.fromarray(RNG.integers(0, 255, (600, 900, 3), dtype=np.uint8)).save(folder / "a" / "0.png")
    Image.fromarray(np.full((20, 30), 0x8000, np.uint16)).save(folder / "a" / "1.png")
    found = shown(datasets.load(str(folder)))
    assert pixels(found.picture(0)).shape == (341, 512, 3)
    assert (pixels(found.picture(1)) == 0x80).all()


def test_what_is_gone_or_damaged_is_none(folder: Path) -> None:
    found = shown(datasets.load(str(folder)))
    (folder / "a" / "0.png").unlink()
    (folder / "a" / "1.png").write_bytes(b"damaged")
    assert found.picture(0) is None and found.picture(1) is None and found.picture(2) is not None
    assert found.picture(99) is None and found.fields(99) == {}


@pytest.mark.parametrize("id", ["../secret.png", "/etc/x.png", "a/../../secret.png"])
def test_an_id_does_not_lead_out_of_the_folder(folder: Path, id: str) -> None:
    Image.new("RGB", (4, 4)).save(folder.parent / "secret.png")
    found = open_instances(Origin("folder", str(folder)), [0], [id])
    assert found.picture(0) is None


def test_rows_of_a_table_are_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,notes,label\n" + "".join(f'{k},"say ""{k}""",{"pq"[k % 2]}\n' for k in range(30)))
    data = datasets.load(str(path), columns="notes=text,age=number").take([9, 4])
    found = shown(data)
    assert found.fields(0) == {"age": "9", "notes": 'say "9"'} and found.fields(1)["age"] == "4"
    assert found.picture(0) is None
    path.unlink()
    gone = shown(data)
    assert "not there any more" in gone.fields(0)[""] and gone.picture(0) is None and gone.n == 2


def test_a_table_of_paths_shows_both(folder: Path) -> None:
    path = folder.parent / "t.csv"
    names = [f"photos/{c}/{k}.png" for c in "ab" for k in range(3)]
    path.write_text("file,label,by\n" + "".join(f"{name},{name[7]},me{k}\n" for k, name in enumerate(names)))
    found = shown(datasets.load(str(path)))
    assert np.array_equal(pixels(found.picture(4)), np.asarray(Image.open(folder.parent / names[4])))
    assert found.fields(4) == {"by": "me4"}


GREY = RNG.integers(0, 255, (6, 9, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 255, (6, 9, 7, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("x", "truth"),
    [
        (GREY, GREY[4]),
        (GREY[..., None], GREY[4]),
        (COLOUR, COLOUR[4]),
        (COLOUR.transpose(0, 3, 1, 2), COLOUR[4]),
        (COLOUR / 255, COLOUR[4]),
        (GREY.astype(np.int64), GREY[4]),
        ((GREY - GREY.min()) * 100.0 - 5000, ((GREY[4] - GREY.min()) / (GREY.max() - GREY.min()) * 255)),
    ],
)
def test_arrays_of_images_are_seen_in_their_range(tmp_path: Path, x: np.ndarray, truth: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(6) % 2)
    seen = pixels(shown(datasets.load(str(tmp_path / "a.npz"))).picture(4)).astype(float)
    expected = truth if truth.ndim == 3 else np.repeat(truth[..., None], 3, axis=2)
    assert np.abs(seen - expected).max() <= 1


def test_vectors_are_numbers(tmp_path: Path) -> None:
    x = RNG.normal(size=(6, 70))
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.txt").write_text("a\nb\n" * 3)
    found = shown(datasets.load(str(tmp_path / "x.npy"), labels=str(tmp_path / "y.txt")))
    fields = found.fields(2)
    assert (
        float(fields["63"]) == pytest.approx(x[2, 63], rel=1e-4) and fields["…"] == "and 6 more" and "64" not in fields
    )


def test_huggingface_shows_images_and_fields(tmp_path: Path) -> None:
    hf: Any = pytest.importorskip("datasets")
    hf.disable_progress_bars()
    images = [Image.fromarray(image) for image in COLOUR]
    features = hf.Features({"image": hf.Image(), "label": hf.Value("string"), "by": hf.Value("string")})
    rows = {"image": images, "label": ["a", "b"] * 3, "by": [f"me{k}" for k in range(6)]}
    hf.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "d")
    found = shown(datasets.load(str(tmp_path / "d")))
    assert np.array_equal(pixels(found.picture(3)), COLOUR[3]) and found.fields(3) == {"by": "me3"}


def test_long_cells_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("notes,label\n" + "".join(f"{'word ' * 1000}{k},{'pq'[k % 2]}\n" for k in range(30)))
    assert len(shown(datasets.load(str(path))).fields(0)["notes"]) == 2002


def test_an_origin_comes_back_from_its_facts() -> None:
    origin = Origin("paths", "/x/t.csv", "label", "file", rows=np.array([3, 1]))
    again = Origin.of(origin.facts(), [3, 1])
    assert again == origin and again.rows.tolist() == [3, 1] and again.at(np.array([5])).rows.tolist() == [5]
    for wrong in ({}, {"kind": "folder"}, {"kind": "folder", "path": "/x", "more": 1}, {"kind": 1, "path": "/x"}):
        with pytest.raises(DataError, match="says nothing of where data came from"):
            Origin.of(wrong)
    with pytest.raises(DataError, match="one of folder"):
        Origin("elsewhere", "/x")
    with pytest.raises(DataError, match="not of the same instances"):
        open_instances(origin, [1, 2], ["a"])
