"""The first evidence: three settings of the paper, CE beside MARVEL and MARVEL+, one seed.

    python experiments/core.py --compile           about eight minutes on one H200

    test accuracy of the paper, %, mean (sd)       CE            MARVEL        MARVEL+
    cat-dog, 20% symmetric, ResNet-18              73.4 (0.8)    83.3 (0.8)    83.6 (0.9)
    truck-car, (40%, 0%), ResNet-18                78.0 (1.1)    92.4 (0.6)    92.9 (0.5)
    CIFAR-10, 40% symmetric, ResNet-32             72.2 (0.7)    88.4 (0.2)    88.4 (0.2)

The paper's epochs, learning-rate drops, warm-ups and waits; batch 128, learning rate 0.01 for every binary method, no
Nesterov momentum. MARVEL+ is run with both readings of whose margins its statistics are of (`among`).
"""

import argparse
import sys
import time

from marvel.bench import bench
from marvel.config import Config
from marvel.trainer import Epoch

# problem, its noise, MARVEL's wait, MARVEL+'s wait
SETTINGS = [
    (Config(data="cifar10", noise="symmetric", rate=0.4), 8, 7),
    (Config(data="cat-dog", noise="symmetric", rate=0.2), 4, 5),
    (Config(data="truck-car", noise="pair", rates=(0.4, 0.0)), 3, 3),
]


def grid() -> list[Config]:
    runs = []
    for problem, wait, wait_plus in SETTINGS:
        runs.append(problem.but(method="ce"))
        runs.append(problem.but(method="marvel", options={"wait": wait}))
        for among in ("survivors", "all"):
            runs.append(problem.but(method="marvel+", options={"wait": wait_plus, "among": among}))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one problem, by name")
    parser.add_argument("--results", default="results/core.jsonl")
    parser.add_argument("--compile", action="store_true", help="compile the networks")
    args = parser.parse_args()
    runs = [config.but(compile=args.compile) for config in grid() if args.only in (None, config.data)]
    began = time.perf_counter()

    def watch(config: Config, epoch: Epoch) -> None:
        if epoch.epoch % 20 == 0:
            accuracy = epoch.metrics["test_accuracy"]
            print(
                f"{time.perf_counter() - began:6.0f} s  {config.data} {config.method} {dict(config.options)}", end="  "
            )
            print(f"epoch {epoch.epoch}: {100 * accuracy:.1f}%", flush=True)

    for config, error in bench(runs, args.results, width=8, watch=watch):
        print(f"failed: {config.data} {config.method}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
