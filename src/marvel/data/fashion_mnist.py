"""Fashion-MNIST from its four idx files, and the paper's boot against sneaker.

Read from `FashionMNIST/raw/` (what torchvision writes) or `fashion_mnist/`; each file plain, `.gz` or `.xz`.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from marvel.data.core import Data
from marvel.data.root import data_root, not_found
from marvel.errors import DataError

TRAIN, TEST = 60_000, 10_000
SIDE = 28
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def fashion_mnist(root: Path | None = None, *, train: int = TRAIN, test: int = TEST) -> Data:
    """Fashion-MNIST: 10 classes, 60,000 training and 10,000 test instances; the tests' miniatures have fewer."""
    where = data_root(root)
    x, y = _split(where, "train", train)
    test_x, test_y = _split(where, "t10k", test)
    return Data("fashion-mnist", x, y, CLASSES, test_x, test_y)


def boot_sneaker(root: Path | None = None, *, train: int = TRAIN, test: int = TEST) -> Data:
    """Ankle boot (0) against sneaker (1): 12,000 training and 2,000 test instances, standardised by themselves."""
    both = fashion_mnist(root, train=train, test=test).only((9, 7), ("boot", "sneaker"))
    return replace(both, name="boot-sneaker", mean=(), std=())


def _split(root: Path, part: str, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = read_idx(_find(root, f"{part}-images-idx3-ubyte"), (n, SIDE, SIDE))
    labels = read_idx(_find(root, f"{part}-labels-idx1-ubyte"), (n,))
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def _find(root: Path, file: str) -> Path:
    folders = (root / "FashionMNIST" / "raw", root / "fashion_mnist")
    for folder in folders:
        for suffix in ("", ".gz", ".xz"):
            path = folder / (file + suffix)
            if path.is_file():
                return path
    raise not_found(
        "Fashion-MNIST",
        [folder / f"{file}[.gz|.xz]" for folder in folders],
        "torchvision.datasets.FashionMNIST(ROOT, download=True) writes them",
    )


def read_idx(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """An idx file of bytes that must have exactly this shape."""
    header = struct.pack(f">{1 + len(shape)}I", 0x0800 | len(shape), *shape)
    size = len(header) + int(np.prod(shape))
    content = _content(path, size + 1)  # one byte more shows a file that is longer
    if content[: len(header)] != header:
        raise DataError(f"{path}: not an idx file of bytes of shape {shape}; get a fresh copy")
    if len(content) != size:
        found = "more" if len(content) > size else str(len(content))
        raise DataError(f"{path}: expected {size} bytes, found {found}; get a fresh copy")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape).copy()


def _content(path: Path, limit: int) -> bytes:
    """The first bytes of the file; the limit also bounds what a compressed one can unpack to."""
    import gzip
    import lzma
    import zlib

    openers: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            return bytes(file.read(limit))
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); get a fresh copy") from None
