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
from marvel.data.images import LARGEST, Watch
from marvel.data.origin import Origin, SetAside
from marvel.data.views import Views
from marvel.errors import DataError, UnknownName

__all__ = ["DATASETS", "Data", "Origin", "Resident", "SetAside", "Source", "Streamed", "Views", "from_arrays", "load"]

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


def load(
    name_or_path: str,
    root: str | Path | None = None,
    size: int | None = None,
    *,
    label: str | None = None,
    paths: str | None = None,
    id: str | None = None,
    labels: str | None = None,
    columns: str | None = None,
    hold: bool | None = None,
    largest: int = LARGEST,
    watch: Watch | None = None,
) -> Data:
    """The dataset of that name, its files under `root`; or data from a file or folder, whose path says what it is.

    Without `root` the files are where MARVEL_DATA says, else in ~/.cache/marvel. "digits" needs none.

    size     the side of images in files; by default the median of their shorter sides, at most `largest`
    label    the column or array of labels; by default one of the usual names
    paths    the column of images' paths
    id       the column or array that names the instances
    labels   the file of labels that belongs to an .npy file
    columns  how columns of a table are taken where the guess is wrong: "age=number,zip=category,notes=text,code=leave"
    hold     whether images in files are held in memory; by default where they fit
    watch    is told how far the reading is
    """
    if name_or_path in DATASETS:
        return DATASETS[name_or_path](None if root is None else Path(root))
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise UnknownName("dataset", name_or_path, DATASETS)
    if path.is_dir():
        return read_folder(path, size, hold, watch, largest)
    if path.suffix != ".npz":
        raise DataError(f"{path}: data is a folder of class folders of images, an .npz file, or a dataset's name")
    return read_npz(path)
