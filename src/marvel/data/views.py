"""The views of a batch that training and testing see, made for the whole batch where it lives.

Every random choice is read from uniform numbers in [0, 1) that the caller draws, one row per instance: a view is a
function of them, so order and augmentation follow from the seed. Nothing here waits for the device, loops over
instances or has a shape that depends on values, so that a step can be captured as a graph.
"""

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.data.core import AUGMENTS
from marvel.errors import InvalidInput

PAD = 4
ROTATE = math.radians(30)
SHEAR = 0.3
SHIFT = 1 / 8
COLOUR = 0.4
NOISE = 0.1
DROP = 0.1


class Views:
    """Plain, weak and strong views of raw instances; each gives standardised float32.

    plain   the instance as it is: what is tested
    weak    "crop-flip": 4 black pixels around the image, a random crop of the original size, a horizontal flip half
            of the time. "resized-crop-flip": the flip alone, since workers have cut the part out. "none": the plain
            view
    strong  images: the weak view, then a random rotation (up to 30 degrees), shear (0.3) and shift (an eighth of the
            side) in one resampling, brightness, contrast and (with three channels) saturation changed by factors
            in 0.6..1.4, and a square of half the shorter side, centred anywhere, set to the mean.
            vectors: Gaussian noise of a tenth of each feature's deviation, and a tenth of the features set to the mean.
            All this in full; a `strength` of a half halves every one of these numbers, and 0 leaves the weak view

    `weak_uniforms` and `strong_uniforms` say how many uniform numbers an instance needs for each.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], augment: str, shape: Sequence[int]) -> None:
        if augment not in AUGMENTS:
            raise InvalidInput(f"augment is one of {', '.join(AUGMENTS)}, given '{augment}'")
        if len(shape) not in (1, 3) or (augment != "none" and len(shape) == 1):
            raise InvalidInput(f"views are of images (C, H, W) or vectors (D,) without {augment}, given {tuple(shape)}")
        if not len(mean) == len(std) == shape[0]:
            raise InvalidInput(f"mean and std have {shape[0]} numbers, given {len(mean)} and {len(std)}")
        self.augment = augment
        self.shape = tuple(shape)
        column = (-1, 1, 1) if self.image else (-1,)
        # x * scale + shift is (x - mean) / std in one operation.
        deviation = torch.tensor(std, dtype=torch.float64)
        self.scale = (1 / deviation).float().view(column)
        self.byte_scale = (1 / (255 * deviation)).float().view(column)
        self.shift = (-torch.tensor(mean, dtype=torch.float64) / deviation).float().view(column)
        self.weak_uniforms = {"none": 0, "crop-flip": 3, "resized-crop-flip": 1}[augment]
        if self.image:
            self.strong_uniforms = self.weak_uniforms + 8 + (shape[0] == 3)
        else:
            self.strong_uniforms = 2 * math.ceil(shape[0] / 2) + shape[0]

    @property
    def image(self) -> bool:
        return len(self.shape) == 3

    def to(self, device: torch.device | str) -> "Views":
        """The same views with their constants on the device."""
        other = copy.copy(self)
        other.scale, other.byte_scale, other.shift = (c.to(device) for c in (self.scale, self.byte_scale, self.shift))
        return other

    def plain(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, x, self.byte_scale if x.dtype == torch.uint8 else self.scale)

    def weak(self, x: Tensor, u: Tensor) -> Tensor:
        self._check(x, u, self.weak_uniforms)
        return self.plain(self._crop_flip(x, u))

    def strong(self, x: Tensor, u: Tensor, strength: float = 1.0) -> Tensor:
        self._check(x, u, self.strong_uniforms)
        if not self.image:
            return self._disturb(self.plain(x), u, strength)
        first = self.weak_uniforms
        weak, affine, colour, square = u[:, :first], u[:, first : first + 4], u[:, first + 4 : -2], u[:, -2:]
        moved = _affine(_unit(self._crop_flip(x, weak)), affine, strength)
        coloured = _recolour(moved, colour, strength)
        if x.dtype == torch.uint8:
            coloured = coloured.clamp(0, 1)
        return _cut_out(self.plain(coloured), square, strength)

    def _check(self, x: Tensor, u: Tensor, uniforms: int) -> None:
        if x.shape[1:] != self.shape or u.shape != (len(x), uniforms):
            raise InvalidInput(
                f"a batch of m instances {self.shape} and uniforms (m, {uniforms}) are needed, "
                f"given {tuple(x.shape)} and {tuple(u.shape)}"
            )

    def _crop_flip(self, x: Tensor, u: Tensor) -> Tensor:
        """Raw in, raw out: the pixels are gathered as bytes, a quarter of the traffic of floats."""
        if self.augment == "none":
            return x
        if self.augment == "resized-crop-flip":
            return torch.where(u[:, 0, None, None, None] < 0.5, x.flip(-1), x)
        m, (channels, height, width) = len(x), self.shape
        offset = (u[:, :2] * (2 * PAD + 1)).long().clamp(max=2 * PAD)
        rows = offset[:, 0, None] + torch.arange(height, device=x.device)
        column = torch.arange(width, device=x.device)
        columns = offset[:, 1, None] + torch.where(u[:, 2, None] < 0.5, width - 1 - column, column)
        padded = F.pad(x, (PAD, PAD, PAD, PAD))
        instance = torch.arange(m, device=x.device).view(m, 1, 1, 1)
        channel = torch.arange(channels, device=x.device).view(1, channels, 1, 1)
        return padded[instance, channel, rows[:, None, :, None], columns[:, None, None, :]]

    def _disturb(self, x: Tensor, u: Tensor, strength: float) -> Tensor:
        """Noise by Box and Muller's transform, whose two results per pair of uniforms are both used."""
        features = x.shape[1]
        pairs = math.ceil(features / 2)
        radius = (-2 * torch.log1p(-u[:, :pairs])).sqrt()
        angle = 2 * math.pi * u[:, pairs : 2 * pairs]
        noise = torch.cat((radius * angle.cos(), radius * angle.sin()), dim=1)[:, :features]
        return (x + strength * NOISE * noise).masked_fill(u[:, 2 * pairs :] < strength * DROP, 0.0)


