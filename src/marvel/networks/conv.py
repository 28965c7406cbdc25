"""The 3 x 3 convolution of ResNet-32: PyTorch's, and on a GPU in bfloat16 our own where that is faster."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Conv3x3(nn.Conv2d):
    """3 x 3, stride 1, the image's size kept, no bias."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1, bias=False)
        self.quick = quick_convolution() if before == after and before in (16, 32, 64) else None

    def forward(self, x: Tensor) -> Tensor:
        if self.quick is not None and x.is_cuda and x.dtype == self.weight.dtype == torch.bfloat16:
            return self.quick(x, self.weight)
        return super().forward(x)


def quick_convolution() -> Callable[[Tensor, Tensor], Tensor] | None:
    """Ours, where there is a GPU with bfloat16 tensor cores, and Triton to compile it."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        return None
    try:
        from marvel.networks import kernels
    except ImportError:
        return None
    return kernels.convolution
