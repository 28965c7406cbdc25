"""Do the intervals of `marvel clean` cover the truth? Repeated runs on labels whose truth is known.

    python experiments/calibration.py                                              # digits: about 10 s a run on a CPU
    python experiments/calibration.py --data cifar10 --seeds 0-9 --width 8         # on a GPU
    python experiments/calibration.py --data cifar10n-worst --seeds 0-9 --width 8  # human noise
    python -m marvel.report.tables docs/clean.md                                   # the table, from the records

One record a line goes to results/clean/calibration-DATA.jsonl; what is there already is left out.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marvel import data as datasets
from marvel.clean import CleanRun, prepare
from marvel.data import Data
from marvel.fast import pack
from marvel.results import add, records
from marvel.runs import Facts

NOISE = [
    ("symmetric", 0.1),
    ("symmetric", 0.2),
    ("symmetric", 0.4),
    ("circular", 0.1),
    ("circular", 0.2),
    ("circular", 0.4),
    ("class-dependent", 0.3),
]
NUMBERS = (
    *("detection_precision", "detection_recall", "detection_f1", "detection_best_f1", "detection_auroc"),
    *("detection_ap", "suggestion_accuracy", "wrong_labels", "test_accuracy"),
)


def settings_of(args: argparse.Namespace) -> Iterator[Facts]:
    human = args.data.startswith("cifar10n")
    for seed, (noise, rate) in itertools.product(seeds_of(args.seeds), [("none", 0.0)] if human else NOISE):
        settings: Facts = {"data": args.data, "noise": noise, "rate": rate, "seed": seed}
        settings |= {
            "epochs": args.epochs,
            "device": args.device,
            "compile": args.compile or None,
            "checkpoint_every": 0,
        }
        yield {key: value for key, value in settings.items() if value is not None}


def seeds_of(text: str) -> list[int]:
    """ "0-3,7" -> [0, 1, 2, 3, 7]"""
    ends = [part.split("-") for part in text.split(",")]
    return [seed for part in ends for seed in range(int(part[0]), int(part[-1]) + 1)]


def steps(settings: Facts, data: Data, results: Path, scores: Path | None) -> Iterator[Any]:
    run = prepare(settings, data=data)
    yield from run.steps()
    assert run.record is not None
    if scores is not None:
        write_scores(scores, settings, run)
    record = {key: run.record[key] for key in ("config", "environment", "chosen", "estimate", "flagged", "seconds")}
    record |= {"asked": settings, "n": len(run.data), "canaries": len(run.canaries)}
    record["final"] = {key: run.record["final"].get(key) for key in NUMBERS}
    add(results, record)


def write_scores(folder: Path, settings: Facts, run: CleanRun) -> None:
    """What the estimate is made from, to try another on."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "-".join(str(settings[key]) for key in ("data", "noise", "rate", "seed"))
    kept = {"truth": run.truth.numpy(), "quality": run.judgement.quality, **run.told.arrays()}
    np.savez_compressed(folder / f"{name}.npz", **kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--root", help="the folder the datasets lie in")
    parser.add_argument("--seeds", default="0-19", help="one repeat each: 0-19, or 0,3,5")
    parser.add_argument("--epochs", type=int, help="default: the problem's own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true", help="compile the networks")
    parser.add_argument("--scores", type=Path, help="a folder to keep what each estimate is made from")
    parser.add_argument("--width", type=int, default=1, help="runs that share the device")
    parser.add_argument("--results", type=Path, help="default: results/clean/calibration-DATA.jsonl")
    args = parser.parse_args()
    results = args.results or Path(f"results/clean/calibration-{args.data}.jsonl")
    done = [record["asked"] for record in records(results)]
    todo = [settings for settings in settings_of(args) if settings not in done]
    data = datasets.load(args.data, args.root)
    for which, shown in pack((steps(settings, data, results, args.scores) for settings in todo), args.width):
        if isinstance(shown, Exception):
            print(f"failed: {todo[which]}: {shown!r}", file=sys.stderr)
        elif shown is not None and shown.epoch == shown.epochs:
            print(f"{todo[which]}", flush=True)


if __name__ == "__main__":
    main()
