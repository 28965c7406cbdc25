"""Datasets by name or from a file, and the batches and views made of them."""

from collections.abc import Callable
from pathlib import Path

from marvel.data.arrays import from_arrays, read_npz
from marvel.data.batches import Resident, Source, Streamed
from marvel.data.cifar import (
    aquatic_fish,
    cat_dog,
    cifar10,
    cifar10n_aggregate,
    cifar10n_worst,
    cifar100,
    cifar100_coarse,
    truck_car,
)
from marvel.data.core import Data
from marvel.data.digits import digits
from marvel.data.fashion_mnist import boot_sneaker, fashion_mnist
from marvel.data.folder import read_folder
from marvel.data.views import Views
from marvel.errors import DataError, UnknownName

__all__ = ["DATASETS", "Data", "Resident", "Source", "Streamed", "Views", "from_arrays", "load"]

DATASETS: dict[str, Callable[[Path | None], Data]] = {
    "digits": digits,
    "boot-sneaker": boot_sneaker,
    "truck-car": truck_car,
    "cat-dog": cat_dog,
    "aquatic-fish": aquatic_fish,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "cifar100-coarse": cifar100_coarse,
    "fashion-mnist": fashion_mnist,
    "cifar10n-aggregate": cifar10n_aggregate,
    "cifar10n-worst": cifar10n_worst,
}


def load(name_or_path: str, root: str | Path | None = None, size: int | None = None) -> Data:
    """The dataset of that name, its files under `root`; or the data of an .npz file or a folder of images.

    Without `root` the files are where MARVEL_DATA says, else in ~/.cache/marvel. "digits" needs none. `size` is that of
    images in a folder.
    """
    if name_or_path in DATASETS:
        return DATASETS[name_or_path](None if root is None else Path(root))
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise UnknownName("dataset", name_or_path, DATASETS)
    if path.is_dir():
        return read_folder(path, size)
    if path.suffix != ".npz":
        raise DataError(f"{path}: data is a folder of class folders of images, an .npz file, or a dataset's name")
    return read_npz(path)
