"""ResNet-32 for CIFAR (He et al., CVPR 2016, section 4.2), in the variant of AUM's experiments.

The paper follows those. A 3 x 3 convolution, three stages of five basic blocks with 16, 32 and 64 channels, the mean
over all pixels, a linear layer. The shortcuts have no parameters: where a stage halves the image, they average 2 x 2
pixels and append channels of zeros. Convolutions start from N(0, 2 / fan-out), the linear layer from PyTorch's default.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from marvel.networks.conv import Conv3x3, Stem
from marvel.networks.network import Network
from marvel.networks.norm import BatchNorm2d, relu_of
from marvel.networks.shape import image

WIDTHS = (16, 32, 64)
BLOCKS = 5


class Block(nn.Module):
    """conv - BN - ReLU - conv - BN, plus the shortcut, then ReLU."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = (
            Conv3x3(before, after) if stride == 1 else nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        )
        self.bn1 = BatchNorm2d(after)
        self.conv2 = Conv3x3(after, after)
        self.bn2 = BatchNorm2d(after)
        self.added = after - before

    def shortcut(self, x: Tensor) -> Tensor:
        """The input itself, or its 2 x 2 means followed by channels of zeros where the block changes the size."""
        if self.added == 0:
            return x
        # ceil_mode: the strided convolution rounds odd sizes up, so must the mean.
        return F.pad(F.avg_pool2d(x, 2, ceil_mode=True), (0, 0, 0, 0, 0, self.added))

    def forward(self, x: Tensor) -> Tensor:
        out = relu_of(self.bn1, self.conv1(x))
        return relu_of(self.bn2, self.conv2(out), self.shortcut(x))


class ResNet32(Network):
    """The network of the paper's CIFAR-10 and CIFAR-100 tables: 464,154 parameters for ten classes."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv = Stem(channels, WIDTHS[0])
        self.bn = BatchNorm2d(WIDTHS[0])
        blocks, before = [], WIDTHS[0]
        for width in WIDTHS:
            for _ in range(BLOCKS):
                blocks.append(Block(before, width, stride=1 if width == before else 2))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(WIDTHS[-1], classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        pixels: Tensor = self.blocks(relu_of(self.bn, self.conv(x)))
        return pixels.mean((2, 3))


def resnet32(classes: int, shape: tuple[int, ...]) -> Network:
    """ResNet-32 with parameter-free shortcuts."""
    channels, _, _ = image(shape, "resnet32")
    return ResNet32(channels, classes)
