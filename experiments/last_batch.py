"""What a last batch of a few instances does to a training with BatchNorm, and why less than half a batch is shared.

    python experiments/last_batch.py                    about five minutes of one CPU core
    python -m marvel.report.tables docs/reproduction.md

Digits, of which 2, 8, 16 or 32 more are taken than fill eight batches of 128; cnn2 for 60 epochs at a learning rate of
0.01, symmetric noise, MARVEL with a warm-up of 5 and a wait of 3, three seeds. `marvel-as-it-comes` has the same
permutation cut as `torch.split` and PyTorch's `DataLoader` cut it: what is left over is the last batch. `marvel` lets
it share with the one before (`marvel.draws.batches_of`).
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from semi_digits import go
from torch import Tensor

from marvel import METHODS, Marvel
from marvel.config import Config
from marvel.data import Data, load

BATCH, WHOLE = 128, 8
LEFT_OVER = (2, 8, 16, 32)


class AsItComes(Marvel):
    """MARVEL whose last batch is as small as it comes."""

    def draws(self, generator: torch.Generator, size: int) -> Iterable[Tensor | tuple[Tensor, ...]]:
        return torch.randperm(self.n, generator=generator).split(size)


def named(left_over: int) -> str:
    return f"digits-{WHOLE}x{BATCH}+{left_over}"


def first(full: Data, left_over: int) -> Data:
    """The first digits, so many that so few are left over."""
    n = WHOLE * BATCH + left_over
    return replace(full, name=named(left_over), x=full.x[:n], y=full.y[:n])


def grid(seeds: int) -> list[Config]:
    usual = {"network": "cnn2", "epochs": 60, "batch": BATCH, "lr": 0.01, "drops": (), "device": "cpu"}
    return [
        Config(
            data=named(left_over),
            noise="symmetric",
            rate=rate,
            method=method,
            options={"warmup": 5, "wait": 3},
            seed=seed,
            **usual,
        )
        for left_over in LEFT_OVER
        for rate in (0.2, 0.4)
        for method in ("marvel-as-it-comes", "marvel")
        for seed in range(seeds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("results/last_batch/digits.jsonl"))
    args = parser.parse_args()
    METHODS["marvel-as-it-comes"] = AsItComes
    full = load("digits")
    go(grid(args.seeds), {named(left_over): first(full, left_over) for left_over in LEFT_OVER}, args.results)


if __name__ == "__main__":
    main()
