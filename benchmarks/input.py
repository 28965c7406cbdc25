"""Images a second that reach the training, from JPEGs on disk: what the network must wait for where it is fast.

The peer is the loop people write: a folder of class folders, one file an image, read by torch's DataLoader with the
same workers, each image decoded whole, a random part of it scaled to 224 x 224 and flipped half of the time. Ours are
shards, read in the same random order, the part cut out while decoding. The limit of both is what Pillow decodes: one
process does nothing else, and as many of them as there are workers and cores could do no more than that often as much.
"""

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.rows import Row, compared, measured
from benchmarks.timing import in_turns
from marvel.data import listing, load
from marvel.data.batches import Streamed
from marvel.data.crops import random_part
from marvel.data.images import ImageFiles, read_image
from marvel.prepare import prepare

SIZE = 224
SETS = {"340 x 256": (340, 256, 192), "1600 x 1200": (1600, 1200, 24)}
"""As WebVision is given out at its small size, and as cameras make them: width, height, how many."""
FILES = "files + DataLoader"
BATCH = 32


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    workers = 0 if quick else os.cpu_count() or 1
    sets = {"64 x 48": (64, 48, 8)} if quick else SETS
    for name, (width, height, n) in sets.items():
        with TemporaryDirectory() as place:
            folder, out = Path(place) / "photos", Path(place) / "shards"
            write_jpegs(folder, n, width, height)
            yield from of_one_size(name, folder, out, n, workers, 1 if quick else 5)


def of_one_size(name: str, folder: Path, out: Path, n: int, workers: int, rounds: int) -> Iterator[Row]:
    whole = listing(str(folder), augment="resized-crop-flip")
    prepare(whole, out)  # the first time imports are waited for

    def writing(again: int) -> float:
        return speed(lambda: prepare(whole, out.with_name(f"{again}")).parts["train"].written, time.perf_counter)

    took = [writing(again) for again in range(3)]
    yield measured(f"{name}: marvel data prepare", took, "images/s")
    data = load(str(out), size=SIZE)
    assert isinstance(data.x, ImageFiles)
    paths = sorted(folder.rglob("*.jpg"))
    helped, alone = Streamed(data.x, "cpu", workers), Streamed(data.x, "cpu", 0)
    files, files_alone = ordinary(folder, workers), ordinary(folder, 0)
    order = np.random.default_rng(0)

    def shards(source: Streamed, clock: Callable[[], float]) -> float:
        draws = torch.from_numpy(order.permutation(n)).split(BATCH)
        return speed(lambda: sum(map(len, source.stream(draws, seed=int(order.integers(2**31))))), clock)

    def plainly(loader: "DataLoader[tuple[Tensor, int]]", clock: Callable[[], float]) -> float:
        return speed(lambda: sum(len(x) for x, _ in loader), clock)

    def decoding() -> float:
        return speed(lambda: sum(decoded(path) for path in paths))

    jobs = {
        "shards": partial(shards, helped, time.perf_counter),
        "files": partial(plainly, files, time.perf_counter),
        "shards alone": partial(shards, alone, time.process_time),
        "files alone": partial(plainly, files_alone, time.process_time),
        "decoding": decoding,
    }
    in_turns(jobs, 1)  # workers are started, files lie in memory
    samples = in_turns(jobs, rounds)
    processes = max(1, min(workers, os.cpu_count() or 1))
    limit = processes * statistics.median(samples["decoding"])
    yield measured(f"{name}: Pillow decodes, one process, nothing else", samples["decoding"], "images/s")
    yield compared(
        f"{name}: shards, no workers, a second of the processor",
        samples["shards alone"],
        FILES,
        samples["files alone"],
        "images/s",
    )
    yield compared(
        f"{name}: shards, {workers} workers, on the wall",
        samples["shards"],
        FILES,
        samples["files"],
        "images/s",
        note=f"limit, {processes} x what Pillow decodes whole: {limit:,.0f} images/s",
    )
    yield from drafts(name, paths, rounds)
    yield random_reads(name, out, data.x, rounds)


