"""Images a second of a training whose images are files, decoded by workers while the network trains.

JPEGs of 64 x 64 pixels, trained at 32 x 32: decoding takes more time than the network. The peer is the loop people
write, with as many workers.
"""

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from PIL import Image

from benchmarks.rows import Row, compared
from benchmarks.throughput import ORDINARY, ordinary, several, speed, trainings
from marvel.data import load
from marvel.data.images import ImageFiles

FILES = 12_800


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    if quick:
        yield from_files(device, "cnn2", 8, 32, 1)
    else:
        on_gpu = device.type == "cuda"
        yield from_files(device, "resnet18" if on_gpu else "cnn2", 128, FILES if on_gpu else FILES // 4, 5)


def from_files(device: torch.device, network: str, batch: int, files: int, rounds: int) -> Row:
    workers = os.cpu_count() or 1
    with TemporaryDirectory() as folder:
        write_jpegs(Path(folder), files)
        data = load(folder, size=32, hold=False)
        assert isinstance(data.x, ImageFiles)
        steps = len(data) // batch
        loops = {
            "mine": trainings(several(data, network, "captured", 1, batch, device, workers), batch),
            "peer": ordinary(data, network, batch, workers, device),
        }
        speeds = {}
        for name, loop in loops.items():  # one after the other: each needs all workers
            sum(islice(loop, steps))
            speeds[name] = [speed(loop, time.perf_counter, steps) for _ in range(rounds)]
            loop.close()
    what = f"marvel, streamed from JPEGs, {workers} workers, {network}"
    return compared(what, speeds["mine"], f"{ORDINARY} on the files", speeds["peer"], "images/s")


def write_jpegs(folder: Path, n: int) -> None:
    """Smooth colours with some noise, as photographs are, in ten class folders."""
    g = torch.Generator().manual_seed(0)
    for k in range(n):
        smooth = F.interpolate(torch.rand(1, 3, 8, 8, generator=g), 64, mode="bilinear")[0]
        pixels = (255 * (0.9 * smooth + 0.1 * torch.rand(3, 64, 64, generator=g))).byte().permute(1, 2, 0)
        path = folder / str(k % 10) / f"{k:06d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels.numpy()).save(path, quality=90)
