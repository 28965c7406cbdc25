"""Datasets by name or from a file, and the batches and views made of them."""

from collections.abc import Callable
from pathlib import Path

from marvel.data.arrays import from_arrays, read_npy, read_npz
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
from marvel.data.huggingface import is_huggingface, read_huggingface
from marvel.data.images import LARGEST, Watch
from marvel.data.origin import Origin, SetAside
from marvel.data.tables import PARQUETS, TEXTS, Options, read_table
from marvel.data.views import Views
from marvel.errors import DataError, InvalidInput, UnknownName

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
    told = {"label": label, "paths": paths, "id": id, "labels": labels, "columns": columns}
    if name_or_path in DATASETS:
        _takes(name_or_path, "a dataset of a known form", told)
        return DATASETS[name_or_path](None if root is None else Path(root))
    path = Path(name_or_path).expanduser()
    suffix = path.suffix.lower()
    if not path.exists():
        if len(path.parts) > 1 or suffix in (*TEXTS, *PARQUETS, ".npz", ".npy"):
            raise DataError(f"there is no file or folder {path}")
        raise UnknownName("dataset", name_or_path, DATASETS)
    if path.is_dir() and not is_huggingface(path):
        _takes(path, "a folder of class folders", told)
        return read_folder(path, size, hold, watch, largest)
    options = Options(size, label, paths, id, columns, hold, largest, watch)
    if path.is_dir():
        _takes(path, "a Hugging Face dataset", told, "label", "id", "columns")
        return read_huggingface(path, options)
    if suffix in (*TEXTS, *PARQUETS):
        _takes(path, "a table", told, "label", "paths", "id", "columns")
        return read_table(path, options)
    if suffix == ".npz":
        _takes(path, "an .npz file", told, "label", "id")
        return read_npz(path, label, id)
    if suffix == ".npy":
        _takes(path, "an .npy file", told, "labels", "label")
        return read_npy(path, labels, label)
    raise DataError(
        f"{path}: data is a folder of class folders of images, a .csv, .tsv or .parquet table, an .npz or .npy file, "
        "a Hugging Face dataset saved to disk, or a dataset's name"
    )


def _takes(path: Path | str, what: str, told: dict[str, str | None], *known: str) -> None:
    """A setting that the format does not know is refused: whoever gives it expects something of it."""
    for name, value in told.items():
        if value is not None and name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none of these settings"
            raise InvalidInput(f"{path} is {what}, and has no use for {name} = {value}: {takes}")
