"""ResNet-18, -34 and -50 (He et al., CVPR 2016) with torchvision's parameter names, so that published weights load.

ResNet-18 and -34 are for images of about 32 x 32 pixels: a 3 x 3 stem of stride 1, no max-pooling, PyTorch's default
initialisation. ResNet-50 is torchvision's: a 7 x 7 stem of stride 2, max-pooling, the stride of a bottleneck in its
3 x 3 convolution, convolutions from N(0, 2 / fan-out).
"""

from torch import Tensor, nn

from marvel.networks.conv import Stem
from marvel.networks.network import Network
from marvel.networks.norm import BatchNorm2d, relu_of
from marvel.networks.shape import image


def projection(before: int, after: int, stride: int) -> nn.Sequential | None:
    """The shortcut's 1 x 1 convolution and BatchNorm; none where the block changes neither width nor size."""
    if stride == 1 and before == after:
        return None
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), BatchNorm2d(after))


class Basic(nn.Module):
    """Two 3 x 3 convolutions, plus the shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.downsample = projection(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = relu_of(self.bn1, self.conv1(x))
        return relu_of(self.bn2, self.conv2(out), shortcut)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions, the last four times as wide, plus the shortcut."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = self.expansion * width
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = BatchNorm2d(after)
        self.downsample = projection(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = relu_of(self.bn1, self.conv1(x))
        out = relu_of(self.bn2, self.conv2(out))
        return relu_of(self.bn3, self.conv3(out), shortcut)


class ResNet(Network):
    """A stem, four stages of blocks with 64, 128, 256 and 512 channels, the mean over all pixels, a linear layer."""

    def __init__(
        self, block: type[Basic] | type[Bottleneck], depths: tuple[int, int, int, int], stem: nn.Conv2d, classes: int
    ) -> None:
        super().__init__()
        self.conv1 = stem
        self.bn1 = BatchNorm2d(64)
        self.maxpool = nn.Identity() if stem.stride == (1, 1) else nn.MaxPool2d(3, stride=2, padding=1)

        def stage(before: int, width: int, depth: int, stride: int) -> nn.Sequential:
            after = block.expansion * width
            return nn.Sequential(block(before, width, stride), *(block(after, width, 1) for _ in range(depth - 1)))

        self.layer1 = stage(64, 64, depths[0], 1)
        self.layer2 = stage(64 * block.expansion, 128, depths[1], 2)
        self.layer3 = stage(128 * block.expansion, 256, depths[2], 2)
        self.layer4 = stage(256 * block.expansion, 512, depths[3], 2)
        self.fc = nn.Linear(512 * block.expansion, classes)

    def features(self, x: Tensor) -> Tensor:
        pixels: Tensor = self.maxpool(relu_of(self.bn1, self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            pixels = stage(pixels)
        return pixels.mean((2, 3))


def resnet18(classes: int, shape: tuple[int, ...]) -> Network:
    """ResNet-18 for small images."""
    channels, _, _ = image(shape, "resnet18")
    return ResNet(Basic, (2, 2, 2, 2), Stem(channels, 64), classes)


def resnet34(classes: int, shape: tuple[int, ...]) -> Network:
    """ResNet-34 for small images."""
    channels, _, _ = image(shape, "resnet34")
    return ResNet(Basic, (3, 4, 6, 3), Stem(channels, 64), classes)


def resnet50(classes: int, shape: tuple[int, ...]) -> Network:
    """ResNet-50 for large images, as torchvision has it."""
    channels, _, _ = image(shape, "resnet50")
    stem = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    network = ResNet(Bottleneck, (3, 4, 6, 3), stem, classes)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return network
