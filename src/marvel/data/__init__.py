"""Datasets by name or from a file, and the batches and views made of them."""

from collections.abc import Callable
from functools import partial
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
from marvel.data.clothing1m import clothing1m, clothing100k
from marvel.data.core import Data
from marvel.data.digits import digits
from marvel.data.fashion_mnist import boot_sneaker, fashion_mnist
from marvel.data.folder import read_folder
from marvel.data.huggingface import is_huggingface, read_huggingface
from marvel.data.images import LARGEST, Watch
from marvel.data.listing import Listing, from_class_folders, read_listing
from marvel.data.origin import Origin, SetAside
from marvel.data.root import data_root
from marvel.data.shards import ON_BAD_DATA, is_shards, read_shards
from marvel.data.tables import PARQUETS, TEXTS, Options, read_table
from marvel.data.views import Views
from marvel.data.webvision import webvision50
from marvel.errors import DataError, InvalidInput, UnknownName

__all__ = [
    "DATASETS",
    "LISTINGS",
    "Data",
    "Listing",
    "Origin",
    "Resident",
    "SetAside",
    "Source",
    "Streamed",
    "Views",
    "from_arrays",
    "listing",
    "load",
]

LISTINGS: dict[str, Callable[[Path | None], Listing]] = {
    "webvision50": webvision50,
    "clothing100k": clothing100k,
    "clothing1m": clothing1m,
}
"""Datasets that are lists of image files."""


def _listed(name: str, root: Path | None) -> Data:
    return load(name, root)


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
    **{name: partial(_listed, name) for name in LISTINGS},
}


PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z", ".rar")


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
    on_bad_data: str = "stop",
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

    on_bad_data  whether to "stop" at shards that are not as they were written, or to "skip" them
    """
    if on_bad_data not in ON_BAD_DATA:
        raise UnknownName("on_bad_data", on_bad_data, ON_BAD_DATA)
    if not isinstance(name_or_path, str | Path):
        raise InvalidInput(
            f"load takes a dataset's name or a path, got {type(name_or_path).__name__}: from_arrays(x, y) takes arrays "
            "and tables in memory"
        )
    told = {"label": label, "paths": paths, "id": id, "labels": labels, "columns": columns}
    if name_or_path in LISTINGS:
        _takes(name_or_path, "a dataset of a known form", told)
        shards = data_root(root) / name_or_path
        if is_shards(shards):
            return read_shards(shards, size, hold, watch, largest, on_bad_data)
        return read_listing(LISTINGS[name_or_path](None if root is None else Path(root)), size, hold, watch)
    if name_or_path in DATASETS:
        _takes(name_or_path, "a dataset of a known form", told)
        return DATASETS[name_or_path](None if root is None else Path(root))
    path = Path(name_or_path).expanduser()
    suffix = path.suffix.lower()
    if not path.exists():
        if len(path.parts) > 1 or suffix in (*TEXTS, *PARQUETS, ".npz", ".npy"):
            raise DataError(f"there is no file or folder {path}")
        raise UnknownName("dataset", name_or_path, DATASETS, ", nor a file or folder of that name")
    if path.is_dir() and is_shards(path):
        _takes(path, "a folder of shards", told)
        return read_shards(path, size, hold, watch, largest, on_bad_data)
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
    if suffix in PACKED:
        raise DataError(f"{path} is packed: unpack it first, and give the file or folder that was in it")
    raise DataError(
        f"{path}: data is a folder of class folders of images, a .csv, .tsv or .parquet table, an .npz or .npy file, "
        "a Hugging Face dataset saved to disk, or a dataset's name"
    )


def listing(name_or_folder: str, root: str | Path | None = None, augment: str | None = None) -> Listing:
    """What a dataset of image files should hold: one of `LISTINGS`, or a folder of class folders.

    `augment` is how a folder of one's own is trained on: "crop-flip", or "resized-crop-flip" for photographs.
    """
    if name_or_folder in LISTINGS:
        if augment is not None:
            raise InvalidInput(f"{name_or_folder} is trained on as the papers do: leave out augment = {augment}")
        return LISTINGS[name_or_folder](None if root is None else Path(root))
    folder = Path(name_or_folder).expanduser()
    if not folder.exists():
        if len(folder.parts) > 1:
            raise DataError(f"there is no folder {folder}")
        raise UnknownName("dataset of image files", name_or_folder, LISTINGS, ", nor a folder of that name")
    if not folder.is_dir() or is_shards(folder) or is_huggingface(folder):
        raise InvalidInput(f"{folder} is no folder of class folders of images, and no dataset's name")
    return from_class_folders(folder, folder.resolve().name, augment=augment)


def _takes(path: Path | str, what: str, told: dict[str, str | None], *known: str) -> None:
    """A setting that the format does not know is refused: whoever gives it expects something of it."""
    for name, value in told.items():
        if value is not None and name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none of these settings"
            raise InvalidInput(f"{path} is {what}, and has no use for {name} = {value}: {takes}")
