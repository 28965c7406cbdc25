"""3 x 3 convolutions that are quicker on a GPU in bfloat16 than PyTorch's own, where that can be."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marvel.networks.quick import kernels


class Conv3x3(nn.Conv2d):
    """3 x 3, stride 1, the image's size kept, no bias."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1, bias=False)
        ours = kernels("conv") if before == after and before in (16, 32, 64) else None
        self.quick = None if ours is None else ours.convolution

    def forward(self, x: Tensor) -> Tensor:
        if self.quick is not None and x.is_cuda and x.dtype == self.weight.dtype == torch.bfloat16:
            out: Tensor = self.quick(x, self.weight)
            return out
        return super().forward(x)


class Stem(nn.Conv2d):
    """The first convolution: 3 x 3, stride 1, the image's size kept, no bias.

    Tensor cores take channels by the eight. With the three of an image cuDNN does without them, and takes several times
    as long as for eight: so there images and weights are filled up with zeros.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        weight, lacking = self.weight, -self.in_channels % 8
        if lacking and x.is_cuda and torch.bfloat16 in (x.dtype, weight.dtype):
            zeros = (0, 0, 0, 0, 0, lacking)
            x, weight = F.pad(x, zeros), F.pad(weight, zeros)
        return F.conv2d(x, weight, padding=1)
