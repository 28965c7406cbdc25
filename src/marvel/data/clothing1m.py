"""Clothing1M (Xiao et al. 2015): a million images of clothes from shops, labelled by the words around them.

    ROOT/clothing1M/noisy_train_key_list.txt           images/3/25/....jpg
    ROOT/clothing1M/clean_val_key_list.txt             the same of the validation set,
    ROOT/clothing1M/clean_test_key_list.txt            and of the test set
    ROOT/clothing1M/noisy_label_kv.txt                 images/3/25/....jpg 5
    ROOT/clothing1M/clean_label_kv.txt                 labels that people gave
    ROOT/clothing1M/category_names_eng.txt             a class a line
    ROOT/clothing1M/images/0/ .. 9/                    or 0/ .. 9/ without `images`

The lists may lie in `annotations/`. Clothing100K is a draw of 100,000 of the training images: that of the AUM code,
ROOT/clothing100k/train/CLASS/, val/ and test/, where it is there; else one of ours, with a seed that is said.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from marvel.data.listing import Listing, Part, from_class_folders, read_lines, read_pairs
from marvel.data.root import data_root, not_found
from marvel.errors import DataError

NAMES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker", "Jacket"),
    *("Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)
EXPECTED = {"train": 1_000_000, "val": 14_313, "test": 10_526}
FOLDERS = ("clothing1M", "clothing1m", "Clothing1M", ".")
LISTS = {
    "train": ("noisy_train_key_list.txt", "noisy_label_kv.txt"),
    "val": ("clean_val_key_list.txt", "clean_label_kv.txt"),
    "test": ("clean_test_key_list.txt", "clean_label_kv.txt"),
}
DRAWN, SEED = 100_000, 0
"""How many Clothing100K has, and the seed of our draw."""


def clothing1m(root: Path | None = None) -> Listing:
    """14 classes: the noisy training part, and the clean validation and test parts."""
    where = data_root(root)
    first = LISTS["train"][0]
    for folder in (where / name for name in FOLDERS):
        for lists in (folder, folder / "annotations"):
            if (lists / first).is_file():
                return _from_lists(folder, lists)
    raise not_found(
        "Clothing1M",
        [where / "clothing1M" / first, where / "clothing1M" / "annotations" / first],
        "its authors send the link (https://github.com/Cysu/noisy_label); unpack images and lists there",
    )


def clothing100k(root: Path | None = None) -> Listing:
    """100,000 of the noisy training images, and the clean test part."""
    where = data_root(root)
    folder = where / "clothing100k"
    if (folder / "train").is_dir():
        expected = EXPECTED | {"train": DRAWN}
        return from_class_folders(folder, "clothing100k", expected, "resized-crop-flip")
    try:
        return drawn(clothing1m(root))
    except DataError as error:
        if "not found: looked for" not in str(error):
            raise
        raise not_found(
            "Clothing100K",
            [folder / "train", where / "clothing1M" / LISTS["train"][0]],
            "the archive of the AUM code holds it as class folders; of Clothing1M a draw is taken",
        ) from None


def drawn(whole: Listing, number: int = DRAWN, seed: int = SEED) -> Listing:
    """A random part of the training images, in their order."""
    train = whole.parts["train"]
    if len(train) < number:
        raise DataError(f"{whole.name} lists {len(train):,} training images, too few to draw {number:,} of them")
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:number]).tolist()
    part = Part([train.paths[i] for i in chosen], [train.ids[i] for i in chosen], [train.y[i] for i in chosen])
    note = (
        f"clothing100k: {number:,} of {len(train):,} training images, drawn with seed {seed}; the draw of the AUM "
        "archive, which the papers use, is another"
    )
    return replace(
        whole,
        name="clothing100k",
        parts={**whole.parts, "train": part},
        expected={**whole.expected, "train": number},
        notes=(*whole.notes, note),
    )


def _from_lists(folder: Path, lists: Path) -> Listing:
    labels: dict[str, dict[str, int]] = {}
    for _, file in LISTS.values():
        if file not in labels:
            labels[file] = dict(zip(*read_pairs(lists / file, len(NAMES)), strict=True))
    # The tars of images unpack to 0/ .. 9/, and most people leave it at that.
    prefix = "images/" if not (folder / "images").is_dir() else ""
    parts = {}
    for name, (keys, file) in LISTS.items():
        ids = read_lines(lists / keys)
        unknown = [id for id in ids if id not in labels[file]]
        if unknown:
            raise DataError(
                f"{lists / file} has no label for {len(unknown):,} of the {len(ids):,} images that {keys} lists, e.g. "
                f"{unknown[0]}; get fresh copies"
            )
        y = [labels[file][id] for id in ids]
        ids = [id.removeprefix(prefix) for id in ids]
        parts[name] = Part([folder / id for id in ids], ids, y)
    return Listing("clothing1m", folder, _names(lists / "category_names_eng.txt"), parts, EXPECTED)


def _names(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return NAMES
    names = tuple(read_lines(path))
    if len(names) != len(NAMES) or len(set(names)) != len(NAMES):
        raise DataError(f"{path} names {len(set(names))} classes, and {len(NAMES)} are expected; get a fresh copy")
    return names
