"""BatchNorm with what follows it, the shortcut and ReLU, in Triton: a training step's forward and backward pass.

Normalising is bound by memory: there is nothing to compute that takes as long as reading the image. So the images are
read as seldom as can be, twice on the way forward and twice on the way back, whatever else is done on the way. With
rows r = image, row and column, of M in all, and a channel c that is left out:

    y_r  = relu(a (x_r - mean) + bias + s_r)      a = weight / sigma;  s: the shortcut, where there is one
    g_r  = gy_r where y_r > 0, else 0             the gradient by s
    gb   = sum of g_r                             by bias
    gw   = sum of g_r (x_r - mean) / sigma        by weight
    gx_r = a (g_r - gb / M - (x_r - mean) / sigma gw / M)

Sums are over chunks of rows, in float32, and a second kernel joins the chunks in their order: the same numbers every
time. A chunk's moments are taken about one of its own values, and joined by their distances from the common mean (Chan,
Golub and LeVeque, 1983), so that a large mean costs no digits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE, WARPS = 4096, 4
"""Numbers a program holds at a time, and its warps."""
PROGRAMS = 512
"""How many programs sum up chunks: about four for each multiprocessor of an H200."""


@triton.jit
def chunk_moments(x, partial, rows, chunks, C: tl.constexpr, CHUNK: tl.constexpr, R: tl.constexpr, K: tl.constexpr):
    """Mean and sum of squared deviations of a chunk of rows; partial lies as (2, chunks, channels)."""
    chunk = tl.program_id(0)
    c = tl.program_id(1) * K + tl.arange(0, K)
    first = chunk * CHUNK
    some = tl.load(x + first.to(tl.int64) * C + c).to(tl.float32)  # any of the values will do: they lie around it
    total = tl.zeros((R, K), tl.float32)
    squares = tl.zeros((R, K), tl.float32)
    for start in range(0, CHUNK, R):
        r = first + start + tl.arange(0, R)
        there = (r < rows)[:, None]
        tile = tl.load(x + r[:, None].to(tl.int64) * C + c[None, :], mask=there, other=0.0).to(tl.float32)
        apart = tl.where(there, tile - some[None, :], 0.0)
        total += apart
        squares += apart * apart
    count = tl.minimum(rows - first, CHUNK).to(tl.float32)
    mean = tl.sum(total, 0) / count
    tl.store(partial + chunk * C + c, some + mean)
    tl.store(partial + (chunks + chunk) * C + c, tl.sum(squares, 0) - mean * mean * count)


@triton.jit
def join_moments(
    partial, weight, bias, running_mean, running_variance, line, rows, chunks, eps, momentum,
    C: tl.constexpr, CHUNK: tl.constexpr, G: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The moments of all rows, the running ones brought up to date, and the lines mean, a, bias and 1 / sigma."""
    c = tl.program_id(0) * K + tl.arange(0, K)
    g = tl.arange(0, G)
    there = (g < chunks)[:, None]
    place = partial + g[:, None] * C + c[None, :]
    means = tl.load(place, mask=there, other=0.0)
    count = tl.minimum(tl.maximum(rows - g * CHUNK, 0), CHUNK).to(tl.float32)[:, None]
    mean = tl.sum(means * count, 0) / rows
    apart = means - mean[None, :]
    squares = tl.load(place + chunks * C, mask=there, other=0.0) + apart * apart * count
    total = tl.maximum(tl.sum(squares, 0), 0.0)
    sharp = 1 / tl.sqrt(total / rows + eps)
    tl.store(line + c, mean)
    tl.store(line + C + c, tl.load(weight + c) * sharp)
    tl.store(line + 2 * C + c, tl.load(bias + c))
    tl.store(line + 3 * C + c, sharp)
    before = tl.load(running_mean + c)
    tl.store(running_mean + c, before + momentum * (mean - before))
    before = tl.load(running_variance + c)
    tl.store(running_variance + c, before + momentum * (total / (rows - 1) - before))


