"""The automatic warm-up, replayed on recorded curves of cross entropy, beside the warm-ups the paper chose.

python experiments/warmup_rule.py results/*.jsonl
"""

import sys
from pathlib import Path

import torch

from marvel.bench import records
from marvel.methods.marvel import levels_off, window_of
from marvel.presets import PRESETS


def replay(accuracies: list[float], epochs: int, n: int) -> int | None:
    """The epoch that `warmup="auto"` would have chosen."""
    curve, window = torch.tensor(accuracies), window_of(epochs)
    for e in range(window, len(curve)):
        if levels_off(curve[e], curve[e - window], curve[0], torch.tensor(n)):
            return e + 1
    return None


def main() -> None:
    print(f"{'problem':22}{'noise':18}{'seed':>5}{'automatic':>11}{'the paper':>11}")
    for path in sys.argv[1:]:
        for record in records(Path(path)):
            config = record["config"]
            if config["method"] == "ce":
                found = replay(record["curves"]["train_accuracy"], config["epochs"], record["data"]["n"])
                noise = f"{config['noise']} {config['rates'] or config['rate']}"
                print(
                    f"{config['data']:22}{noise:18}{config['seed']:>5}{found!s:>11}{PRESETS[config['data']].warmup!s:>11}"
                )


if __name__ == "__main__":
    main()
