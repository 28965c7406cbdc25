"""Every method on CIFAR-10 with ResNet-32 and 40% of the labels wrong, on one budget, beside the paper's numbers.

    python experiments/baselines.py                               symmetric noise; as long as 39 runs of CE
    python experiments/baselines.py --noise circular
    python experiments/baselines.py --only aum,incv --width 2     some methods; --skip leaves some out
    python experiments/baselines.py --show                        the runs, their costs and settings; nothing is run

The budget is the paper's: 50,000 images, 120 epochs, batch 128, SGD with momentum 0.9, weight decay 2e-4, learning rate
0.1 falling to a tenth after epochs 40 and 80 (80 and 100 for MARVEL), and the last epoch counts. On top of it each
method has what its own paper asks for. Beside it test accuracy of the paper's tables, %, and what a run costs, CE's
being 1 (an estimate from the instances that go through a network):

                                                                          symmetric   circular   cost
    incv              4 rounds of 2 trainings of 50 epochs                86.8        79.8       4
    dy-bootstrap      hard (M-DYR-H), with and without mixup;             68.8        59.4       1.8, 1.3
                      soft to hard, mixed by trust (MD-DYR-SH)                                   1.8
    confident-learning  5 folds of 40 epochs                              -           -          2.3
    co-teaching       tau = 0.4, T_k = 10, mean of both networks          86.5        -          2
    aum               two passes of 40 epochs at batch 64                 87.5        58.7       2
    mentornet         predefined: p = 0.75; data-driven: p = 0.6          81.9        -          1, 1.6
    l_dmi             CE's protocol, then 40 epochs at 1e-6, batch 256    79.6        84.0       1.4
    data-parameters   instances; the last epoch, and the best one by      70.8        55.5       1, 1
                      the given labels of a tenth held back
    d2l               first 10, window 12; window 5 on SCE as published   84.4        76.4       1.1, 1.1
    ce                also with MARVEL's learning rates                   72.2        62.5       1, 1
    oracle                                                                90.0        90.1       0.6
    marvel            warm-up 30, wait 8 (circular 6)                     88.4        89.4       1
    marvel+           warm-up 30, wait 7 (circular 6)                     88.4        88.7       1
    sce               (0.1, 1), A = -4; as its code has it, A = -9.21     86.2        76.7       1, 1
    bootstrap         hard, b = 0.8; soft, b = 0.95                       62.6        55.0       1, 1
    gce               q = 0.7, no truncation                              -           -          1
    npcl              C = 0.6 B, burn-in 10                               -           -          1
    elr               (0.7, 3); circular (0.9, 1)                         -           -          1
    sat, mae, label-smoothing, mixup                                      -           -          1 each

CE, SCE, Oracle, MARVEL and MARVEL+ are the authors' own numbers; the others they took from Pleiss et al. Which of two
forms of a method a number is of, is not known (docs/methods.md says what is). Co-teaching and NPCL are told the noise
rate, INCV its type, Oracle and the data-driven mentor which labels are right.

Without the package cleanlab, confident-learning is left out. Longest first: runs are packed, and short ones fill up the
end. What is in the results file already is not run again; with --max-seconds the rest is given up at that time.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marvel.bench import bench, records, what
from marvel.config import Config
from marvel.errors import InvalidInput
from marvel.methods import METHODS
from marvel.paper import paper_number
from marvel.presets import CIFAR10
from marvel.trainer import Epoch


@dataclass(frozen=True)
class Entry:
    """One run: what it adds to the common protocol, and how many runs of cross entropy it costs."""

    method: str
    cost: float
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def entries(noise: str, epochs: int = CIFAR10.epochs) -> list[Entry]:
    """The presets, for trainings of so many epochs: with fewer than the paper's, all of a run shrinks alike."""

    def of(usual: int) -> int:
        return max(2, round(usual * epochs / CIFAR10.epochs))

    circular = noise == "circular"
    drops = tuple(map(of, CIFAR10.drops))
    dmi = {"pretrain": epochs, "pretrain_drops": drops, "pretrain_batch": 128, "dmi_lr": 1e-6}
    return [
        Entry("ce", 1),
        Entry("ce", 1, settings={"drops": tuple(map(of, CIFAR10.marvel_drops))}),
        Entry("oracle", 0.6),
        Entry("marvel", 1, {"wait": of(6 if circular else 8)}),
        Entry("marvel+", 1, {"wait": of(6 if circular else 7)}),
        Entry("gce", 1, {"q": 0.7, "truncate": 0.0}),
        Entry("bootstrap", 1, {"kind": "hard", "b": 0.8}),
        Entry("bootstrap", 1, {"kind": "soft", "b": 0.95}),
        Entry("sce", 1, {"alpha": 0.1, "beta": 1.0, "A": -4.0}),
        Entry("sce", 1, {"alpha": 0.1, "beta": 1.0, "A": -9.21}),
        Entry("npcl", 1, {"noise_rate": 0.4, "burn_in": of(10), "threshold": "rate"}),
        Entry("mentornet", 1, {"form": "pd", "percentile": 0.75, "percentile_decay": 0.5, "dropout": (0.5, 0.05)}),
        Entry("mentornet", 1.6, {"form": "dd", "percentile": 0.6, "percentile_decay": 0.5, "dropout": (0.5, 0.05)}),
        Entry("co-teaching", 2, {"noise_rate": 0.4, "ramp": of(10), "judge": "mean"}),
        Entry("d2l", 1.1, {"first": of(10), "window": of(12), "after_drop": 2}),
        Entry("d2l", 1.1, {"first": of(10), "window": of(5), "after_drop": 2, "base": "sce"}),
        Entry("l_dmi", 1.4, dmi, {"epochs": of(40), "drops": (), "batch": 256}),
        Entry("data-parameters", 1, {"learn": "instance", "instance_lr": 0.2}),
        Entry("data-parameters", 1, {"learn": "instance", "instance_lr": 0.2, "validation": 0.1}),
        Entry("dy-bootstrap", 1.8, {"kind": "hard", "mixup": True, "burn_in": drops[0] + of(5)}),
        Entry("dy-bootstrap", 1.3, {"kind": "hard", "mixup": False, "burn_in": drops[0] + of(5)}),
        Entry(
            *("dy-bootstrap", 1.8),
            {"kind": "soft-to-hard", "burn_in": drops[0] + of(5), "mixing_epochs": of(5), "cooling_epochs": of(36)},
        ),
        Entry(
            *("incv", 4),
            {"noise_type": "asymmetric" if circular else "symmetric", "rounds": 4, "stage_epochs": of(50)}
            | {"ramp": of(10), "judge": "mean"},
        ),
        Entry("aum", 2, {"pass_epochs": of(40), "pass_batch": 64, "pass_lr": 0.1}),
        Entry("elr", 1, {"b": 0.9, "lam": 1.0} if circular else {"b": 0.7, "lam": 3.0}),
        Entry("sat", 1),
        Entry("mae", 1),
        Entry("label-smoothing", 1, {"s": 0.1}),
        Entry("mixup", 1, {"alpha": 1.0}),
        Entry("confident-learning", 2.3, {"folds": 5, "fold_epochs": of(40)}),
    ]


