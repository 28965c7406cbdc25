"""BatchNorm that does not count its batches, and on a GPU in bfloat16 our own, with what follows it.

PyTorch adds one to a counter on the device at every call, which only `momentum=None` would read: in ResNet-32 that is
31 of the step's kernels, for nothing. The counter stays in the state dict, so that published weights load.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marvel.networks.quick import kernels


class BatchNorm1d(nn.BatchNorm1d):
    """BatchNorm over (m, features)."""

    def forward(self, x: Tensor) -> Tensor:
        return batch_norm(self, x)


class BatchNorm2d(nn.BatchNorm2d):
    """BatchNorm over (m, channels, height, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return quick(self, x, None, relu=False) if is_quick(self, x) else batch_norm(self, x)


def batch_norm(layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    mean, variance = layer.running_mean, layer.running_var
    assert layer.momentum is not None
    return F.batch_norm(x, mean, variance, layer.weight, layer.bias, layer.training, layer.momentum, layer.eps)


def relu_of(norm: nn.Module, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
    """ReLU of x as `norm` normalises it, plus the shortcut: the three in one, where they can be."""
    if isinstance(norm, BatchNorm2d) and is_quick(norm, x):
        return quick(norm, x, shortcut, relu=True)
    out: Tensor = norm(x)
    return F.relu(out if shortcut is None else out + shortcut, inplace=True)


def is_quick(norm: BatchNorm2d, x: Tensor) -> bool:
    """Whether our kernels can do it: in training, on images in bfloat16 whose channels lie side by side, with weights
    in float32. What torch.compile sees it fuses by itself."""
    in_half = x.is_cuda and x.dtype == torch.bfloat16 and norm.weight.dtype == torch.float32
    if not (norm.training and in_half) or torch.compiler.is_compiling():
        return False
    m, channels, height, width = x.shape
    powers = channels >= 16 and channels.bit_count() == 1
    laid_out = x.is_contiguous(memory_format=torch.channels_last)
    return powers and laid_out and m * height * width > 1 and kernels("norm") is not None


def quick(norm: BatchNorm2d, x: Tensor, shortcut: Tensor | None, relu: bool) -> Tensor:
    ours = kernels("norm")
    assert ours is not None
    if shortcut is not None:
        shortcut = shortcut.to(x.dtype, memory_format=torch.channels_last)
    with torch.cuda.device_of(x):  # Triton launches on the current GPU; backward, PyTorch makes it that of x
        y: Tensor = ours.Normed.apply(
            x, shortcut, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.momentum, norm.eps, relu
        )
    return y
