"""Our convolutions against cuDNN's, pass by pass, on a GPU: microseconds at batch 128, and the error of ours.

python -m benchmarks.convolutions
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.networks import conv_kernels as kernels

SHAPES = ((16, 32), (32, 16), (64, 8))


def microseconds(job: Callable[[], object]) -> float:
    from triton.testing import do_bench_cudagraph

    return 1000 * float(do_bench_cudagraph(job, rep=20))


def backward(x: Tensor, w: Tensor, up: Tensor, of: list[bool]) -> tuple[Tensor, ...]:
    """By the input, the weights and the bias, as far as asked for."""
    ones = [1, 1]
    return torch.ops.aten.convolution_backward(up, x, w, None, ones, ones, ones, False, [0, 0], 1, of)


def main() -> None:
    torch.backends.cudnn.benchmark = True
    print("channels  side    forward        to the input   to the weights   (cuDNN / ours, us)   error")
    for channels, side in SHAPES:
        g = torch.Generator("cuda").manual_seed(0)
        x, up = (torch.randn(128, channels, side, side, device="cuda", generator=g).bfloat16() for _ in range(2))
        w = (torch.randn(channels, channels, 3, 3, device="cuda", generator=g) / 10).bfloat16()
        x, up, w = (tensor.to(memory_format=torch.channels_last) for tensor in (x, up, w))
        blocks, chunks = kernels.BLOCKS[channels], kernels.CHUNKS[channels]
        theirs = (
            lambda x=x, w=w: F.conv2d(x, w, padding=1),
            lambda x=x, w=w, up=up: backward(x, w, up, [True, False, False])[0],
            lambda x=x, w=w, up=up: backward(x, w, up, [False, True, False])[1],
        )
        ours = (
            lambda x=x, w=w, b=blocks: kernels.conv3x3(x, w, False, *b),
            lambda w=w, up=up, b=blocks: kernels.conv3x3(up, w, True, *b),
            lambda x=x, up=up, c=chunks: kernels.conv3x3_weights(x, up, *c),
        )
        exact = F.conv2d(x.double(), w.double(), padding=1)
        error = float((ours[0]().double() - exact).norm() / exact.norm())
        pairs = [f"{microseconds(a):5.1f} / {microseconds(b):5.1f}" for a, b in zip(theirs, ours, strict=True)]
        print(f"{channels:8d}  {side:4d}  {'  '.join(pairs)}   {error:.4f}")


if __name__ == "__main__":
    main()
