"""3 x 3 convolutions of few channels, in Triton.

cuDNN's tensor-core kernels are made for many channels: with the 16, 32 and 64 of ResNet-32 most of a tile is empty, and
a layer takes several times what its memory traffic would. Here a program takes a block of pixels and all channels: nine
small products, one for each tap, of rows that lie side by side in channels-last memory.

    out[p] = sum over taps t of  x[p + t] w[t]                      p: image, row and column; zero outside the image
    gx[p]  = sum over taps t of  gy[p - t] w[t]^T                   the same kernel, with the taps turned around
    gw[t]  = sum over pixels p of  x[p + t]^T gy[p]                 in chunks, whose partial sums are added afterwards
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton


@triton.jit
def pixels_kernel(
    x, w, out, pixels, H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,
    TURNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of output pixels; w lies as (out channels, 3, 3, in channels) of the layer's forward direction."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = (p // W) % H
    column = p % W
    ci = tl.arange(0, CI)
    co = tl.arange(0, CO)
    total = tl.zeros((BLOCK, CO), tl.float32)
    for tap in tl.static_range(9):
        dy = tap // 3 - 1
        dx = tap % 3 - 1
        inside = (p < pixels) & (row + dy >= 0) & (row + dy < H) & (column + dx >= 0) & (column + dx < W)
        a = tl.load(x + (p + dy * W + dx)[:, None] * CI + ci[None, :], mask=inside[:, None], other=0.0)
        if TURNED:
            b = tl.load(w + ci[:, None] * (9 * CO) + (8 - tap) * CO + co[None, :])
        else:
            b = tl.load(w + co[None, :] * (9 * CI) + tap * CI + ci[:, None])
        total = tl.dot(a, b, total)
    tl.store(out + p[:, None] * CO + co[None, :], total.to(out.dtype.element_ty), mask=(p < pixels)[:, None])


@triton.jit
def weights_kernel(
    x, gy, partial, pixels, H: tl.constexpr, W: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One tap over one chunk of pixels; partial lies as (chunks, out channels, 9, in channels)."""
    chunk = tl.program_id(0)
    tap = tl.program_id(1)
    dy = tap // 3 - 1
    dx = tap % 3 - 1
    ci = tl.arange(0, CI)
    co = tl.arange(0, CO)
    total = tl.zeros((CO, CI), tl.float32)
    for start in range(0, CHUNK, BLOCK):
        p = chunk * CHUNK + start + tl.arange(0, BLOCK)
        row = (p // W) % H
        column = p % W
        there = p < pixels
        inside = there & (row + dy >= 0) & (row + dy < H) & (column + dx >= 0) & (column + dx < W)
        a = tl.load(x + (p + dy * W + dx)[:, None] * CI + ci[None, :], mask=inside[:, None], other=0.0)
        g = tl.load(gy + co[:, None] + p[None, :] * CO, mask=there[None, :], other=0.0)
        total = tl.dot(g, a, total)
    tl.store(partial + ((chunk * CO + co)[:, None] * 9 + tap) * CI + ci[None, :], total)


@triton_op("marvel::conv3x3", mutates_args={})
def conv3x3(x: Tensor, w: Tensor, turned: bool, block: int, warps: int) -> Tensor:
    """x (m, channels, H, W) with w (out, in, 3, 3): the convolution, or where `turned` its gradient by the input."""
    x, w = x.permute(0, 2, 3, 1).contiguous(), w.permute(0, 2, 3, 1).contiguous()
    m, height, width, before = x.shape
    after = w.shape[3] if turned else w.shape[0]
    out = torch.empty(m, height, width, after, dtype=x.dtype, device=x.device)
    pixels = m * height * width
    wrap_triton(pixels_kernel)[(triton.cdiv(pixels, block),)](
        x, w, out, pixels, height, width, before, after, turned, block, num_warps=warps
    )
    return out.permute(0, 3, 1, 2)


@triton_op("marvel::conv3x3_weights", mutates_args={})
def conv3x3_weights(x: Tensor, gy: Tensor, chunk: int, block: int, warps: int) -> Tensor:
    """The gradient of conv3x3 by its weights, (out, in, 3, 3)."""
    x, gy = x.permute(0, 2, 3, 1).contiguous(), gy.permute(0, 2, 3, 1).contiguous()
    m, height, width, before = x.shape
    after = gy.shape[3]
    pixels = m * height * width
    chunks = triton.cdiv(pixels, chunk)
    partial = torch.empty(chunks, after, 9, before, dtype=torch.float32, device=x.device)
    wrap_triton(weights_kernel)[(chunks, 9)](
        x, gy, partial, pixels, height, width, before, after, chunk, block, num_warps=warps
    )
    return partial.sum(0).to(x.dtype).view(after, 3, 3, before).permute(0, 3, 1, 2)


BLOCKS = {16: (256, 4), 32: (64, 4), 64: (64, 4)}
"""By channels: pixels a program takes, and warps, forward and to the input; as measured on an H200."""
CHUNKS = {16: (2048, 128, 4), 32: (512, 64, 4), 64: (1024, 128, 4)}
"""By channels: pixels a program takes for the weights' gradient, how many at a time, and warps."""


def convolution(x: Tensor, w: Tensor) -> Tensor:
    """The convolution of x (m, channels, H, W) with w (channels, channels, 3, 3), with gradients."""
    return conv3x3(x, w, False, *BLOCKS[x.shape[1]])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])


def _backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
    x, w = ctx.saved_tensors
    gx = conv3x3(gy, w, True, *BLOCKS[gy.shape[1]]) if ctx.needs_input_grad[0] else None
    gw = conv3x3_weights(x, gy, *CHUNKS[gy.shape[1]]) if ctx.needs_input_grad[1] else None
    return gx, gw, None, None, None


conv3x3.register_autograd(_backward, setup_context=_keep)
