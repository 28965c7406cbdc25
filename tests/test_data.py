"""Readers on byte-exact miniature files, `Data`, arrays, and the real data where it is present."""

import gzip
import hashlib
import json
import lzma
import os
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from marvel.data import DATASETS, Data, from_arrays, load
from marvel.data.cifar import (
    CIFAR10,
    CIFAR100,
    aquatic_fish,
    cat_dog,
    cifar10,
    cifar10n_aggregate,
    cifar10n_worst,
    cifar100,
    cifar100_coarse,
    read_mosaic,
    truck_car,
)
from marvel.data.cifar_pickle import read_cifar_pickle
from marvel.data.fashion_mnist import boot_sneaker, fashion_mnist, read_idx
from marvel.errors import DataError, InvalidInput, UnknownName

ROWS = 64  # a miniature file: 8 x 8 tiles


@pytest.fixture(autouse=True)
def no_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MARVEL_DATA", raising=False)


# ---------------------------------------------------------------------------------------------- miniature files


class Python2Pickle:
    """The opcodes Python 2's cPickle wrote for the official CIFAR files: byte strings, and puts after everything."""

    def __init__(self) -> None:
        self.puts = 0
        self.out = b"\x80\x02"

    def put(self) -> None:
        self.puts += 1
        self.out += b"q" + bytes([self.puts]) if self.puts < 256 else b"r" + struct.pack("<I", self.puts)

    def text(self, text: str) -> None:
        self.out += b"U" + bytes([len(text)]) + text.encode("ascii")
        self.put()

    def numbers(self, values: list[int]) -> None:
        self.out += b"]"
        self.put()
        for start in range(0, len(values), 1000):
            self.out += b"(" + b"".join(b"K" + bytes([v]) for v in values[start : start + 1000]) + b"e"

    def array(self, a: np.ndarray) -> None:
        for part in (
            b"cnumpy.core.multiarray\n_reconstruct\n",
            b"cnumpy\nndarray\n",
            b"K\x00\x85U\x01b\x87R",
            b"(K\x01M" + struct.pack("<H", a.shape[0]) + b"M" + struct.pack("<H", a.shape[1]) + b"\x86cnumpy\ndtype\n",
            b"U\x02u1K\x00K\x01\x87R",
        ):
            self.out += part
            self.put()
        self.out += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", a.nbytes)
        self.out += a.tobytes() + b"tb"

    def dump(self, content: dict[str, Any]) -> bytes:
        self.out += b"}"
        self.put()
        self.out += b"("
        for key, value in content.items():
            self.text(key)
            if isinstance(value, str):
                self.text(value)
            elif isinstance(value, np.ndarray):
                self.array(value)
            else:
                self.numbers(value)
        return self.out + b"u."


DUMPS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "python2": lambda content: Python2Pickle().dump(content),
    "protocol2": lambda content: pickle.dumps(content, protocol=2),
    "protocol4": lambda content: pickle.dumps(content, protocol=4),
}


def pixels(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)


def labels(rows: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(rows) % classes).astype(np.uint8)


def write_pickles(root: Path, form: str = "python2") -> None:
    dump = DUMPS[form]
    ten, hundred = root / CIFAR10.folder, root / CIFAR100.folder
    ten.mkdir(parents=True)
    hundred.mkdir(parents=True)
    for i, name in enumerate((*CIFAR10.train, CIFAR10.test)):
        content = {
            "batch_label": name,
            "labels": labels(ROWS, 10, i).tolist(),
            "data": pixels(ROWS, i).reshape(ROWS, -1),
        }
        (ten / name).write_bytes(dump(content))
    for i, (name, rows) in enumerate((("train", 5 * ROWS), ("test", ROWS))):
        content = {
            "batch_label": name,
            "fine_labels": labels(rows, 100, i).tolist(),
            "coarse_labels": labels(rows, 20, i).tolist(),
            "data": pixels(rows, i).reshape(rows, -1),
        }
        (hundred / name).write_bytes(dump(content))