@triton.jit
def normalise(
    x, shortcut, line, y, rows, C: tl.constexpr, ADD: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, K: tl.constexpr
):
    """y, a tile of it."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * K + tl.arange(0, K)
    there = (r < rows)[:, None]
    place = r[:, None].to(tl.int64) * C + c[None, :]
    mean = tl.load(line + c)[None, :]
    a = tl.load(line + C + c)[None, :]
    bias = tl.load(line + 2 * C + c)[None, :]
    out = (tl.load(x + place, mask=there, other=0.0).to(tl.float32) - mean) * a + bias
    if ADD:
        out += tl.load(shortcut + place, mask=there, other=0.0).to(tl.float32)
    if RELU:
        out = tl.maximum(out, 0.0)
    tl.store(y + place, out.to(y.dtype.element_ty), mask=there)


@triton.jit
def chunk_gradients(
    gy, x, y, line, g, partial, rows, chunks, C: tl.constexpr, CHUNK: tl.constexpr,
    ADD: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """gb and gw of a chunk of rows, partial as (2, chunks, channels); and g itself, where a shortcut wants it."""
    chunk = tl.program_id(0)
    c = tl.program_id(1) * K + tl.arange(0, K)
    mean = tl.load(line + c)[None, :]
    a = tl.load(line + C + c)[None, :]
    bias = tl.load(line + 2 * C + c)[None, :]
    by_bias = tl.zeros((R, K), tl.float32)
    by_weight = tl.zeros((R, K), tl.float32)
    for start in range(0, CHUNK, R):
        r = chunk * CHUNK + start + tl.arange(0, R)
        there = (r < rows)[:, None]
        place = r[:, None].to(tl.int64) * C + c[None, :]
        up = tl.load(gy + place, mask=there, other=0.0).to(tl.float32)
        away = tl.load(x + place, mask=there, other=0.0).to(tl.float32) - mean
        if RELU:
            if ADD:
                up = tl.where(tl.load(y + place, mask=there, other=0.0) > 0, up, 0.0)
                tl.store(g + place, up.to(g.dtype.element_ty), mask=there)
            else:
                up = tl.where(away * a + bias > 0, up, 0.0)
        by_bias += up
        by_weight += up * away
    tl.store(partial + chunk * C + c, tl.sum(by_bias, 0))
    tl.store(partial + (chunks + chunk) * C + c, tl.sum(by_weight, 0) * tl.load(line + 3 * C + c))


@triton.jit
def join_gradients(
    partial, line, by_bias, by_weight, back, rows, chunks, C: tl.constexpr, G: tl.constexpr, K: tl.constexpr
):
    """gb and gw of all rows, and what gx is made with: gx = a g + back_0 (x - mean) + back_1."""
    c = tl.program_id(0) * K + tl.arange(0, K)
    g = tl.arange(0, G)
    there = (g < chunks)[:, None]
    place = partial + g[:, None] * C + c[None, :]
    gb = tl.sum(tl.load(place, mask=there, other=0.0), 0)
    gw = tl.sum(tl.load(place + chunks * C, mask=there, other=0.0), 0)
    tl.store(by_bias + c, gb)
    tl.store(by_weight + c, gw)
    a = tl.load(line + C + c)
    tl.store(back + c, -a * tl.load(line + 3 * C + c) * gw / rows)
    tl.store(back + C + c, -a * gb / rows)


@triton.jit
def gradient(gy, x, line, back, gx, rows, C: tl.constexpr, MASK: tl.constexpr, R: tl.constexpr, K: tl.constexpr):
    """gx, a tile of it; where MASK, gy has not been through ReLU yet."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * K + tl.arange(0, K)
    there = (r < rows)[:, None]
    place = r[:, None].to(tl.int64) * C + c[None, :]
    a = tl.load(line + C + c)[None, :]
    up = tl.load(gy + place, mask=there, other=0.0).to(tl.float32)
    away = tl.load(x + place, mask=there, other=0.0).to(tl.float32) - tl.load(line + c)[None, :]
    if MASK:
        up = tl.where(away * a + tl.load(line + 2 * C + c)[None, :] > 0, up, 0.0)
    out = a * up + tl.load(back + c)[None, :] * away + tl.load(back + C + c)[None, :]
    tl.store(gx + place, out.to(gx.dtype.element_ty), mask=there)


