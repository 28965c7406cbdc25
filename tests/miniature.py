"""Large datasets in small: the files of WebVision 1.0, Clothing1M and the AUM archives, a few tiny JPEGs each."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

WORDS = ("tench, Tinca tinca", "goldfish, Carassius auratus", "crane", "crane", "hen")


def jpeg(path: Path, label: int, rng: np.random.Generator, width: int = 40, height: int = 32) -> None:
    """An image whose colours tell its label, with some noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = np.array([label * 67 % 200, label * 131 % 200, label * 29 % 200])
    pixels = colour + rng.integers(0, 50, (height, width, 3))
    Image.fromarray(pixels.astype(np.uint8)).save(path, quality=90)


def webvision(root: Path, labels: Sequence[int] = (0, 1, 2, 49, 50, 999), each: int = 2) -> Path:
    """`each` images of every label from Google and from Flickr, and one to be tested on."""
    rng, folder = np.random.default_rng(0), root / "webvision"
    (folder / "info").mkdir(parents=True)
    for engine in ("google", "flickr"):
        lines = []
        for label in labels:
            for k in range(each):
                name = f"{engine}/q{label + 1:04d}/{engine[0]}{k}.jpg"
                jpeg(folder / name, label, rng)
                lines.append(f"{name} {label}")
        (folder / "info" / f"train_filelist_{engine}.txt").write_text("\n".join(lines) + "\n")
    val = [(f"val{k:06d}.jpg", label) for k, label in enumerate(reversed(labels), 1)]
    for name, label in val:
        jpeg(folder / "val_images_256" / name, label, rng)
    (folder / "info" / "val_filelist.txt").write_text("".join(f"{name} {label}\n" for name, label in val))
    words = [*WORDS, *(f"thing {k}, Res {k}" for k in range(5, 1000))]
    synsets = "".join(f"n{1440764 + k:08d} {word}\n" for k, word in enumerate(words))
    (folder / "info" / "synsets.txt").write_text(synsets)
    return folder


def clothing1m(root: Path, each: int = 3, annotations: bool = False, images: bool = True) -> Path:
    """14 classes: `each` noisy training images of every one, one to validate and one to test."""
    rng, folder = np.random.default_rng(1), root / "clothing1M"
    lists = folder / "annotations" if annotations else folder
    lists.mkdir(parents=True)
    labels: dict[str, list[str]] = {"noisy": [], "clean": []}
    for part, kind, count in (("noisy_train", "noisy", each), ("clean_val", "clean", 1), ("clean_test", "clean", 1)):
        keys = []
        for k in range(14 * count):
            label = k % 14
            key = f"images/{k % 10}/{k:02d}/{part}{k},{k}.jpg"
            jpeg(folder / (key if images else key.removeprefix("images/")), label, rng)
            keys.append(key)
            labels[kind].append(f"{key} {label}")
        (lists / f"{part}_key_list.txt").write_text("\n".join(keys) + "\n")
    labels["noisy"].append("images/9/99/labelled-twice.jpg 3")  # the real file holds more keys than the training part
    for kind, lines in labels.items():
        (lists / f"{kind}_label_kv.txt").write_text("\n".join(lines) + "\n")
    names = ["T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"]
    names += ["Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"]
    (lists / "category_names_eng.txt").write_text("\n".join(names) + "\n")
    return folder


def archive(root: Path, name: str, parts: Sequence[str], classes: int = 3, each: int = 4) -> Path:
    """Class folders, as the archive of the AUM code has them."""
    rng = np.random.default_rng(2)
    for part in parts:
        for label in range(classes):
            for k in range(each):
                jpeg(root / name / part / f"c{label}" / f"{k}.jpg", label, rng)
    return root / name
