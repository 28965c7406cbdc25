"""WebVision50: the first 50 classes of WebVision 1.0 (Li et al. 2017), of Flickr and Google both.

    ROOT/webvision/info/train_filelist_google.txt      google/q0001/....jpg 0
    ROOT/webvision/info/train_filelist_flickr.txt      flickr/q0001/....jpg 0
    ROOT/webvision/info/val_filelist.txt               val000001.jpg 9
    ROOT/webvision/info/synsets.txt                    n01440764 tench, Tinca tinca
    ROOT/webvision/google/, flickr/, val_images_256/   the images; val_images/ where they are of full size

Or the archive of the AUM code: ROOT/webvision50/train/CLASS/ and val/CLASS/. The "mini-WebVision" of other papers is
the Google part alone, about half of it: numbers do not compare.
"""

from collections import Counter
from pathlib import Path

from marvel.data.listing import Listing, Part, from_class_folders, read_lines, read_pairs
from marvel.data.root import data_root, not_found
from marvel.errors import DataError

CLASSES = 50
ALL_CLASSES = 1000
EXPECTED = {"train": 126_370, "val": 2_500}
FOLDERS = ("webvision", "WebVision", "webvision1.0", "webvision50", ".")
TRAIN = ("train_filelist_google.txt", "train_filelist_flickr.txt")
VAL_IMAGES = ("val_images_256", "val_images")


def webvision50(root: Path | None = None) -> Listing:
    """50 classes, 126,370 training images, and the validation set of 50 images a class, which is tested on."""
    where = data_root(root)
    for folder in (where / name for name in FOLDERS):
        if (folder / "info" / "val_filelist.txt").is_file():
            return _from_lists(folder)
    if (where / "webvision50" / "train").is_dir():
        return from_class_folders(where / "webvision50", "webvision50", EXPECTED, "resized-crop-flip")
    raise not_found(
        "WebVision50",
        [where / "webvision" / "info" / "val_filelist.txt", where / "webvision50" / "train"],
        "info.tar, google_resized_256.tar, flickr_resized_256.tar and val_images_256.tar of WebVision 1.0, unpacked "
        "side by side, or the archive of the AUM code",
    )


def _from_lists(folder: Path) -> Listing:
    info = folder / "info"
    absent = [name for name in TRAIN if not (info / name).is_file()]
    if absent:
        raise DataError(
            f"{info} has no {' and no '.join(absent)}: WebVision50 is of Google's and Flickr's images both; unpack "
            "info.tar of WebVision 1.0 there"
        )
    ids: list[str] = []
    y: list[int] = []
    for name in TRAIN:
        kept = _first_classes(info / name)
        ids += [id for id, _ in kept]
        y += [label for _, label in kept]
    images = next((name for name in VAL_IMAGES if (folder / name).is_dir()), VAL_IMAGES[0])
    val = [(f"{images}/{name}", label) for name, label in _first_classes(info / "val_filelist.txt")]
    return Listing(
        "webvision50",
        folder,
        _names(info / "synsets.txt"),
        {
            "train": Part([folder / id for id in ids], ids, y),
            "val": Part([folder / id for id, _ in val], [id for id, _ in val], [label for _, label in val]),
        },
        EXPECTED,
    )


def _first_classes(path: Path) -> list[tuple[str, int]]:
    pairs = zip(*read_pairs(path, ALL_CLASSES), strict=True)
    return [(name, label) for name, label in pairs if label < CLASSES]


def _names(path: Path) -> tuple[str, ...]:
    """The first name of each synset, with its number where another has the same."""
    synsets = [line.partition(" ")[::2] for line in read_lines(path)[:CLASSES]]
    if len(synsets) < CLASSES:
        raise DataError(f"{path} names {len(synsets)} classes, and {CLASSES} are needed; get a fresh copy")
    names = [words.partition(",")[0].strip() or number for number, words in synsets]
    often = Counter(names)
    return tuple(f"{name} ({number})" if often[name] > 1 else name for name, (number, _) in zip(names, synsets))
