"""Drawn images of ten shapes: small, told apart by anybody, learned in seconds, and nobody's property."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

SHAPES = ("arrow", "circle", "cross", "diamond", "heart", "moon", "ring", "square", "star", "triangle")
FINE = 3
"""How many times larger a shape is drawn than it is saved, so that its edges are smooth."""

Points = list[tuple[float, float]]


def draw(shape: str, rng: np.random.Generator, size: int = 64, noise: float = 7) -> Image.Image:
    """One image of that shape: its place, size, turn and colours are random."""
    side = size * FINE
    dark, light = rng.integers(20, 120, 3), rng.integers(150, 245, 3)
    back, front = (dark, light) if rng.random() < 0.5 else (light, dark)
    mask = Image.new("L", (side, side), 0)
    _shape(ImageDraw.Draw(mask), shape, side)
    mask = mask.rotate(rng.uniform(-18, 18), resample=Image.Resampling.BILINEAR)
    scale = rng.uniform(0.62, 0.9)
    small = mask.resize((round(side * scale),) * 2)
    mask = Image.new("L", (side, side), 0)
    free = side - small.width
    mask.paste(small, (int(rng.integers(0, free + 1)), int(rng.integers(0, free + 1))))
    image = Image.new("RGB", (side, side), tuple(map(int, back)))
    image.paste(tuple(map(int, front)), (0, 0, side, side), mask)
    pixels = np.asarray(image.resize((size, size), Image.Resampling.LANCZOS), dtype=float)
    return Image.fromarray(np.clip(pixels + rng.normal(0, noise, pixels.shape), 0, 255).astype(np.uint8))


def _shape(pen: ImageDraw.ImageDraw, shape: str, side: int) -> None:
    def at(*points: tuple[float, float]) -> Points:
        return [(x * side, y * side) for x, y in points]

    round_box = at((0.12, 0.12), (0.88, 0.88))
    if shape == "circle":
        pen.ellipse(round_box, fill=255)
    elif shape == "ring":
        pen.ellipse(round_box, fill=255)
        pen.ellipse(at((0.32, 0.32), (0.68, 0.68)), fill=0)
    elif shape == "moon":
        pen.ellipse(round_box, fill=255)
        pen.ellipse(at((0.34, 0.06), (0.98, 0.7)), fill=0)
    elif shape == "square":
        pen.rectangle(at((0.18, 0.18), (0.82, 0.82)), fill=255)
    elif shape == "diamond":
        pen.polygon(at((0.5, 0.06), (0.86, 0.5), (0.5, 0.94), (0.14, 0.5)), fill=255)
    elif shape == "triangle":
        pen.polygon(at((0.5, 0.12), (0.92, 0.84), (0.08, 0.84)), fill=255)
    elif shape == "cross":
        pen.rectangle(at((0.39, 0.1), (0.61, 0.9)), fill=255)
        pen.rectangle(at((0.1, 0.39), (0.9, 0.61)), fill=255)
    elif shape == "arrow":
        pen.polygon(
            at((0.5, 0.08), (0.86, 0.48), (0.62, 0.48), (0.62, 0.92), (0.38, 0.92), (0.38, 0.48), (0.14, 0.48)), 255
        )
    elif shape == "heart":
        pen.ellipse(at((0.1, 0.14), (0.54, 0.56)), fill=255)
        pen.ellipse(at((0.46, 0.14), (0.9, 0.56)), fill=255)
        pen.polygon(at((0.135, 0.45), (0.5, 0.36), (0.865, 0.45), (0.5, 0.92)), fill=255)
    else:
        turns = [math.pi * k / 5 - math.pi / 2 for k in range(10)]
        reach = [0.46 if k % 2 == 0 else 0.19 for k in range(10)]
        pen.polygon(at(*((0.5 + r * math.cos(t), 0.5 + r * math.sin(t)) for r, t in zip(reach, turns))), fill=255)


class Planted(NamedTuple):
    """A folder of class folders in which some images lie in the wrong one."""

    folder: Path
    ids: list[str]
    given: np.ndarray[Any, Any]
    truth: np.ndarray[Any, Any]


def plant(folder: Path, n: int, wrong: float, seed: int = 0, size: int = 64, noise: float = 7) -> Planted:
    """Draw `n` images, and put the share `wrong` of them into the folder of another shape."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % len(SHAPES)
    given = truth.copy()
    moved = rng.permutation(n)[: round(wrong * n)]
    given[moved] = (truth[moved] + rng.integers(1, len(SHAPES), len(moved))) % len(SHAPES)
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True)
    ids = [f"{SHAPES[label]}/{k:04d}.png" for k, label in enumerate(given)]
    for name, label in zip(ids, truth, strict=True):
        draw(SHAPES[label], rng, size, noise).save(folder / name)
    order = np.argsort(ids)  # as a reader of class folders finds them
    return Planted(folder, [ids[k] for k in order], given[order], truth[order])
