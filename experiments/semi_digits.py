"""marvel-semi on small data: digits as images of 8 x 8 pixels, and as vectors of 64 features. Beyond the paper.

    python experiments/semi_digits.py                   about half an hour of one CPU core
    python -m marvel.report.tables docs/marvel-semi*.md

Beside cross entropy, MARVEL and the controls that say what the gain is owed to, under symmetric noise of 80 %, where
they differ most, with ten seeds, and of 40 %, with three; without noise, to see what it costs. `late` false: removal
begins soon after the warm-up, and does not wait until labels are memorised. Then one part at a time: `zero` at 0, where
every negative margin speaks against its label; `warmup`, a twelfth of the epochs by default; `lean`, how much kept
labels lean towards the guesses, by default half; `strong`, how strong the strong views are; and `over`, how often what
is kept is drawn, of which the default gives it a third at least. Images are seen by cnn2, vectors by an mlp, both for
60 epochs at a constant learning rate of 0.01. The strong view of an image is turned, sheared, shifted, recoloured and
cut out; that of a vector has noise and lost features.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from marvel.config import Config, as_plain
from marvel.data import Data, load
from marvel.presets import PRESETS
from marvel.results import add, identity_of, records, what
from marvel.run import Run

NO_REMOVAL = {"removal": False}
CONTROLS = {"guesses": False, "back": None}, {"back": None}
EARLY, NEGATIVE = {"late": False}, {"zero": 0.0}
LONG = {"warmup": 15}, {"warmup": 28}
LEAN = {"lean": 0.0}, {"lean": 1.0}
STRONG = {"strong": 0.5}, {"strong": 0.0}
OFTEN = {"over": 2.0}, {"over": 1.0}, {"over": 0.5}
SEEDS = {0.8: 10, 0.4: 3, 0.0: 3}
"""How many there are at each rate: at 80 % a mean of three would say little."""
FIRST = [("ce", {}), ("marvel", {}), *(("marvel-semi", options) for options in ({}, NO_REMOVAL, EARLY))]
PARTS = [("marvel-semi", options) for options in (*CONTROLS, NEGATIVE, *LONG, *LEAN, *STRONG, *OFTEN)]


def vectors(images: Data) -> Data:
    """The same instances as vectors."""
    flat, test = (x.flatten(1) for x in (images.x, images.test_x) if isinstance(x, Tensor))
    return replace(images, name="digits-vectors", x=flat, test_x=test, mean=(), std=())


def grid() -> list[Config]:
    return [
        Config(data=data, noise="symmetric" if rate else "none", rate=rate, method=method, options=options, seed=seed)
        for data in ("digits-vectors", "digits")
        for rate, seeds in SEEDS.items()
        for seed in range(seeds)
        for method, options in (*FIRST, *(PARTS if rate else ()))
    ]


def go(runs: Iterable[Config], data: Mapping[str, Data], results: Path) -> None:
    """Do those that the file of results lacks."""
    done = {identity_of(record) for record in records(results)}
    for config in runs:
        run, asked = Run(config, data=data[config.data]), as_plain(config.facts())
        if what(run.config.facts() if config.data in PRESETS else asked) in done:
            continue
        for _ in run.steps():
            pass
        assert run.record is not None
        add(results, {"asked": asked, **run.record})
        final = run.record["final"]
        said = [config.data, str(config.rate), config.method, str(dict(config.options)), f"seed {config.seed}:"]
        print(*said, f"{100 * final['test_accuracy']:.1f} %", run.record["chosen"], file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results/semi/digits.jsonl"))
    args = parser.parse_args()
    images = load("digits")
    go(grid(), {"digits": images, "digits-vectors": vectors(images)}, args.results)


if __name__ == "__main__":
    main()