def drafts(name: str, paths: list[Path], rounds: int) -> Iterator[Row]:
    """What it saves to decode no more of a JPEG than its part at 224 x 224 needs."""
    some = paths[:: max(1, len(paths) // 48)]

    def part() -> float:
        return speed(lambda: sum(len(read_image(path, SIZE, random_part(1, k))) > 0 for k, path in enumerate(some)))

    def whole() -> float:
        return speed(lambda: sum(len(cut_whole(path, k)) > 0 for k, path in enumerate(some)))

    samples = in_turns({"part": part, "whole": whole}, rounds)
    yield compared(
        f"{name}: a random part, decoded as small as it may be",
        samples["part"],
        "decoded whole, then cut",
        samples["whole"],
        "images/s",
    )


def random_reads(name: str, out: Path, images: ImageFiles, rounds: int) -> Row:
    """The encoded bytes of single images in random order: from our shards, and from Parquet by row groups of 64."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file, group = out / "as.parquet", 64
    with pa.memory_map(str(out / "train-00000.arrow")) as source:
        pq.write_table(pa.ipc.open_file(source).read_all(), file, row_group_size=group, compression="none")
    opened = pq.ParquetFile(file, memory_map=True)
    order = np.random.default_rng(1).permutation(len(images))[:200].tolist()

    def ours() -> float:
        return 1 / speed(lambda: sum(len(images.paths[k].read()) > 0 for k in order))  # type: ignore[union-attr]

    def parquet() -> float:
        def read() -> int:
            groups = (opened.read_row_group(k // group, columns=["image"]) for k in order)
            return sum(len(table["image"][k % group].as_py()) > 0 for table, k in zip(groups, order, strict=True))

        return 1 / speed(read)

    samples = in_turns({"ours": ours, "parquet": parquet}, rounds)
    what = f"{name}: one image's bytes, in random order, with their checksum"
    return compared(what, samples["ours"], "Parquet, row groups of 64", samples["parquet"], "us", 1e6)


def speed(job: Callable[[], int], clock: Callable[[], float] = time.process_time) -> float:
    """Images a second: of the processor, or by the clock on the wall where workers are processes of their own."""
    began = clock()
    images = job()
    return images / (clock() - began)


def write_jpegs(folder: Path, n: int, width: int, height: int) -> None:
    """Smooth colours with some noise, as photographs are, in ten class folders."""
    g = torch.Generator().manual_seed(0)
    for k in range(n):
        smooth = F.interpolate(torch.rand(1, 3, 12, 16, generator=g), (height, width), mode="bilinear")[0]
        pixels = (255 * (0.9 * smooth + 0.1 * torch.rand(3, height, width, generator=g))).byte().permute(1, 2, 0)
        path = folder / f"{k % 10}" / f"{k:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(path, quality=85)


def decoded(path: Path) -> int:
    with Image.open(path) as image:
        return image.convert("RGB").width > 0


def cut_whole(path: Path, index: int) -> Tensor:
    with Image.open(path) as image:
        whole = image.convert("RGB")
    part = whole.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=random_part(1, index)(*whole.size))
    return torch.from_numpy(np.array(part)).permute(2, 0, 1).contiguous()


class Folder(Dataset[tuple[Tensor, int]]):
    """torchvision's ImageFolder with RandomResizedCrop, RandomHorizontalFlip and PILToTensor, written out."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path = self.paths[index]
        with Image.open(path) as image:
            whole = image.convert("RGB")
        box = random_part(random.getrandbits(31), index)(*whole.size)
        part = whole.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
        if random.random() < 0.5:
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(part)).permute(2, 0, 1).contiguous(), int(path.parent.name)


def ordinary(folder: Path, workers: int) -> "DataLoader[tuple[Tensor, int]]":
    return DataLoader(
        Folder(folder), BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0, drop_last=False
    )
