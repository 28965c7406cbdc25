"""How long a training by marvel-semi takes beside one by cross entropy, on one core of a CPU. Beyond the paper.

    taskset -c 0 python experiments/semi_times.py       about four minutes, on a machine that does nothing else
    python -m marvel.report.tables docs/marvel-semi.md

The problems of the other experiments on small data, with 40 % symmetric noise; the methods take turns, three rounds.
Larger images have 12 epochs in place of 50 and 60.
"""

import argparse
from pathlib import Path

import semi_clothes
import semi_weak
from semi_digits import go, vectors

from marvel.config import Config
from marvel.data import load

ROUNDS = 3


def grid() -> list[Config]:
    small = {"epochs": 12, "batch": 64, "lr": 0.02, "schedule": "cosine", "drops": ()}
    problems = (
        {"data": "digits-vectors"},
        {"data": "digits"},
        {"data": semi_weak.NAME, "network": "cnn2", **small},
        {"data": semi_clothes.NAME, "network": "cnn4", **small},
    )
    return [
        Config(noise="symmetric", rate=0.4, method=method, seed=seed, **problem)
        for problem in problems
        for seed in range(ROUNDS)
        for method in ("ce", "marvel-semi")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/semi/times.jsonl"))
    args = parser.parse_args()
    digits = load("digits")
    data = (digits, vectors(digits), semi_weak.images(), semi_clothes.clothes())
    go(grid(), {one.name: one for one in data}, args.results)


if __name__ == "__main__":
    main()
