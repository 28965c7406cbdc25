"""marvel-semi where its teacher is weak: 10,000 images of CIFAR-10, made 16 x 16, and a network of two convolutions.

    python experiments/semi_weak.py                     about an hour and a half of one CPU core
    python -m marvel.report.tables docs/marvel-semi*.md

The network is too small to memorise much, and its guesses are much worse than the labels that are kept. 50 epochs,
batches of 64, learning rate 0.02 with a cosine, Nesterov, weight decay 5e-4, symmetric noise or none; three seeds of
cross entropy, marvel-semi and control (a), nothing removed, and one of the others. `late` false: removal begins soon
after the warm-up, and does not wait until labels are memorised. `alpha` 0: no mixup. `lean`, how much kept labels lean
towards the guesses, is half by default.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch.nn.functional as F
from semi_digits import FIRST, LEAN, NO_REMOVAL, go
from torch import Tensor

from marvel.config import Config
from marvel.data import Data, load

NAME, TRAINED, TESTED = "cifar10-16", 10_000, 3_000
PARTS = [("marvel-semi", options) for options in ({"alpha": 0.0}, LEAN[0])]
COMPARED = [("ce", {}), ("marvel-semi", {}), ("marvel-semi", NO_REMOVAL)]
"""What three seeds are run of."""


def small(full: Data, trained: int, tested: int, name: str) -> Data:
    """The first images at half the size, standardised by their own mean and deviation."""
    assert isinstance(full.x, Tensor)
    assert isinstance(full.test_x, Tensor)
    assert full.test_y is not None
    x, test_x = (F.avg_pool2d(part.float() / 255, 2) for part in (full.x[:trained], full.test_x[:tested]))
    mean, std = (tuple(of((0, 2, 3)).tolist()) for of in (x.mean, x.std))
    changes = {"x": x, "y": full.y[:trained], "test_x": test_x, "test_y": full.test_y[:tested]}
    return replace(full, name=name, mean=mean, std=std, **changes)


def images() -> Data:
    return small(load("cifar10"), TRAINED, TESTED, NAME)


def grid() -> list[Config]:
    usual = {"network": "cnn2", "epochs": 50, "batch": 64, "lr": 0.02, "schedule": "cosine", "nesterov": True}
    return [
        Config(
            data=NAME,
            noise="symmetric" if rate else "none",
            rate=rate,
            method=method,
            options=options,
            **usual,
            drops=(),
            weight_decay=5e-4,
            seed=seed,
        )
        for seed in range(3)
        for rate in (0.0, 0.2, 0.6, 0.8)
        for method, options in (COMPARED if seed else (*FIRST, *PARTS))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/semi/weak.jsonl"))
    args = parser.parse_args()
    go(grid(), {NAME: images()}, args.results)


if __name__ == "__main__":
    main()
