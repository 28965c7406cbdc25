"""Wrong labels found by one run of `marvel clean`, beside confident learning's five-fold cross-validation.

Same network, same epochs, same schedule; ours has its canaries besides, which are left out of the judgement.

Two parts, since a machine with a GPU may lack cleanlab:

    python experiments/detection.py train --out runs/detection        # GPU: ours, and the five folds, packed
    python experiments/detection.py judge --out runs/detection        # CPU: cleanlab on the folds' probabilities
    python experiments/detection.py train --out runs/alone --alone    # a fifth of the time: ours only; judge likewise
    python experiments/detection.py train --out runs/tiny --data digits --epochs 20    # small, to try it

`train` leaves two .npz a setting: what our run showed, and out-of-fold probabilities in half precision. `judge` writes
results/clean/detection.jsonl. Times are of packs: our runs of all settings side by side, then all folds, each pack's
time divided by the number of settings.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marvel import data as datasets
from marvel import metrics
from marvel.clean import CleanRun, prepare
from marvel.clean.estimate import Scores
from marvel.clean.judgement import Judgement
from marvel.data import Data
from marvel.fast import pack
from marvel.methods.ce import Part
from marvel.methods.confident_learning import cleanlab, folds_of
from marvel.plan import seed_of
from marvel.results import add, records
from marvel.run import Run, commit
from marvel.runs import Facts, as_json

SETTINGS = [("cifar10", "symmetric", 0.4), ("cifar10n-aggregate", "none", 0.0), ("cifar10n-worst", "none", 0.0)]
FOLDS = 5


def name_of(settings: Facts) -> str:
    return f"{settings['data']}-{settings['noise']}-{settings['rate']:g}-s{settings['seed']}"


def settings_of(args: argparse.Namespace) -> Iterator[Facts]:
    chosen = [(args.data, "symmetric", 0.4)] if args.data else SETTINGS
    for seed in range(args.seeds):
        for data, noise, rate in chosen:
            settings: Facts = {"data": data, "noise": noise, "rate": rate, "seed": seed, "epochs": args.epochs}
            settings |= {"device": args.device, "compile": args.compile or None, "checkpoint_every": 0}
            yield {key: value for key, value in settings.items() if value is not None}


def ours(settings: Facts, data: Data, out: Path) -> Iterator[Any]:
    """One run of clean; what it showed of every instance."""
    run: CleanRun = prepare(settings, data=data)
    yield from run.steps()
    assert run.record is not None
    facts = {key: run.record[key] for key in ("config", "environment", "chosen")}
    kept = {"truth": run.truth.numpy(), "quality": run.judgement.quality, **run.told.arrays()}
    write(out / f"{name_of(settings)}-ours.npz", facts, kept)


class Folds:
    """Out-of-fold probabilities, filled by five trainings and written when the last is done."""

    def __init__(self, settings: Facts, data: Data, out: Path) -> None:
        self.settings, self.data, self.out = settings, data, out
        self.probabilities = np.zeros((len(data), len(data.classes)), dtype=np.float16)
        self.left = set(range(FOLDS))

    def train(self, k: int) -> Iterator[Any]:
        """Cross entropy on all but one fold, as long as ours; the probabilities of that fold."""
        clean: CleanRun = prepare({**self.settings, "ledger": False}, data=self.data)
        config = clean.config.but(method="ce", options={}, ledger=False)
        run = Run(config, data=self.data)
        y = run.trainer.y
        which = folds_of(y.cpu(), torch.from_numpy(permutation(len(self.data), config.seed)), FOLDS)
        part = Part(len(self.data), len(self.data.classes), config.epochs, kept=(which != k).to(y.device))
        yield from run.trainer.run(part, run.networks)
        logits = yield from run.trainer.logits(part)
        mine = (which == k).numpy()
        self.probabilities[mine] = logits.softmax(1).cpu().numpy()[mine]
        self.left.remove(k)
        if not self.left:
            write(self.out / f"{name_of(self.settings)}-folds.npz", {}, {"probabilities": self.probabilities})


def write(path: Path, facts: Facts, kept: dict[str, Any]) -> None:
    with open(path, "wb") as file:
        np.savez_compressed(file, facts=np.frombuffer(as_json(facts), dtype=np.uint8), **kept)


def read(path: Path) -> tuple[Facts, dict[str, Any]]:
    with np.load(path) as file:
        kept = {key: file[key] for key in file.files}
    return json.loads(kept.pop("facts").tobytes()), kept


def permutation(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).permutation(n)


def train(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    todo = list(settings_of(args))
    loaded = {name: datasets.load(name, args.root) for name in {settings["data"] for settings in todo}}
    runs = [ours(settings, loaded[settings["data"]], args.out) for settings in todo]
    folds = [Folds(settings, loaded[settings["data"]], args.out) for settings in todo]
    parts = [one.train(k) for one in folds for k in range(FOLDS)]
    walls = {"wall_ours": packed(runs, args.width)}
    if not args.alone:
        walls["wall_folds"] = packed(parts, args.width)
    facts = {key: round(wall / len(todo), 2) for key, wall in walls.items()}
    (args.out / "times.json").write_text(json.dumps({**facts, "width": args.width, "settings": len(todo)}))
    print("a setting, in seconds:", facts, flush=True)


def packed(runs: list[Iterator[Any]], width: int) -> float:
    """Seconds until all have ended."""
    began = time.perf_counter()
    for which, shown in pack(runs, width):
        if isinstance(shown, Exception):
            raise shown
        if shown is not None and shown.epoch % 20 == 0:
            print(f"run {which}: epoch {shown.epoch}/{shown.epochs}", flush=True)
    return time.perf_counter() - began


def judge(args: argparse.Namespace) -> None:
    done = [record["asked"] for record in records(args.results)]
    times = json.loads((args.out / "times.json").read_text())
    for settings in settings_of(args):
        if settings in done:
            continue
        facts, kept = read(args.out / f"{name_of(settings)}-ours.npz")
        if not args.alone:
            kept |= read(args.out / f"{name_of(settings)}-folds.npz")[1]
        facts |= {"asked": settings, **times}
        truth, quality, seed = kept["truth"], kept["quality"], seed_of(settings["seed"], "estimate")
        told = {key.name: kept[key.name] for key in fields(Scores) if key.name in kept}
        judgement = Judgement(Scores(**told, classes=int(truth.max()) + 1), quality, seed)
        others = ~judgement.told.canary  # of all instances, those that both judged under the same label
        wrong = (kept["given"] != truth)[others]
        final = judgement.beside(truth)
        found = {
            "marvel clean": {key: value for key, value in final.items() if key.startswith("detection_")},
            "mean margin": metrics.ranking(quality[others], wrong),
            "mean sigmoid of the margin": metrics.ranking(kept["score"][others], wrong),
        }
        if not args.alone:
            found["confident learning"] = confident(kept, others, wrong)
        facts |= {"final": final, "estimate": judgement.claimed(), "flagged": len(judgement.listed)}
        facts["judged_at"] = commit()
        add(args.results, {**facts, "found": found, "n": len(others), "canaries": int((~others).sum())})
        print(name_of(settings), json.dumps(found, indent=1))


def confident(kept: dict[str, Any], others: Any, wrong: Any) -> Facts:
    """cleanlab on out-of-fold probabilities: its ranking by self-confidence or margin, and its default list."""
    import cleanlab.rank

    p = kept["probabilities"].astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    began = time.perf_counter()
    issues = cleanlab_list(kept["given"], p)
    facts: Facts = {**metrics.detection(issues[others], wrong), "seconds": round(time.perf_counter() - began, 2)}
    for method in ("self_confidence", "normalized_margin"):
        quality = cleanlab.rank.get_label_quality_scores(kept["given"], p, method=method)
        facts |= {f"{method}_{key}": value for key, value in metrics.ranking(quality[others], wrong).items()}
    return facts


def cleanlab_list(given: Any, p: Any) -> Any:
    return cleanlab().filter.find_label_issues(labels=given, pred_probs=p, n_jobs=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["train", "judge"])
    parser.add_argument("--out", type=Path, default=Path("runs/detection"))
    parser.add_argument("--root", help="the folder the datasets lie in")
    parser.add_argument("--data", help="one problem, with 40%% symmetric noise; default: the three of the comparison")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--epochs", type=int, help="default: the problem's own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--alone", action="store_true", help="our runs only, without the folds")
    parser.add_argument("--compile", action="store_true", help="compile the networks")
    parser.add_argument("--width", type=int, default=6, help="runs that share the device")
    parser.add_argument("--results", type=Path, default=Path("results/clean/detection.jsonl"))
    args = parser.parse_args()
    train(args) if args.part == "train" else judge(args)


if __name__ == "__main__":
    main()