def write_mosaic(path: Path, images: np.ndarray) -> None:
    from PIL import Image

    side = int(len(images) ** 0.5)
    canvas = np.zeros((32 * side, 32 * side, 3), np.uint8)
    for i, image in enumerate(images):
        top, left = 32 * (i // side), 32 * (i % side)
        canvas[top : top + 32, left : left + 32] = image.transpose(1, 2, 0)
    Image.fromarray(canvas).save(path, lossless=True, quality=0, method=0)


def write_packed(root: Path) -> None:
    ten, hundred = root / "cifar10", root / "cifar100"
    ten.mkdir(parents=True)
    hundred.mkdir()
    for i in range(5):
        write_mosaic(ten / f"train_{i + 1}.webp", pixels(ROWS, i))
        write_mosaic(hundred / f"train_{i + 1}.webp", pixels(5 * ROWS, 0)[i * ROWS : (i + 1) * ROWS])
    write_mosaic(ten / "test.webp", pixels(ROWS, 5))
    write_mosaic(hundred / "test.webp", pixels(ROWS, 1))
    train = np.concatenate([labels(ROWS, 10, i) for i in range(5)])
    np.savez(ten / "labels.npz", train=train, test=labels(ROWS, 10, 5))
    worse = (train + (np.arange(5 * ROWS) % 5 < 2)) % 10
    aggregate = (train + (np.arange(5 * ROWS) % 10 < 1)) % 10
    np.savez(ten / "human_labels.npz", clean_label=train, worse_label=worse, aggre_label=aggregate)
    np.savez(
        hundred / "labels.npz",
        train_fine=labels(5 * ROWS, 100, 0),
        train_coarse=labels(5 * ROWS, 20, 0),
        test_fine=labels(ROWS, 100, 1),
        test_coarse=labels(ROWS, 20, 1),
    )


# ---------------------------------------------------------------------------------------------- CIFAR


@pytest.mark.parametrize("form", [*DUMPS, "packed"])
def test_cifar_is_read_from_every_layout(tmp_path: Path, form: str) -> None:
    write_packed(tmp_path) if form == "packed" else write_pickles(tmp_path, form)
    data = cifar10(tmp_path, rows=ROWS)
    assert (data.name, data.augment, data.shape, len(data)) == ("cifar10", "crop-flip", (3, 32, 32), 5 * ROWS)
    assert data.mean == (0.4914, 0.4824, 0.4467)
    assert data.std == (0.2471, 0.2435, 0.2616)
    assert np.array_equal(data.x.numpy(), np.concatenate([pixels(ROWS, i) for i in range(5)]))
    assert np.array_equal(data.y.numpy(), np.concatenate([labels(ROWS, 10, i) for i in range(5)]))
    assert data.test_x is not None and data.test_y is not None
    assert np.array_equal(data.test_x.numpy(), pixels(ROWS, 5))
    assert np.array_equal(data.test_y.numpy(), labels(ROWS, 10, 5))

    fine, coarse = cifar100(tmp_path, rows=ROWS), cifar100_coarse(tmp_path, rows=ROWS)
    assert np.array_equal(fine.x.numpy(), pixels(5 * ROWS, 0))
    assert np.array_equal(fine.y.numpy(), labels(5 * ROWS, 100, 0))
    assert np.array_equal(coarse.y.numpy(), labels(5 * ROWS, 20, 0))
    assert (len(fine.classes), len(coarse.classes)) == (100, 20)
    assert (fine.classes[0], fine.classes[99], coarse.classes[0]) == ("apple", "worm", "aquatic_mammals")


@pytest.mark.parametrize(
    ("problem", "first", "second", "whole"),
    [(truck_car, 9, 1, cifar10), (cat_dog, 3, 5, cifar10), (aquatic_fish, 0, 1, cifar100_coarse)],
)
def test_binary_problems_number_the_first_named_class_0(
    tmp_path: Path, problem: Callable[..., Data], first: int, second: int, whole: Callable[..., Data]
) -> None:
    write_packed(tmp_path)
    binary, full = problem(tmp_path, rows=ROWS), whole(tmp_path, rows=ROWS)
    keep = (full.y == first) | (full.y == second)
    assert torch.equal(binary.x, full.x[keep])
    assert torch.equal(binary.y, (full.y[keep] == second).long())
    assert binary.name == problem.__name__.replace("_", "-")
    assert (binary.mean, binary.augment) == (full.mean, "crop-flip")


def test_human_labels_are_given_labels_with_their_clean_ones(tmp_path: Path) -> None:
    write_packed(tmp_path)
    true = cifar10(tmp_path, rows=ROWS).y
    for problem, rate in ((cifar10n_worst, 0.4), (cifar10n_aggregate, 0.1)):
        data = problem(tmp_path, rows=ROWS)
        assert data.clean is not None
        assert torch.equal(data.clean, true)
        assert (data.y != data.clean).float().mean().item() == pytest.approx(rate)
    with np.load(tmp_path / "cifar10" / "human_labels.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "cifar10" / "human_labels.npz", **{**arrays, "clean_label": np.roll(arrays["clean_label"], 1)})
    with pytest.raises(DataError, match="another order"):
        cifar10n_worst(tmp_path, rows=ROWS)


class Hostile:
    """What an attacker puts into a pickle."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_and_never_executed(tmp_path: Path, protocol: int) -> None:
    target, path = tmp_path / "executed", tmp_path / "batch"
    content = {"labels": [0] * ROWS, "data": Hostile(target)}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    with pytest.raises(DataError, match="refused"):
        read_cifar_pickle(path, {"labels": 10}, ROWS)
    assert not target.exists()
    pickle.loads(path.read_bytes())
    assert target.exists(), "the file was hostile indeed"


def good() -> dict[str, Any]:
    return {"labels": labels(ROWS, 10).tolist(), "data": pixels(ROWS, 0).reshape(ROWS, -1)}


@pytest.mark.parametrize(
    "change",
    [
        {"data": pixels(ROWS - 1, 0).reshape(ROWS - 1, -1)},
        {"data": pixels(ROWS, 0).reshape(ROWS * 2, -1)},
        {"data": pixels(ROWS, 0).reshape(ROWS, -1).astype(np.int16)},
        {"data": np.asfortranarray(pixels(ROWS, 0).reshape(ROWS, -1))},
        {"data": [1, 2, 3]},
        {"data": np.array([{}], dtype=object)},
        {"labels": [0] * (ROWS - 1)},
        {"labels": [10] * ROWS},
        {"labels": [-1] * ROWS},
        {"labels": [True] * ROWS},
        {"labels": ["0"] * ROWS},
        {"labels": None},
    ],
)
def test_a_pickle_of_another_shape_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(good() | change, protocol=2))
    with pytest.raises(DataError, match="batch"):
        read_cifar_pickle(path, {"labels": 10}, ROWS)


@pytest.mark.parametrize("form", list(DUMPS))
def test_a_cut_pickle_is_refused_wherever_it_is_cut(tmp_path: Path, form: str) -> None:
    path, whole = tmp_path / "batch", DUMPS[form](good())
    for length in [*range(0, 400, 7), len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            read_cifar_pickle(path, {"labels": 10}, ROWS)


@pytest.mark.parametrize("start", [b"\x80\x02", b"", b"(dp0\n", b"\x80\x04\x95"])
def test_bytes_that_are_no_pickle_are_refused(tmp_path: Path, start: bytes) -> None:
    path, rng = tmp_path / "batch", np.random.default_rng(0)
    for _ in range(100):
        path.write_bytes(start + rng.bytes(60))
        with pytest.raises(DataError):
            read_cifar_pickle(path, {"labels": 10}, ROWS)


def test_a_file_far_too_large_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(DataError, match="too large"):
        read_cifar_pickle(path, {"labels": 10}, ROWS)


def test_deeply_nested_keys_do_not_overflow(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02})" + b"\x85" * 300_000 + b"K\x00s.")
    with pytest.raises(DataError, match="not text"):
        read_cifar_pickle(path, {"labels": 10}, ROWS)


def test_missing_files_say_what_was_looked_for_and_how_to_get_it(tmp_path: Path) -> None:
    for name in ("cifar10", "cifar100", "fashion-mnist", "cifar10n-worst"):
        with pytest.raises(DataError) as caught:
            load(name, root=tmp_path)
        message = str(caught.value)
        assert "\n" not in message
        assert str(tmp_path) in message
        assert "--root or MARVEL_DATA" in message
        assert "github" in message if name == "cifar10n-worst" else "download=True" in message


def test_an_incomplete_folder_is_not_taken_for_the_dataset(tmp_path: Path) -> None:
    write_pickles(tmp_path)
    (tmp_path / CIFAR10.folder / "data_batch_3").unlink()
    with pytest.raises(DataError, match="CIFAR-10 not found"):
        cifar10(tmp_path, rows=ROWS)
    write_packed(tmp_path / "other")
    (tmp_path / "other" / "cifar10").rename(tmp_path / "cifar10")
    assert len(cifar10(tmp_path, rows=ROWS)) == 5 * ROWS


def test_a_damaged_packed_folder_is_said(tmp_path: Path) -> None:
    write_packed(tmp_path)
    with pytest.raises(DataError, match="expected 9 x 9 tiles"):
        read_mosaic(tmp_path / "cifar10" / "test.webp", 81)
    with pytest.raises(DataError, match="'train' must be 405 whole numbers"):
        cifar10(tmp_path, rows=81)
    mosaic = tmp_path / "cifar10" / "train_2.webp"
    mosaic.write_bytes(mosaic.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"train_2.webp: not a readable WebP"):
        cifar10(tmp_path, rows=ROWS)
    np.savez(tmp_path / "cifar10" / "labels.npz", train=np.full(5 * ROWS, 10), test=np.zeros(ROWS, int))
    with pytest.raises(DataError, match=r"0\.\.9"):
        cifar10(tmp_path, rows=ROWS)
    np.savez(tmp_path / "cifar10" / "labels.npz", y=np.zeros(ROWS))
    with pytest.raises(DataError, match="no array 'train', only y"):
        cifar10(tmp_path, rows=ROWS)


def test_the_root_is_the_argument_else_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "one", "")
    monkeypatch.setenv("MARVEL_DATA", str(tmp_path / "one"))
    assert len(fashion_mnist(train=50, test=20)) == 50
    with pytest.raises(DataError, match="two"):
        fashion_mnist(tmp_path / "two", train=50, test=20)
    monkeypatch.delenv("MARVEL_DATA")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(DataError, match=r"home/\.cache/marvel"):
        fashion_mnist(train=50, test=20)


# ---------------------------------------------------------------------------------------------- Fashion-MNIST


def fashion_arrays(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    images = np.random.default_rng(seed).integers(0, 256, (n, 28, 28), dtype=np.uint8)
    return images, labels(n, 10, seed)


def write_fashion(root: Path, suffix: str, folder: str = "FashionMNIST/raw") -> None:
    (root / folder).mkdir(parents=True)
    compress: Callable[[bytes], bytes] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    for part, n, seed in (("train", 50, 0), ("t10k", 20, 1)):
        images, y = fashion_arrays(n, seed)
        header = b"\x00\x00\x08\x03" + struct.pack(">3I", n, 28, 28)
        (root / folder / f"{part}-images-idx3-ubyte{suffix}").write_bytes(compress(header + images.tobytes()))
        header = b"\x00\x00\x08\x01" + struct.pack(">I", n)
        (root / folder / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(compress(header + y.tobytes()))


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("folder", ["FashionMNIST/raw", "fashion_mnist"])
def test_fashion_mnist_is_read_from_every_layout(tmp_path: Path, suffix: str, folder: str) -> None:
    write_fashion(tmp_path, suffix, folder)
    data = fashion_mnist(tmp_path, train=50, test=20)
    x, y = fashion_arrays(50, 0)
    assert np.array_equal(data.x.numpy()[:, 0], x)
    assert np.array_equal(data.y.numpy(), y)
    assert (data.shape, data.augment, data.classes[9]) == ((1, 28, 28), "none", "Ankle boot")
    assert data.mean[0] == pytest.approx(x.mean() / 255)
    assert data.std[0] == pytest.approx(x.std() / 255)
    assert data.test_x is not None and data.test_x.shape == (20, 1, 28, 28)

    pair = boot_sneaker(tmp_path, train=50, test=20)
    keep = (y == 9) | (y == 7)
    assert np.array_equal(pair.y.numpy(), (y[keep] == 7).astype(int))
    assert pair.classes == ("boot", "sneaker")
    assert pair.mean[0] == pytest.approx(x[keep].mean() / 255)


def test_idx_files_are_checked_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = b"\x00\x00\x08\x01" + struct.pack(">I", 5) + b"abcde"
    path.write_bytes(content)
    assert read_idx(path, (5,)).tobytes() == b"abcde"
    for wrong, message in (
        (content[:-1], "expected 13 bytes, found 12"),
        (content + b"f", "found more"),
        (b"\x00\x00\x0d" + content[3:], "not an idx file"),
        (content[:4] + struct.pack(">I", 6) + b"abcdef", "not an idx file"),
        (b"", "not an idx file"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=message):
            read_idx(path, (5,))
    for suffix, packed in ((".gz", gzip.compress(content)), (".xz", lzma.compress(content))):
        for wrong in (packed[:-6], b"no archive", packed[:10] + b"\xff" * 10 + packed[20:]):
            path = tmp_path / f"file{suffix}"
            path.write_bytes(wrong)
            with pytest.raises(DataError):
                read_idx(path, (50,))


# ---------------------------------------------------------------------------------------------- digits and names


def test_digits_has_a_fixed_stratified_split() -> None:
    data = load("digits")
    assert data.test_x is not None and data.test_y is not None
    assert (len(data), len(data.test_x), data.shape) == (1257, 540, (1, 8, 8))
    assert data.x.dtype == torch.float32
    assert (data.x.min(), data.x.max()) == (0, 1)
    train, test = torch.bincount(data.y), torch.bincount(data.test_y)
    assert ((test - (train + test) * 540 / 1797).abs() < 1).all()
    everything = {x.numpy().tobytes() for x in torch.cat((data.x, data.test_x))}
    assert len(everything) == 1797
    assert data.fingerprint() == load("digits").fingerprint()
    assert data.fingerprint().startswith("64da7bf94b27")


def test_data_is_a_line_to_look_at() -> None:
    x, y = np.zeros((6, 2), dtype=np.float32) + np.arange(6)[:, None], np.arange(6) % 2
    assert repr(from_arrays(x, y, name="mine")) == "Data('mine', 6 instances of float32 (2,), 2 classes, no test set)"
    tested = repr(from_arrays(x, y, x[:4], y[:4], name="mine"))
    assert tested == "Data('mine', 6 instances of float32 (2,), 2 classes, 4 to test with)"


def test_an_unknown_name_says_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'cifar-10', nor a file or folder of that name; did you mean 'cifar10'"):
        load("cifar-10")
    for path in ("mine.csv", "photos/train", "~/nowhere.npz"):
        with pytest.raises(DataError, match="there is no file or folder .*(mine.csv|photos/train|/nowhere.npz)"):
            load(path)
    assert set(DATASETS) >= {"digits", "boot-sneaker", "truck-car", "cat-dog", "aquatic-fish", "cifar10", "cifar100"}


# ---------------------------------------------------------------------------------------------- Data


def small(n: int = 30, classes: int = 3, **more: Any) -> Data:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (n, 3, 4, 4), dtype=np.uint8))
    y = torch.arange(n) % classes
    return Data("small", x, y, tuple("abcdef"[:classes]), x[:6].clone(), y[:6].clone(), **more)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("a",)}, "at least 2 classes"),
        ({"classes": ("a", "b", "a")}, "differ from one another"),
        ({"x": torch.zeros(30, 3, 4, 4, dtype=torch.int64)}, "given int64"),
        ({"x": torch.zeros(30, 8, dtype=torch.uint8)}, "given uint8"),
        ({"x": torch.full((30, 3, 4, 4), float("nan"))}, "NaN or infinity in 30 of 30"),
        ({"x": torch.zeros(0, 3, 4, 4)}, "empty"),
        ({"y": torch.zeros(29, dtype=torch.int64)}, "29 labels for 30 instances"),
        ({"y": torch.zeros(30)}, "int64 labels"),
        ({"y": torch.full((30,), 3)}, r"0\.\.2 \(3 classes\), given 3\.\.3"),
        ({"y": torch.full((30,), -1)}, r"given -1\.\.-1"),
        ({"clean": torch.full((30,), 7)}, "clean must lie"),
        ({"test_y": None}, "come together"),
        ({"test_x": torch.zeros(6, 3, 5, 4, dtype=torch.uint8)}, "like the training ones"),
        ({"test_y": torch.zeros(5, dtype=torch.int64)}, "5 labels for 6"),
        ({"augment": "mixup"}, "augment is one of none, crop-flip"),
        ({"x": torch.zeros(30, 5), "test_x": None, "test_y": None, "augment": "crop-flip"}, "for images"),
        ({"mean": (0.5,), "std": (0.5,)}, "one number per channel"),
        ({"mean": (0.5,) * 3, "std": (0.0,) * 3}, "std must be positive"),
    ],
)
def test_data_that_cannot_be_meant_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(small(), **change)


def test_mean_and_std_are_those_of_the_training_set() -> None:
    data = small()
    x = data.x.numpy() / 255
    np.testing.assert_allclose(data.mean, x.mean((0, 2, 3)))
    np.testing.assert_allclose(data.std, x.std((0, 2, 3)))
    vectors = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    vectors[:, 2] = 5
    data = Data("vectors", vectors, torch.arange(30) % 2, ("a", "b"))
    np.testing.assert_allclose(data.mean, vectors.double().mean(0))
    assert data.std[2] == 1
    assert data.std[0] == pytest.approx(float(vectors[:, 0].double().std(correction=0)))


def test_the_fingerprint_is_of_the_content() -> None:
    data = small()
    assert data.fingerprint() == small().fingerprint() == replace(data, name="other").fingerprint()
    changed = data.x.clone()
    changed[7, 1, 2, 3] ^= 1
    others = (
        replace(data, x=changed),
        replace(data, y=data.y.flip(0)),
        replace(data, classes=("a", "b", "z")),
        replace(data, test_x=None, test_y=None),
        replace(data, clean=data.y.flip(0)),
    )
    assert len({data.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_only_keeps_the_order_and_numbers_as_given() -> None:
    data = small()
    two = data.only((2, 0))
    keep = (data.y == 2) | (data.y == 0)
    assert torch.equal(two.x, data.x[keep])
    assert torch.equal(two.y, torch.where(data.y[keep] == 2, 0, 1))
    assert two.classes == ("c", "a")
    assert two.test_y is not None and two.test_y.tolist() == [1, 0, 1, 0]
    assert data.only((0, 1), ("x", "y")).classes == ("x", "y")
    for wrong in ((0, 3), (1, 1), (-1, 0)):
        with pytest.raises(InvalidInput, match="different numbers of 0..2"):
            data.only(wrong)
    with pytest.raises(InvalidInput, match="2 classes were chosen and 1 names"):
        data.only((0, 1), ("x",))


def test_only_drops_instances_whose_clean_label_is_elsewhere() -> None:
    data = small(clean=torch.arange(30).flip(0) % 3)
    assert data.clean is not None
    two = data.only((0, 1))
    keep = (data.y < 2) & (data.clean < 2)
    assert torch.equal(two.x, data.x[keep])
    assert two.clean is not None and torch.equal(two.clean, data.clean[keep])


def test_take_is_a_subset_in_the_order_given() -> None:
    data = small(clean=torch.arange(30).flip(0) % 3)
    for index in (torch.tensor([5, 2, 9]), np.array([5, 2, 9]), [5, 2, 9]):
        part = data.take(index)
        assert torch.equal(part.x, data.x[[5, 2, 9]])
        assert torch.equal(part.y, data.y[[5, 2, 9]])
        assert part.clean is not None and data.clean is not None
        assert torch.equal(part.clean, data.clean[[5, 2, 9]])
        assert part.mean == data.mean
    with pytest.raises(InvalidInput, match=r"numbered 0\.\.29, given -1\.\.30"):
        data.take([30, -1])
    with pytest.raises(InvalidInput, match="at least one"):
        data.take(np.array([], dtype=int))
    with pytest.raises(InvalidInput, match="list of instance numbers"):
        data.take(torch.ones(30, dtype=torch.bool))


def test_hold_out_is_stratified_and_follows_its_generator() -> None:
    data = small(n=300)
    rest, x, y = data.hold_out(0.1, np.random.default_rng(0))
    assert torch.bincount(y).tolist() == [10, 10, 10]
    assert torch.bincount(rest.y).tolist() == [90, 90, 90]
    both = {image.numpy().tobytes() for image in torch.cat((rest.x, x))}
    assert len(both) == 300
    again = data.hold_out(0.1, np.random.default_rng(0))[1]
    other = data.hold_out(0.1, np.random.default_rng(1))[1]
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    for share in (0, 1, -0.1):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            data.hold_out(share, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="one part empty"):
        data.hold_out(0.001, np.random.default_rng(0))


# ---------------------------------------------------------------------------------------------- arrays and .npz

GREY = np.random.default_rng(0).integers(0, 256, (12, 9, 7), dtype=np.uint8)
COLOUR = np.random.default_rng(0).integers(0, 256, (12, 9, 7, 3), dtype=np.uint8)
Y = np.arange(12) % 3


def test_images_of_every_layout_become_channels_first() -> None:
    grey, colour = from_arrays(GREY, Y), from_arrays(COLOUR, Y)
    assert (grey.shape, grey.augment) == ((1, 9, 7), "none")
    assert (colour.shape, colour.augment) == ((3, 9, 7), "crop-flip")
    first = COLOUR.transpose(0, 3, 1, 2)
    assert np.array_equal(colour.x.numpy(), first)
    assert torch.equal(from_arrays(torch.from_numpy(first.copy()), Y).x, colour.x)
    assert from_arrays(COLOUR.astype(np.int64), Y).x.dtype == torch.uint8
    assert from_arrays(COLOUR / 255, Y).x.dtype == torch.float32
    assert from_arrays(COLOUR, Y, augment="none").augment == "none"


def test_vectors_become_float32() -> None:
    for x in (np.ones((12, 5), np.uint8), np.random.default_rng(0).normal(size=(12, 5)), torch.ones(12, 5)):
        data = from_arrays(x, torch.from_numpy(Y))
        assert (data.x.dtype, data.shape, data.augment) == (torch.float32, (5,), "none")


def test_labels_are_numbered_by_what_occurs_or_by_the_classes_given() -> None:
    words = np.array(["dog", "cat", "emu"])[Y]
    data = from_arrays(GREY, words, GREY[:2], ["emu", "ant"], clean=words[::-1])
    assert data.classes == ("ant", "cat", "dog", "emu")
    assert data.y.tolist()[:3] == [2, 1, 3]
    assert data.test_y is not None and data.test_y.tolist() == [3, 0]
    assert data.clean is not None and data.clean.tolist()[:3] == [3, 1, 2]
    assert from_arrays(GREY, words, classes=["emu", "dog", "cat"]).y.tolist()[:3] == [1, 2, 0]
    assert from_arrays(GREY, words.astype(object)).y.tolist()[:3] == [1, 0, 2]
    assert from_arrays(GREY, Y, classes=["c", "b", "a"]).y.tolist() == Y.tolist()
    assert from_arrays(GREY, Y * 10 - 1).classes == ("-1", "9", "19")
    assert from_arrays(GREY, Y == 0).y.tolist()[:3] == [1, 0, 0]


@pytest.mark.parametrize(
    ("x", "y", "more", "message"),
    [
        (GREY, Y[:5], {}, "5 labels for 12"),
        (GREY, Y / 2, {}, "whole numbers or strings, given float64"),
        (GREY, np.eye(3)[Y], {}, r"one entry per instance, \(n,\); given \(12, 3\)"),
        (GREY, Y.astype(float), {}, r"whole numbers or strings, given float64: \.astype\(int\)"),
        (GREY, np.where(Y == 1, np.nan, Y), {}, "given float64: 4 of 12 are missing, leave these instances out"),
        (GREY, np.array(["a", "b", None] * 4), {}, "whole numbers or strings, given object: 4 of 12 are missing"),
        (GREY, [b"\xff", b"a"] * 6, {}, "not UTF-8"),
        (GREY, Y, {"classes": ["a", "b"]}, r"y: 1 label is not among the 2 classes, e\.g\. 2"),
        (GREY, ["a", "b", "zzz"] * 4, {"classes": ["b", "a"]}, "'zzz'"),
        (GREY, Y, {"x_test": GREY, "y_test": ["a"] * 12}, "all numbers or all strings"),
        (GREY, Y, {"x_test": GREY}, "come together"),
        (GREY, Y, {"augment": "flip"}, "augment is one of"),
        (np.zeros((12, 5, 6, 7)), Y, {}, "1, 3 or 4 channels"),
        (np.zeros(12), Y, {}, r"given \(12,\)"),
        (np.array(["a"] * 12), Y, {}, "must hold numbers"),
        ([[1, 2], [3]], Y, {}, "different lengths"),
        (GREY, np.zeros(12, int), {}, "at least 2 classes"),
    ],
)
def test_arrays_that_cannot_be_meant_are_refused(x: Any, y: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        from_arrays(x, y, **more)


def test_an_npz_file_is_the_same_data(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    words = np.array(["dog", "cat", "emu"])[Y]
    np.savez_compressed(path, x=COLOUR, y=words, x_test=COLOUR[:4], y_test=words[:4], clean=words[::-1])
    expected = from_arrays(COLOUR, words, COLOUR[:4], words[:4], clean=words[::-1])
    data = load(str(path))
    assert data.name == "mine"
    assert data.fingerprint() == expected.fingerprint()
    np.savez(path, x=COLOUR, y=Y, classes=np.array(["a", "b", "c"]))
    assert load(str(path)).classes == ("a", "b", "c")


def test_npz_files_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"

    def refused(message: str) -> None:
        with pytest.raises(DataError, match=message):
            load(str(path))

    np.savez(path, x=GREY)
    refused("missing y")
    np.savez(path, x=GREY, y=Y, labels=Y)
    refused("not known: labels")
    np.savez(path, x=GREY, y=Y[:3])
    refused("mine.npz: y has 3 labels for 12 instances")
    np.savez(path, x=GREY, y=np.array(["a", None] * 6, dtype=object))
    refused("never unpickled")
    path.write_bytes(path.read_bytes()[:200])
    refused("not a readable .npz")
    path.write_bytes(b"")
    refused("not a readable .npz")
    path.write_text("<html>no such file</html>")
    refused("mine.npz: not an .npz archive; numpy.savez writes one, and a pickle")
    with path.open("wb") as file:
        np.save(file, GREY)
    refused("not an .npz archive")
    path.write_bytes(pickle.dumps(Hostile(tmp_path / "executed")))
    refused("never unpickled")
    assert not (tmp_path / "executed").exists()
    other = tmp_path / "mine.xlsx"
    other.write_text("x,y\n")
    with pytest.raises(DataError, match="an .npz or .npy file"):
        load(str(other))
    with pytest.raises(DataError, match="at least two classes"):
        load(str(tmp_path))


# ---------------------------------------------------------------------------------------------- the real data


@pytest.fixture
def checksums(shared_data: Path) -> dict[str, str]:
    listed: dict[str, str] = json.loads((shared_data / "checksums.json").read_text())["sha256_of_decoded_uint8_arrays"]
    return listed


def sha(a: torch.Tensor) -> str:
    return hashlib.sha256(a.to(torch.uint8).numpy().tobytes()).hexdigest()


def test_real_cifar10n_worst(shared_data: Path, checksums: dict[str, str]) -> None:
    data = load("cifar10n-worst", shared_data)
    assert data.test_x is not None and data.clean is not None
    assert sha(data.x) == checksums["cifar10/train/images"]
    assert sha(data.test_x) == checksums["cifar10/test/images"]
    assert sha(data.y) == checksums["cifar10n/worse_label"]
    assert sha(data.clean) == checksums["cifar10/train/labels"]
    assert (data.y != data.clean).float().mean().item() == pytest.approx(0.4021, abs=1e-4)


def test_real_cifar100_test_images(shared_data: Path, checksums: dict[str, str]) -> None:
    folder = shared_data / "cifar100"
    assert sha(torch.from_numpy(read_mosaic(folder / "test.webp").copy())) == checksums["cifar100/test/images"]


def test_real_boot_sneaker(shared_data: Path, checksums: dict[str, str]) -> None:
    data = load("boot-sneaker", shared_data)
    assert data.test_y is not None
    assert torch.bincount(data.y).tolist() == [6_000, 6_000]
    assert torch.bincount(data.test_y).tolist() == [1_000, 1_000]
    images = read_idx(shared_data / "fashion_mnist" / "t10k-images-idx3-ubyte.xz", (10_000, 28, 28))
    assert sha(torch.from_numpy(images)) == checksums["fashion_mnist/test/images"]