def config_of(entry: Entry, noise: str, epochs: int | None = None, **settings: Any) -> Config:
    """The settings of an entry's run."""
    given = {"data": "cifar10", "noise": noise, "rate": 0.4, "method": entry.method, "options": entry.options}
    return Config(**(given | {"epochs": epochs} | entry.settings | settings))


def chosen(noise: str, epochs: int | None, only: str | None, skip: str | None) -> list[Entry]:
    """The entries asked for, the longest first."""
    names = {flag: {name for name in (text or "").split(",") if name} for flag, text in (("o", only), ("s", skip))}
    for name in names["o"] | names["s"]:
        if name not in METHODS:
            raise InvalidInput(f"there is no method {name!r}: one of {', '.join(METHODS)}")
    found = [
        entry
        for entry in entries(noise, epochs or CIFAR10.epochs)
        if (not names["o"] or entry.method in names["o"]) and entry.method not in names["s"]
    ]
    return sorted(found, key=lambda entry: -entry.cost)


class OutOfTime(Exception):
    """The seconds given are over."""


def show(found: list[Entry], noise: str) -> None:
    """A line for each run: what it costs, the paper's number, and what it adds to the protocol."""
    table = "cifar-symmetric" if noise == "symmetric" else "cifar-asymmetric"
    for entry in found:
        number = paper_number(table, "CIFAR-10", "40%", entry.method)
        theirs = "-" if number is None or number.mean is None else f"{number.mean:.1f}"
        print(f"{entry.method:20}{entry.cost:>5}{theirs:>7}  {entry.options | entry.settings}")
    print(f"{len(found)} runs, together as long as {sum(entry.cost for entry in found):.0f} of cross entropy")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", choices=("symmetric", "circular"), default="symmetric")
    parser.add_argument("--only", metavar="METHOD[,METHOD]", help="these methods alone")
    parser.add_argument("--skip", metavar="METHOD[,METHOD]", help="all but these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=8, help="how many runs take turns on the device")
    parser.add_argument("--compile", action="store_true", help="compile the network with torch.compile")
    parser.add_argument("--epochs", type=int, help="other than the paper's 120, to try it; all of a run shrinks alike")
    parser.add_argument("--data", default="cifar10", help="another problem, to try it: digits")
    parser.add_argument("--max-seconds", type=float, default=float("inf"), help="give up what is not done by then")
    parser.add_argument("--results", default="results/baselines.jsonl")
    parser.add_argument("--show", action="store_true", help="print the runs, and run nothing")
    args = parser.parse_args(arguments)
    try:
        found = chosen(args.noise, args.epochs, args.only, args.skip)
    except InvalidInput as error:
        parser.error(str(error))
    if importlib.util.find_spec("cleanlab") is None and any(e.method == "confident-learning" for e in found):
        print("confident-learning is left out: it needs the package cleanlab, which is not here", file=sys.stderr)
        found = [entry for entry in found if entry.method != "confident-learning"]
    if args.show:
        show(found, args.noise)
        return
    settings = {"data": args.data, "seed": args.seed, "compile": args.compile, "checkpoint_every": 0}
    runs = [config_of(entry, args.noise, args.epochs, **settings) for entry in found]
    began = time.perf_counter()

    def watch(config: Config, epoch: Epoch) -> None:
        passed = time.perf_counter() - began
        if epoch.epoch % 20 == 0 or epoch.epoch == epoch.epochs:
            accuracy = epoch.metrics["test_accuracy"]
            judged = "" if accuracy is None else f": {100 * accuracy:.1f}%"
            print(f"{passed:6.0f} s  {config.method} {dict(config.options)}", end="  ")
            print(f"{epoch.stage} epoch {epoch.epoch}{judged}", flush=True)
        if passed > args.max_seconds:
            raise OutOfTime

    try:
        for config, error in bench(runs, args.results, width=args.width, watch=watch):
            print(f"failed: {config.method} {dict(config.options)}: {error}", file=sys.stderr)
    except OutOfTime:
        done = {what(record["asked"]) for record in records(Path(args.results))}
        left = [config.method for config in runs if what(config.facts()) not in done]
        print(f"{args.max_seconds:.0f} seconds are over; not done: {', '.join(left)}", file=sys.stderr)


if __name__ == "__main__":
    main()
