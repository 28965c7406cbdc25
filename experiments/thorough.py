"""`marvel clean` with MARVEL, as it is by itself, and with marvel-semi, its thorough mode. Beyond the paper.

    python experiments/thorough.py                      about half an hour of one CPU core
    python -m marvel.report.tables docs/clean.md

The digits, with their own network and epochs, ten seeds; and the clothes of experiments/semi_clothes.py, three seeds.
One record a line goes to results/clean/thorough.jsonl; what is there already is left out.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from calibration import steps
from semi_clothes import NAME, USUAL, clothes

from marvel.data import Data, load
from marvel.results import records
from marvel.runs import Facts

METHODS = "marvel", "marvel-semi"
DIGITS = ("symmetric", 0.2), ("symmetric", 0.4), ("circular", 0.2), ("circular", 0.4), ("class-dependent", 0.3)
CLOTHES = (("instance", 0.4),)


def grid() -> Iterator[Facts]:
    machine = {"device": "cpu", "checkpoint_every": 0}
    for data, noises, seeds, usual in (("digits", DIGITS, 10, {}), (NAME, CLOTHES, 3, USUAL)):
        for seed in range(seeds):
            for noise, rate in noises:
                for method in METHODS:
                    yield {
                        "data": data,
                        "noise": noise,
                        "rate": rate,
                        "seed": seed,
                        "method": method,
                        **usual,
                        **machine,
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/clean/thorough.jsonl"))
    args = parser.parse_args()
    done = [record["asked"] for record in records(args.results)]
    data: dict[str, Data] = {}
    for settings in grid():
        if settings in done:
            continue
        name = settings["data"]
        data[name] = data.get(name) or (clothes() if name == NAME else load(name))
        for _ in steps(settings, data[name], args.results, None):
            pass
        print({key: settings[key] for key in settings if key not in USUAL}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
