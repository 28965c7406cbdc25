"""What a run costs, roughly: seconds of one H200 when runs are packed, bf16 and compiled.

Estimates for planning, by how many images go through the network; `docs/performance.md` has what was measured.
"""

from marvel.config import Config, filled
from marvel.presets import PRESETS

INSTANCES = {
    "digits": 1_257,
    "boot-sneaker": 12_000,
    "truck-car": 10_000,
    "cat-dog": 10_000,
    "aquatic-fish": 5_000,
    "fashion-mnist": 60_000,
    "webvision50": 126_370,
    "clothing100k": 100_000,
}
"""Of the training sets; CIFAR's are below."""
CIFAR = 50_000

RATES = {
    "cnn2": 200_000,
    "cnn4": 150_000,
    "resnet18": 50_000,
    "resnet32": 120_000,
    "resnet34": 25_000,
    "resnet50": 2_500,
}
"""Images a second, trained and judged. ResNet-18 and -32 were measured; the others go by their arithmetic."""

TIMES = {
    "aum": 2.0,
    "co-teaching": 2.0,
    "confident-learning": 2.3,
    "dy-bootstrap": 1.8,
    "incv": 4.0,
    "l_dmi": 4.0,  # of its 40 epochs; cross entropy comes first
    "d2l": 1.1,
    "marvel-semi": 1.42,
}
"""How many runs of cross entropy a run of the method is worth."""


def seconds(config: Config) -> float | None:
    """Of one run; None of data and networks that nothing is known of."""
    preset = PRESETS.get(config.data)
    config = config if preset is None else filled(config, preset)
    instances = CIFAR if config.data.startswith("cifar") else INSTANCES.get(config.data)
    rate = RATES.get((config.network or "").partition("-")[0])
    if instances is None or rate is None or config.epochs is None:
        return None
    shrinks = config.method == "oracle" and config.options.get("skip_removed", True)
    kept = 1 - config.rate if shrinks else 1.0
    return config.epochs * instances * (1 - config.hold_out) * kept * TIMES.get(config.method, 1.0) / rate
