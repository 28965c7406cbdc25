"""What a run takes from the data alone: network, size of the images, epochs, learning rate, batch."""

from typing import Any

from marvel.config import Config, options_of
from marvel.data.core import Data
from marvel.data.images import LARGEST
from marvel.distributed import device_for
from marvel.methods import METHODS
from marvel.presets import PRESETS, Preset

CPU_SIZE = 32
"""The side of larger images in files, on a CPU: there two thousand of them should take a minute or two."""
SMALL = 16
"""Images with a shorter side have a network of their own."""
FEW, FEW_ROWS = 1000, 128
"""Images, and rows of features, below which batches are of 32. A small table is learnt by heart in a few epochs as it
is, wrong labels and all; smaller batches, which are more steps, would hasten that."""


def largest(config: Config) -> int:
    """The size of larger images in files."""
    return CPU_SIZE if device_for(config.device) == "cpu" else LARGEST


def suited(config: Config, data: Data, given: set[str]) -> Config:
    """The settings with what is not among those `given` chosen to suit the data."""
    chosen: dict[str, Any] = {"ledger": True}
    image = len(data.shape) == 3
    if len(data) < (FEW if image else FEW_ROWS):
        chosen["batch"] = 32
    if image and min(data.shape[1:]) >= SMALL and device_for(config.device) == "cpu":
        # The paper's networks take hours on a CPU.
        chosen |= usual(Preset("cnn4-bn", 40, 0.02, (30,), (30,)), config)
    elif image and SMALL <= min(data.shape[1:]) <= 64 and config.data not in PRESETS:
        chosen |= usual(Preset("resnet32", 120, 0.1, (80, 100), (80, 100)), config)
    if data.origin is not None and data.origin.kind in ("folder", "listed", "shards", "paths") and image:
        chosen["size"] = data.shape[-1]  # as it was read, whatever device goes on with it
    options = dict(config.options)
    if "warmup" in options_of(METHODS[config.method]):
        options.setdefault("warmup", "auto")
    return config.but(**{name: value for name, value in chosen.items() if name not in given}, options=options)


def usual(preset: Preset, config: Config) -> dict[str, Any]:
    """Network, learning rate and, unless the epochs are given, how long and on which schedule."""
    chosen: dict[str, Any] = {"network": preset.network, "lr": preset.lr_for(config.method)}
    if config.epochs is None:
        # Epochs to drop after that were given are meant, whatever the method would have else.
        schedule = config.schedule if config.drops is not None else preset.schedule_for(config.method)
        chosen |= {"epochs": preset.epochs, "drops": preset.drops, "schedule": schedule}
    return chosen
