"""The paper's protocol for each of its problems: what a run takes when it is not told otherwise.

Its appendix gives networks, epochs and learning-rate drops; MARVEL keeps the high learning rate longer than the others.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """How a problem is trained."""

    network: str
    epochs: int
    lr: float
    drops: tuple[int, ...]  # epochs after which the learning rate falls to a tenth
    marvel_drops: tuple[int, ...]  # the same for MARVEL and MARVEL+
    warmup: int | str = "auto"

    def drops_for(self, method: str) -> tuple[int, ...]:
        return self.marvel_drops if method.startswith("marvel") else self.drops

    def warmup_for(self, method: str) -> int | str:
        return "auto" if method == "marvel-semi" else self.warmup

    def lr_for(self, method: str) -> float:
        """marvel-semi has less in its warm-up, and no more than this after it: docs/marvel-semi.md says why."""
        return min(self.lr, 0.06) if method == "marvel-semi" else self.lr

    def schedule_for(self, method: str) -> str:
        return "cosine" if method == "marvel-semi" and self.drops else "drops"


BINARY = Preset("resnet18", 100, 0.01, (75, 90), (75, 90), warmup=15)
CIFAR10 = Preset("resnet32", 120, 0.1, (40, 80), (80, 100), warmup=30)
CIFAR100 = Preset("resnet32", 150, 0.1, (80, 120), (100, 130), warmup=40)
CLOTHING = Preset("resnet50", 160, 0.1, (80, 120), (120, 140), warmup=70)
IMAGES = Preset("resnet18", 100, 0.1, (50, 75), (50, 75))
VECTORS = Preset("mlp", 60, 0.01, (), ())

PRESETS: dict[str, Preset] = {
    "digits": Preset("cnn2", 60, 0.01, (), (), warmup=5),
    "boot-sneaker": Preset("cnn4", 70, 0.01, (50, 60), (50, 60), warmup=10),
    "truck-car": BINARY,
    "cat-dog": Preset("resnet18", 100, 0.01, (75, 90), (75, 90), warmup=20),
    "aquatic-fish": BINARY,
    "cifar10": CIFAR10,
    "cifar10n-aggregate": CIFAR10,
    "cifar10n-worst": CIFAR10,
    "cifar100": CIFAR100,
    "cifar100-coarse": CIFAR100,
    "fashion-mnist": Preset("cnn4", 70, 0.01, (50, 60), (50, 60), warmup=10),
    "webvision50": Preset("resnet50", 160, 0.1, (80, 120), (120, 140), warmup=50),
    "clothing100k": CLOTHING,
    "clothing1m": CLOTHING,
}


def preset_for(data: str, shape: tuple[int, ...]) -> Preset:
    """The preset of a problem of the paper; otherwise one that suits the shape of an instance."""
    if data in PRESETS:
        return PRESETS[data]
    if len(shape) == 1:
        return VECTORS
    return Preset("cnn2", 60, 0.01, (), ()) if min(shape[1:]) < 16 else IMAGES
