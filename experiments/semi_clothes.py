"""marvel-semi on small images of clothes: 8,000, made 14 x 14. Beyond the paper.

    python experiments/semi_clothes.py                  about an hour of one CPU core
    python experiments/semi_clothes.py --short          a quarter of an hour
    python -m marvel.report.tables docs/marvel-semi*.md

Four of ten labels are wrong, of instances that look alike in the same way (`instance`), which can be learnt without
being memorised; or four or eight of ten, drawn at random (`symmetric`). 60 epochs of a cnn4, batches of 64, learning
rate 0.06 with a cosine, Nesterov, weight decay 5e-4, three seeds. `late` false: removal begins soon after the warm-up,
and does not wait until labels are memorised. `--short`: only where wrong labels are alike, for 40 epochs at a third of
the learning rate.
"""

import argparse
from pathlib import Path
from typing import Any

from semi_digits import FIRST, go
from semi_weak import small

from marvel.config import Config
from marvel.data import Data, load

NAME, TRAINED, TESTED = "fashion-mnist-14", 8_000, 5_000
NOISES = ("instance", 0.4), ("symmetric", 0.8), ("symmetric", 0.4)
USUAL: dict[str, Any] = {
    "network": "cnn4",
    "batch": 64,
    "schedule": "cosine",
    "nesterov": True,
    "weight_decay": 5e-4,
    "epochs": 60,
    "lr": 0.06,
}


def clothes() -> Data:
    return small(load("fashion-mnist"), TRAINED, TESTED, NAME)


def grid(seeds: int, short: bool) -> list[Config]:
    usual = USUAL | ({"epochs": 40, "lr": 0.02} if short else {})
    return [
        Config(data=NAME, noise=noise, rate=rate, method=method, options=options, seed=seed, drops=(), **usual)
        for seed in range(seeds)
        for noise, rate in (NOISES[:1] if short else NOISES)
        for method, options in FIRST
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--results", type=Path, help="results/semi/clothes.jsonl or clothes-short.jsonl by default")
    args = parser.parse_args()
    results = args.results or Path(f"results/semi/clothes{'-short' if args.short else ''}.jsonl")
    go(grid(args.seeds, args.short), {NAME: clothes()}, results)


if __name__ == "__main__":
    main()
