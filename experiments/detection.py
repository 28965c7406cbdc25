"""Wrong labels found by one run of `marvel clean`, beside confident learning's five-fold cross-validation.

Same network, same epochs, same schedule; ours has its canaries besides, which are left out of the judgement. Known for
a single ResNet-32 ranked by its mean margin, and published for confident learning with ResNet-18 and five folds:

                      mean margin: AUROC, AP, best F1     confident learning
    human, worst              .973  .963  .891             .967  .953  .885
    human, aggregate          .976  .858  .766             .977  .875  .792

Two parts, since a machine with a GPU may lack cleanlab:

    python experiments/detection.py train --out runs/detection        # GPU: ours, and the five folds, packed
    python experiments/detection.py judge --out runs/detection        # CPU: cleanlab on the folds' probabilities
    python experiments/detection.py train --out runs/tiny --data digits --epochs 20    # small, to try it

`train` leaves one .npz a setting: our ranking and list, and out-of-fold probabilities in half precision. `judge` writes
results/clean/detection.jsonl.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marvel import data as datasets
from marvel import metrics
from marvel.bench import add, records
from marvel.clean import CleanRun, prepare
from marvel.data import Data
from marvel.fast import pack
from marvel.methods.ce import Part
from marvel.methods.confident_learning import cleanlab, folds_of
from marvel.run import Run
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
            settings |= {"device": args.device, "checkpoint_every": 0}
            yield {key: value for key, value in settings.items() if value is not None}


def ours(settings: Facts, data: Data, kept: dict[str, Any]) -> Iterator[Any]:
    """One run of clean; what it says of every instance."""
    run: CleanRun = prepare(settings, data=data)
    yield from run.steps()
    assert run.record is not None
    columns = run.instances()
    place = np.full(len(run.data), len(run.data), dtype=np.int32)
    place[run.ranked] = np.arange(len(run.ranked))
    kept |= {"given": run.given, "truth": run.truth.numpy(), "canary": columns["canary"], "flagged": columns["flagged"]}
    kept |= {"place": place, "quality": columns["quality"], "label_quality": columns["label_quality"]}
    kept |= {"suggested": columns["suggested"], "wrong_probability": columns["wrong_probability"]}
    kept["facts"] = {key: run.record[key] for key in ("config", "environment", "estimate", "chosen")}
    kept["seconds_ours"] = run.trainer.seconds


def fold(k: int, settings: Facts, data: Data, kept: dict[str, Any]) -> Iterator[Any]:
    """Cross entropy on all but one fold, as long as ours; the probabilities of that fold."""
    clean: CleanRun = prepare({**settings, "ledger": False}, data=data)
    config = clean.config.but(method="ce", options={}, ledger=False)
    run = Run(config, data=data)
    which = folds_of(run.trainer.y.cpu(), torch.from_numpy(permutation(len(data), config.seed)), FOLDS)
    part = Part(len(data), len(data.classes), config.epochs, kept=(which != k).to(run.trainer.y.device))
    yield from run.trainer.run(part, run.networks)
    logits = yield from run.trainer.logits(part)
    probabilities = kept.setdefault("probabilities", np.zeros((len(data), len(data.classes)), dtype=np.float16))
    mine = (which == k).numpy()
    probabilities[mine] = logits.softmax(1).cpu().numpy()[mine]
    kept["seconds_folds"] = kept.get("seconds_folds", 0.0) + run.trainer.seconds


def permutation(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).permutation(n)


def train(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    loaded: dict[str, Data] = {}
    todo = [s for s in settings_of(args) if not (args.out / f"{name_of(s)}.npz").exists()]
    for settings in todo:
        name = settings["data"]
        data = loaded.setdefault(name, datasets.load(name, args.root))
        kept: dict[str, Any] = {}
        began = time.perf_counter()
        # Alone, so that its time is its own; the folds share the device, which is their best case.
        for _, shown in pack([ours(settings, data, kept)]):
            say(settings, shown)
        kept["wall_ours"] = time.perf_counter() - began
        began = time.perf_counter()
        for _, shown in pack([fold(k, settings, data, kept) for k in range(FOLDS)], args.width):
            say(settings, shown)
        kept["wall_folds"] = time.perf_counter() - began
        facts = {**kept.pop("facts"), "asked": settings}
        facts |= {key: round(kept.pop(key), 2) for key in list(kept) if key.startswith(("seconds_", "wall_"))}
        with open(args.out / f"{name_of(settings)}.npz", "wb") as file:
            np.savez_compressed(file, facts=np.frombuffer(as_json(facts), dtype=np.uint8), **kept)
        print(f"{name_of(settings)}: ours {facts['wall_ours']:.0f} s, folds {facts['wall_folds']:.0f} s", flush=True)


def say(settings: Facts, shown: Any) -> None:
    if isinstance(shown, Exception):
        raise shown
    if shown is not None and shown.epoch % 20 == 0:
        print(f"{name_of(settings)}: epoch {shown.epoch}/{shown.epochs}", flush=True)


def judge(args: argparse.Namespace) -> None:
    done = [record["asked"] for record in records(args.results)]
    for path in sorted(args.out.glob("*.npz")):
        with np.load(path) as file:
            kept = {key: file[key] for key in file.files}
        facts = json.loads(kept.pop("facts").tobytes())
        if facts["asked"] in done:
            continue
        others = ~kept["canary"]  # of all instances, those that both judged under the same label
        wrong = (kept["given"] != kept["truth"])[others]
        listed, place = kept["flagged"][others], kept["place"][others].astype(float)
        found = {
            "marvel clean": {**metrics.ranking(place, wrong), **metrics.detection(listed, wrong)},
            "mean margin": metrics.ranking(kept["quality"][others], wrong),
            "mean sigmoid of the margin": metrics.ranking(kept["label_quality"][others], wrong),
            "confident learning": confident(kept, others, wrong),
        }
        suggested = (kept["suggested"] == kept["truth"])[others][listed & wrong]
        facts["final"] = {"suggestion_accuracy": metrics.share(suggested), "wrong_labels": int(wrong.sum())}
        add(args.results, {**facts, "found": found, "n": len(others), "canaries": int((~others).sum())})
        print(path.name, json.dumps(found, indent=1))


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
    parser.add_argument("--width", type=int, default=FOLDS, help="folds that share the device")
    parser.add_argument("--results", type=Path, default=Path("results/clean/detection.jsonl"))
    args = parser.parse_args()
    train(args) if args.part == "train" else judge(args)


if __name__ == "__main__":
    main()
