"""Hugging Face datasets saved to disk, against what `datasets` itself says of them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from marvel import data as datasets
from marvel.errors import DataError, InvalidInput, MissingExtra

hf = pytest.importorskip("datasets")
hf.disable_progress_bars()


def pictures(n: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)) for _ in range(n)]


def of_images(n: int = 20) -> Any:
    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=["no", "yes", "never"])})
    return hf.Dataset.from_dict({"image": pictures(n), "label": [k % 2 for k in range(n)]}, features=features)


def saved(dataset: Any, path: Path) -> str:
    dataset.save_to_disk(path)
    return str(path)


def test_images_keep_their_order_and_class_names(tmp_path: Path) -> None:
    dataset = of_images().shuffle(seed=1)
    data = datasets.load(saved(dataset, tmp_path / "d"))
    assert data.classes == ("no", "yes", "never") and data.y.tolist() == dataset["label"]
    assert data.origin is not None and (data.origin.kind, data.origin.part) == ("huggingface", "train")
    for index in (0, 7, 19):
        truth = ImageOps.fit(dataset[index]["image"], (12, 12))
        assert np.array_equal(data.x[index].permute(1, 2, 0).numpy(), np.asarray(truth))
    assert "no instance of never" in " ".join(data.notes)


def test_images_may_lie_in_files_and_damaged_ones_are_set_aside(tmp_path: Path) -> None:
    files = []
    for k, picture in enumerate(pictures(10)):
        picture.save(tmp_path / f"{k}.png")
        files.append(str(tmp_path / f"{k}.png"))
    dataset = hf.Dataset.from_dict({"image": files, "label": ["ab"[k % 2] for k in range(10)]})
    (tmp_path / "3.png").write_bytes(b"")
    path = saved(dataset.cast_column("image", hf.Image()), tmp_path / "d")
    data = datasets.load(path)
    assert [one.id for one in data.set_aside] == ["3"] and len(data) == 9


def test_splits_give_a_test_set_and_missing_labels_are_set_aside(tmp_path: Path) -> None:
    train, test = of_images(20), of_images(6)
    features = train.features
    train = hf.Dataset.from_dict(
        {"image": train["image"], "label": [None if k == 4 else k % 2 for k in range(20)]}, features=features
    )
    data = datasets.load(saved(hf.DatasetDict({"train": train, "test": test}), tmp_path / "d"))
    assert len(data) == 19 and [one.id for one in data.set_aside] == ["4"]
    assert data.test_y is not None and data.test_y.tolist() == test["label"]
    truth = ImageOps.fit(test[5]["image"], (12, 12))
    assert data.test_x is not None
    assert np.array_equal(data.test_x[5].permute(1, 2, 0).numpy(), np.asarray(truth))


def test_texts_and_numbers_are_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=40)
    dataset = hf.Dataset.from_dict(
        {
            "text": [f"{['a cat sleeps', 'dogs run fast'][k // 2 % 2]} here {rng.integers(9999)}" for k in range(40)],
            "number": numbers.tolist(),
            "name": [f"n{k}" for k in range(40)],
            "kind": [k // 2 % 2 for k in range(40)],
        }
    ).cast_column("kind", hf.ClassLabel(names=["cat", "dog"]))
    data = datasets.load(saved(dataset, tmp_path / "d"), id="name")
    assert data.classes == ("cat", "dog") and data.ids == tuple(dataset["name"])
    assert data.shape[0] > 2
    np.testing.assert_allclose(data.x[:, -1], (numbers - numbers.mean()) / numbers.std(), rtol=1e-4, atol=1e-5)
    assert datasets.load(str(tmp_path / "d"), columns="text=leave").shape == (1,)


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = Path(saved(of_images().select([5, 1, 7, 2, 3, 8]), tmp_path / "d"))
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    datasets.load(str(path))
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


def test_what_cannot_be_read_gets_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = of_images()
    path = saved(hf.DatasetDict({"a": dataset, "b": dataset}), tmp_path / "splits")
    with pytest.raises(DataError, match="has the splits a, b and none called train"):
        datasets.load(path)
    two = hf.Features({"one": hf.Image(), "two": hf.Image(), "label": hf.Value("string")})
    rows = {"one": pictures(4), "two": pictures(4), "label": ["a", "b"] * 2}
    with pytest.raises(InvalidInput, match="several columns of images"):
        datasets.load(saved(hf.Dataset.from_dict(rows, features=two), tmp_path / "two"))
    path = saved(dataset, tmp_path / "d")
    with pytest.raises(InvalidInput, match="no column 'lable'; did you mean 'label'"):
        datasets.load(path, label="lable")
    with pytest.raises(InvalidInput, match="no use for paths"):
        datasets.load(path, paths="image")
    for file in Path(path).glob("*.arrow"):
        file.write_bytes(b"damaged")
    with pytest.raises(DataError, match="cannot be read as a Hugging Face dataset"):
        datasets.load(path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"needs datasets, which is not installed: pip install 'marvel-learn\[hf\]'"):
        datasets.load(path)