def _unit(x: Tensor) -> Tensor:
    """Bytes on the scale 0..1; floats as they are."""
    return x.float() / 255 if x.dtype == torch.uint8 else x


def _around(u: Tensor, reach: float) -> Tensor:
    """Uniforms in [0, 1) -> uniforms in [-reach, reach)."""
    return (2 * u - 1) * reach


def _affine(x: Tensor, u: Tensor, strength: float) -> Tensor:
    """Rotates, shears and shifts each image about its centre; what comes in from outside is black."""
    height, width = x.shape[2:]
    angle, shear = _around(u[:, 0], strength * ROTATE), _around(u[:, 1], strength * SHEAR)
    cos, sin = angle.cos(), angle.sin()
    shift = _around(u[:, 2:], strength * 2 * SHIFT)  # the grid's coordinates run over a length of 2
    # The grid is scaled to a square; the ratios keep a rotation a rotation where the image is none.
    along = (cos, (cos * shear - sin) * (height / width), shift[:, 0])
    down = (sin * (width / height), sin * shear + cos, shift[:, 1])
    across = (2 * torch.arange(width, device=x.device) + 1) / width - 1
    below = ((2 * torch.arange(height, device=x.device) + 1) / height - 1)[:, None]
    # By hand: F.affine_grid would multiply matrices, which autocast does in bfloat16, out by part of a pixel.
    a, b = ([of[:, None, None] for of in line] for line in (along, down))
    grid = torch.stack([a[0] * across + a[1] * below + a[2], b[0] * across + b[1] * below + b[2]], dim=3)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _recolour(x: Tensor, u: Tensor, strength: float) -> Tensor:
    """Brightness about black, contrast about the image's mean, saturation about each pixel's grey."""
    factor = 1 + _around(u, strength * COLOUR)[:, :, None, None, None]
    x = x * factor[:, 0]
    x = torch.lerp(x.mean(dim=(1, 2, 3), keepdim=True), x, factor[:, 1])
    return x if u.shape[1] == 2 else torch.lerp(x.mean(dim=1, keepdim=True), x, factor[:, 2])


def _cut_out(x: Tensor, u: Tensor, strength: float) -> Tensor:
    """Sets a square of half the shorter side, at full strength, to 0, the mean; part of it may lie outside."""
    height, width = x.shape[2:]
    reach = strength * min(height, width) / 4
    row = torch.arange(height, device=x.device) + 0.5
    column = torch.arange(width, device=x.device) + 0.5
    inside_rows = (row - u[:, 0, None] * height).abs() < reach
    inside_columns = (column - u[:, 1, None] * width).abs() < reach
    return x.masked_fill((inside_rows[:, :, None] & inside_columns[:, None, :])[:, None], 0.0)
