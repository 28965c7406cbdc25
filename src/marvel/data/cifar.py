"""CIFAR-10 and CIFAR-100, the paper's problems made of them, and CIFAR-10N's human labels.

Two layouts are read, whichever is complete under the root:
- the folders torchvision writes, `cifar-10-batches-py/` and `cifar-100-python/`;
- a packed one, `cifar10/` and `cifar100/`: `train_1.webp` .. `train_5.webp` and `test.webp`, each a square mosaic of
  10,000 tiles of 32x32 (lossless, row by row), and `labels.npz`. CIFAR-10N is `cifar10/human_labels.npz`.

`rows` is how many instances a file holds: 10,000, fewer only in the miniatures the tests write. The training set is
five times as many.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from marvel.data.arrays import open_npz
from marvel.data.cifar_names import CIFAR10_CLASSES, CIFAR100_CLASSES, CIFAR100_SUPERCLASSES
from marvel.data.cifar_pickle import read_cifar_pickle
from marvel.data.core import Data
from marvel.data.root import data_root, not_found
from marvel.errors import DataError

ROWS = 10_000

# The replication example of AUM, which the paper follows, uses these for CIFAR-100 as well.
MEAN, STD = (0.4914, 0.4824, 0.4467), (0.2471, 0.2435, 0.2616)

Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Set:
    """What distinguishes CIFAR-10 from CIFAR-100 on disk: label kinds with their classes, and where things lie."""

    title: str
    packed: str
    folder: str
    train: tuple[str, ...]
    test: str
    pickled: Mapping[str, int]  # key in the pickle -> number of classes
    keys: Mapping[str, str]  # key in the pickle -> key in labels.npz, after "train" or "test"
    get: str


CIFAR10 = _Set(
    title="CIFAR-10",
    packed="cifar10",
    folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{i}" for i in range(1, 6)),
    test="test_batch",
    pickled={"labels": 10},
    keys={"labels": ""},
    get="torchvision.datasets.CIFAR10(ROOT, download=True) writes them",
)

CIFAR100 = _Set(
    title="CIFAR-100",
    packed="cifar100",
    folder="cifar-100-python",
    train=("train",),
    test="test",
    pickled={"fine_labels": 100, "coarse_labels": 20},
    keys={"fine_labels": "_fine", "coarse_labels": "_coarse"},
    get="torchvision.datasets.CIFAR100(ROOT, download=True) writes them",
)


def cifar10(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """CIFAR-10: 10 classes, 50,000 training and 10,000 test instances."""
    return _data("cifar10", CIFAR10, "labels", CIFAR10_CLASSES, root, rows)


def cifar100(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """CIFAR-100: 100 classes, 50,000 training and 10,000 test instances."""
    return _data("cifar100", CIFAR100, "fine_labels", CIFAR100_CLASSES, root, rows)


def cifar100_coarse(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """CIFAR-100 with its 20 superclasses as the labels."""
    return _data("cifar100-coarse", CIFAR100, "coarse_labels", CIFAR100_SUPERCLASSES, root, rows)


def truck_car(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """Truck (0) against car (1): 10,000 training and 2,000 test instances of CIFAR-10."""
    return replace(cifar10(root, rows=rows).only((9, 1), ("truck", "car")), name="truck-car")


def cat_dog(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """Cat (0) against dog (1): 10,000 training and 2,000 test instances of CIFAR-10."""
    return replace(cifar10(root, rows=rows).only((3, 5), ("cat", "dog")), name="cat-dog")


def aquatic_fish(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """Aquatic mammals (0) against fish (1): 5,000 training and 1,000 test instances of CIFAR-100."""
    both = cifar100_coarse(root, rows=rows).only((0, 1), ("aquatic mammals", "fish"))
    return replace(both, name="aquatic-fish")


def cifar10n_aggregate(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """CIFAR-10N, the majority vote of three people: 9 % of the given labels are wrong."""
    return _human("cifar10n-aggregate", "aggre_label", root, rows)


def cifar10n_worst(root: Path | None = None, *, rows: int = ROWS) -> Data:
    """CIFAR-10N, a wrong label wherever one of three people gave one: 40 % of the given labels are wrong."""
    return _human("cifar10n-worst", "worse_label", root, rows)


def _data(name: str, which: _Set, key: str, classes: tuple[str, ...], root: Path | None, rows: int) -> Data:
    x, y, test_x, test_y = _read(which, key, data_root(root), rows)
    return Data(
        name,
        torch.from_numpy(x),
        torch.from_numpy(y),
        classes,
        torch.from_numpy(test_x),
        torch.from_numpy(test_y),
        augment="crop-flip",
        mean=MEAN,
        std=STD,
    )


def _human(name: str, key: str, root: Path | None, rows: int) -> Data:
    path = data_root(root) / CIFAR10.packed / "human_labels.npz"
    if not path.is_file():
        raise not_found(
            "CIFAR-10N",
            [path],
            "Save clean_label, aggre_label and worse_label of github.com/UCSC-REAL/cifar-10-100n with numpy.savez",
        )
    given, clean = (_npz_labels(path, k, 5 * rows, 10) for k in (key, "clean_label"))
    data = cifar10(root, rows=rows)
    if not np.array_equal(clean, data.y.numpy()):
        raise DataError(f"{path}: clean_label differs from CIFAR-10's labels, so its rows are in another order")
    return replace(data, name=name, y=torch.from_numpy(given), clean=data.y)


def _read(which: _Set, key: str, root: Path, rows: int) -> tuple[Bytes, Labels, Bytes, Labels]:
    """Images and labels of the training set and of the test set, from the first layout that is complete."""
    pickles, packed = root / which.folder, root / which.packed
    mosaics = [f"train_{i}.webp" for i in range(1, 6)]
    layouts: dict[Path, tuple[tuple[str, ...], Callable[[], tuple[Bytes, Labels, Bytes, Labels]]]] = {
        pickles: ((*which.train, which.test), lambda: _read_pickles(which, key, pickles, rows)),
        packed: ((*mosaics, "test.webp", "labels.npz"), lambda: _read_packed(which, key, packed, rows)),
    }
    for folder, (files, read) in layouts.items():
        if all((folder / file).is_file() for file in files):
            return read()
    looked_for = [folder / f"{{{','.join(files)}}}" for folder, (files, _) in layouts.items()]
    raise not_found(which.title, looked_for, which.get)


def _read_pickles(which: _Set, key: str, folder: Path, rows: int) -> tuple[Bytes, Labels, Bytes, Labels]:
    each = 5 * rows // len(which.train)
    parts = [read_cifar_pickle(folder / file, which.pickled, each) for file in which.train]
    test_x, test = read_cifar_pickle(folder / which.test, which.pickled, rows)
    return np.concatenate([x for x, _ in parts]), np.concatenate([y[key] for _, y in parts]), test_x, test[key]


def _read_packed(which: _Set, key: str, folder: Path, rows: int) -> tuple[Bytes, Labels, Bytes, Labels]:
    labels, classes = folder / "labels.npz", which.pickled[key]
    y = _npz_labels(labels, "train" + which.keys[key], 5 * rows, classes)
    test_y = _npz_labels(labels, "test" + which.keys[key], rows, classes)
    x = np.empty((5 * rows, 3, 32, 32), np.uint8)
    for i in range(5):
        x[i * rows : (i + 1) * rows] = read_mosaic(folder / f"train_{i + 1}.webp", rows)
    return x, y, np.ascontiguousarray(read_mosaic(folder / "test.webp", rows)), test_y


def read_mosaic(path: Path, rows: int = ROWS) -> Bytes:
    """One square mosaic of 32x32 tiles, row by row -> (rows, 3, 32, 32)."""
    from PIL import Image

    side = math.isqrt(rows)
    try:
        with Image.open(path, formats=("WEBP",)) as image:
            if image.size != (32 * side, 32 * side):
                raise DataError(f"{path}: expected {side} x {side} tiles of 32 x 32 pixels, the image is {image.size}")
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError) as error:
        raise DataError(f"{path}: not a readable WebP image ({error}); get a fresh copy") from None
    return pixels.reshape(side, 32, side, 32, 3).transpose(0, 2, 4, 1, 3).reshape(rows, 3, 32, 32)


def _npz_labels(path: Path, key: str, rows: int, classes: int) -> Labels:
    arrays = open_npz(path)
    if key not in arrays:
        raise DataError(f"{path}: no array '{key}', only {', '.join(sorted(arrays))}")
    labels: Labels = arrays[key]
    if labels.shape != (rows,) or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise DataError(f"{path}: '{key}' must be {rows} whole numbers in 0..{classes - 1}")
    return labels.astype(np.int64)
