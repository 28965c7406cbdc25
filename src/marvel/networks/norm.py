"""BatchNorm that does not count its batches.

PyTorch adds one to a counter on the device at every call, which only `momentum=None` would read: in ResNet-32 that is
31 of the step's kernels, for nothing. The counter stays in the state dict, so that published weights load.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class BatchNorm1d(nn.BatchNorm1d):
    """BatchNorm over (m, features)."""

    def forward(self, x: Tensor) -> Tensor:
        return batch_norm(self, x)


class BatchNorm2d(nn.BatchNorm2d):
    """BatchNorm over (m, channels, height, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return batch_norm(self, x)


def batch_norm(layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    mean, variance = layer.running_mean, layer.running_var
    assert layer.momentum is not None
    return F.batch_norm(x, mean, variance, layer.weight, layer.bias, layer.training, layer.momentum, layer.eps)
