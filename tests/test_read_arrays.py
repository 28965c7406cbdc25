"""`.npz` and `.npy` files of one's own: what has no label is set aside, and nothing is ever unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from marvel import data as datasets
from marvel.errors import DataError, InvalidInput

X = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
Y = np.array(["ash", "birch", "cedar"])[np.arange(30) % 3]


def saved(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def test_rows_and_ids_of_an_npz(tmp_path: Path) -> None:
    y = Y.copy()
    y[[4, 9]] = ["", "NaN"]
    x = X.copy()
    x[12, 3] = np.inf
    data = datasets.load(saved(tmp_path / "a.npz", x=x, y=y, name=np.arange(30) + 100), id="name")
    assert {one.id: one.reason for one in data.set_aside} == {
        "104": "no label", "109": "no label", "112": "holds NaN or infinity",
    }  # fmt: skip
    kept = [k for k in range(30) if k not in (4, 9, 12)]
    assert data.origin is not None and data.origin.rows.tolist() == kept and data.origin.label == "y"
    assert data.ids == tuple(str(100 + k) for k in kept)
    assert np.array_equal(data.x, X[kept])
    assert [data.classes[k] for k in data.y] == Y[kept].tolist()


def test_labels_of_nan_are_missing_and_whole_numbers_stay_whole(tmp_path: Path) -> None:
    y = (np.arange(30) % 3).astype(np.float64)
    y[5] = np.nan
    data = datasets.load(
        saved(tmp_path / "a.npz", x=X, y=y, classes=np.array(["a", "b", "c"]), clean=np.arange(30) % 3)
    )
    assert data.classes == ("a", "b", "c") and len(data) == 29 and data.set_aside[0].id == "5"
    assert data.clean is not None and np.array_equal(data.clean, np.delete(np.arange(30) % 3, 5))
    with pytest.raises(DataError, match="whole numbers or strings, given float64"):
        datasets.load(saved(tmp_path / "a.npz", x=X, y=y / 2))


@pytest.mark.parametrize(("x", "y"), [("X", "Y"), ("images", "labels"), ("embeddings", "target"), ("arr_0", "arr_1")])
def test_usual_names_of_arrays(tmp_path: Path, x: str, y: str) -> None:
    data = datasets.load(saved(tmp_path / "a.npz", **{x: X, y: Y}))
    assert np.array_equal(data.x, X) and data.origin is not None and data.origin.label == y


def test_the_array_of_labels_can_be_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=X, species=Y)
    assert datasets.load(path, label="species").classes == ("ash", "birch", "cedar")
    with pytest.raises(InvalidInput, match="no array 'specis'; did you mean 'species'"):
        datasets.load(path, label="specis")
    with pytest.raises(DataError, match="missing y"):
        datasets.load(path)
    with pytest.raises(InvalidInput, match="no array 'name': it has x, species"):
        datasets.load(path, label="species", id="name")


def test_an_npy_file_takes_its_labels_from_any_other(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    y = Y.copy()
    y[7] = ""
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "y.npz", y=y)
    (tmp_path / "y.txt").write_text("\n".join(y) + "\n")
    (tmp_path / "y.csv").write_text("species\n" + "\n".join(f'"{label}"' for label in y))
    (tmp_path / "bare.csv").write_text("\n".join(f'"{label}"' for label in y))
    (tmp_path / "two.csv").write_text("row,species\n" + "\n".join(f"{k},{label}" for k, label in enumerate(y)))
    pyarrow.parquet.write_table(pyarrow.table({"label": [v or None for v in y.tolist()]}), tmp_path / "y.parquet")
    for name in ("y.npy", "y.npz", "y.txt", "y.csv", "bare.csv", "y.parquet", "two.csv"):
        label = "species" if name == "two.csv" else None
        data = datasets.load(str(tmp_path / "x.npy"), labels=str(tmp_path / name), label=label)
        assert [one.id for one in data.set_aside] == ["7"], name
        assert np.array_equal(data.x, np.delete(X, 7, axis=0))
        assert [data.classes[k] for k in data.y] == np.delete(Y, 7).tolist()
        assert data.origin is not None and data.origin.labels == str((tmp_path / name).resolve())


def test_npy_files_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)

    def refused(message: str, kind: type[Exception] = DataError, **options: Any) -> None:
        with pytest.raises(kind, match=message):
            datasets.load(str(path), **options)

    refused("--labels FILE says where they are", InvalidInput)
    refused("no file of labels", InvalidInput, labels=str(tmp_path / "no.npy"))
    (tmp_path / "y.xml").write_text("")
    refused("labels come from", InvalidInput, labels=str(tmp_path / "y.xml"))
    (tmp_path / "y.txt").write_bytes(b"caf\xe9\n" * 30)
    refused("not UTF-8: byte 0xe9 in line 1", labels=str(tmp_path / "y.txt"))
    np.save(tmp_path / "y.npy", Y[:3])
    refused("y has 3 labels for 30 instances", labels=str(tmp_path / "y.npy"))
    np.save(tmp_path / "y.npy", np.array([None] * 30), allow_pickle=True)
    refused("never unpickled", labels=str(tmp_path / "y.npy"))
    np.save(tmp_path / "y.npy", np.array([""] * 30))
    refused("no instance has a label", labels=str(tmp_path / "y.npy"))
    np.save(tmp_path / "y.npy", Y)
    np.save(path, np.array([object()] * 3), allow_pickle=True)
    refused("never unpickled", labels=str(tmp_path / "y.npy"))
    np.save(path, np.float32(3))
    refused("holds one number", labels=str(tmp_path / "y.npy"))
    path.write_text("1,2,3")
    refused("not an .npy file; numpy.save writes one, and a pickle", labels=str(tmp_path / "y.npy"))
    path.write_bytes(b"\x93NUMPY")
    refused("not a readable .npy", labels=str(tmp_path / "y.npy"))
    with path.open("wb") as file:
        np.savez(file, x=X)
    refused("is an .npz archive", labels=str(tmp_path / "y.npy"))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X[:0], "y": Y[:0]}, "there are no instances in it"),
        ({"x": X, "y": np.zeros((30, 1))}, r"given \(30, 1\): save y.ravel\(\)"),
        ({"x": X, "y": np.eye(3)[np.arange(30) % 3]}, r"given \(30, 3\): .*save y.argmax\(axis=1\)"),
        ({"x": X, "y": Y, "names": np.arange(30)}, "not known: names; leave it out, or --id names the array of ids"),
    ],
)
def test_arrays_of_other_shapes_get_advice(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        datasets.load(saved(tmp_path / "a.npz", **arrays))


def test_one_class_and_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least 2 classes"):
        datasets.load(saved(tmp_path / "a.npz", x=X, y=np.zeros(30, int)))
    with pytest.raises(DataError, match="30 different labels for 30 instances are no classes"):
        datasets.load(saved(tmp_path / "a.npz", x=X, y=np.arange(30)))


def test_a_blank_line_of_a_label_file_is_an_instance_without_a_label(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)))
    labels = ["cat" if k % 2 else "dog" for k in range(40)]
    labels[20] = ""
    for heading, end in (("label\n", ""), ("", ""), ("label\n", "\n\n")):
        (tmp_path / "y.csv").write_text(heading + "\n".join(labels) + end)
        data = datasets.load(str(tmp_path / "x.npy"), labels=str(tmp_path / "y.csv"))
        assert data.classes == ("cat", "dog") and [one.row for one in data.set_aside] == [20]
        assert [data.classes[y] for y in data.y] == [label for label in labels if label]