class Cut:
    """How the rows and channels of images (m, channels, H, W) are cut into tiles and chunks."""

    def __init__(self, x: Tensor) -> None:
        self.channels = x.shape[1]
        self.rows = x.numel() // self.channels
        self.wide = min(self.channels, 64)
        self.tall = TILE // self.wide
        columns = self.channels // self.wide
        # Powers of two, so that batches of nearly the same size share a kernel.
        self.chunk = max(self.tall, triton.next_power_of_2(-(-self.rows * columns // PROGRAMS)))
        self.chunks = -(-self.rows // self.chunk)
        self.over_chunks = (self.chunks, columns)
        self.over_tiles = (-(-self.rows // self.tall), columns)
        self.joined = triton.next_power_of_2(self.chunks)
        self.joiners = max(1, min(self.channels, TILE // self.joined))
        self.over_channels = (self.channels // self.joiners,)

    def partial(self, like: Tensor) -> Tensor:
        return torch.empty(2, self.chunks, self.channels, dtype=torch.float32, device=like.device)


class Normed(torch.autograd.Function):
    """ReLU of BatchNorm of x, plus a shortcut, for training; the running mean and variance are brought up to date."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shortcut: Tensor | None, weight: Tensor, bias: Tensor,
        mean: Tensor, variance: Tensor, momentum: float, eps: float, relu: bool,
    ) -> Tensor:  # fmt: skip
        cut, add = Cut(x), shortcut is not None
        partial = cut.partial(x)
        line = torch.empty(4, cut.channels, dtype=torch.float32, device=x.device)
        y = torch.empty_like(x)
        tile = {"R": cut.tall, "K": cut.wide, "num_warps": WARPS}
        chunk_moments[cut.over_chunks](x, partial, cut.rows, cut.chunks, cut.channels, cut.chunk, **tile)
        join_moments[cut.over_channels](
            partial, weight, bias, mean, variance, line, cut.rows, cut.chunks, eps, momentum,
            cut.channels, cut.chunk, cut.joined, cut.joiners, num_warps=WARPS,
        )  # fmt: skip
        normalise[cut.over_tiles](x, shortcut if add else x, line, y, cut.rows, cut.channels, add, relu, **tile)
        ctx.save_for_backward(x, y if add and relu else None, line)
        ctx.add, ctx.relu = add, relu
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        x, y, line = ctx.saved_tensors
        up = up.contiguous(memory_format=torch.channels_last)
        cut, through = Cut(x), ctx.add and ctx.relu
        partial = cut.partial(x)
        by_bias, by_weight = torch.empty(2, cut.channels, dtype=torch.float32, device=x.device)
        back = torch.empty(2, cut.channels, dtype=torch.float32, device=x.device)
        g = torch.empty_like(x) if through else up
        gx = torch.empty_like(x)
        tile = {"R": cut.tall, "K": cut.wide, "num_warps": WARPS}
        chunk_gradients[cut.over_chunks](
            up, x, y if through else x, line, g, partial, cut.rows, cut.chunks, cut.channels, cut.chunk,
            ctx.add, ctx.relu, **tile,
        )  # fmt: skip
        join_gradients[cut.over_channels](
            partial, line, by_bias, by_weight, back, cut.rows, cut.chunks, cut.channels, cut.joined, cut.joiners,
            num_warps=WARPS,
        )  # fmt: skip
        gradient[cut.over_tiles](g, x, line, back, gx, cut.rows, cut.channels, ctx.relu and not ctx.add, **tile)
        return gx, g if ctx.add else None, by_weight, by_bias, *[None] * 5
