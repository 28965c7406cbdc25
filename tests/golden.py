"""Golden runs: a short, deterministic training of every method and of each of its forms, and what came of it.

    PYTHONPATH=src python tests/golden.py                  write tests/golden.json anew, and say what moved
    PYTHONPATH=src python tests/golden.py gce elr          of these methods only

A change that should move no numbers leaves the file as it is; one that means to move them writes it anew in the same
commit, and says which and why. The runs are on the CPU, in float32, on one thread, with a problem of blobs that needs
no data; they differ from machine to machine by rounding only, which `TOLERANCE` allows for.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

from contract import BRISK
from marvel import METHODS
from marvel.config import Config
from marvel.data import Data
from marvel.run import Run
from toy import FEATURES, problem

FILE = Path(__file__).with_name("golden.json")

TOLERANCE = 4e-4
"""Relative, of each number. Another order of the same additions has moved one of them by 1.4e-4, so another processor
may; a hundredth of a parameter more or less shows."""

N, CLASSES, EPOCHS = 120, 3, 6

FORMS: dict[str, list[dict[str, Any]]] = {
    "aum": [{"samples": "code", "rule": "code", "pass_epochs": 2, "percentile": 80.0}],
    "bootstrap": [{"kind": "soft"}, {"kind": "soft", "penalty": True}],
    "co-teaching": [{"ramp": 3, "judge": "mean"}, {"ramp": 3, "judge": "together"}],
    "confident-learning": [{"folds": 3, "fold_epochs": 2, "filter_by": "both", "reweight": False}],
    "d2l": [{"window": 2, "first": 0, "base": "sce"}],
    "data-parameters": [{"learn": "both"}, {"learn": "class"}, {"validation": 0.2}],
    "dy-bootstrap": [
        {"burn_in": 1, "mixup": False},
        {"burn_in": 1, "kind": "soft"},
        {"burn_in": 1, "kind": "soft-to-hard", "mixing_epochs": 1, "cooling_epochs": 3},
    ],
    "gce": [{"truncate": 0.3, "prune_from": 2, "every": 2}],
    "incv": [{"rounds": 2, "stage_epochs": 2, "ramp": 2, "candidates_from": 2, "noise_type": "asymmetric"}],
    "l_dmi": [{"pretrain": 3, "pretrain_drops": (2,), "pretrain_batch": 20, "dmi_lr": 0.01, "validation": 0.0}],
    "marvel": [
        {"warmup": 1, "wait": 2, "immediate": True},
        {"warmup": 2, "wait": 2, "count_warmup": True, "cost": "gce"},
        {"warmup": 1, "wait": 2, "skip_removed": True},
    ],
    "marvel+": [{"warmup": 1, "wait": 2, "statistics": "epoch"}, {"warmup": 1, "wait": 2, "among": "all"}],
    "marvel-semi": [
        {"warmup": 1, "wait": 1, "by_weight": False, "tau": 0.4, "over": 2.0},
        {"warmup": 1, "wait": 1, "guesses": False, "back": None},
        {"warmup": 1, "removal": False, "strong": 0.5},
    ],
    "mentornet": [{"form": "dd", "percentile": 0.6, "labelled": 0.5, "mentor_steps": 100}],
    "npcl": [{"burn_in": 1, "threshold": "batch"}],
    "oracle": [{"skip_removed": False}],
    "sce": [{"A": -9.21}],
}
"""The forms a method has besides the one it is tested with."""


def data() -> Data:
    x, y, _ = problem(N + 60, CLASSES, noise=0.0, seed=0)
    unit: dict[str, Any] = {"mean": (0.0,) * FEATURES, "std": (1.0,) * FEATURES}
    return Data("blobs", x[:N], y[:N], ("a", "b", "c"), x[N:], y[N:], **unit)


def name_of(method: str, options: dict[str, Any]) -> str:
    return " ".join([method, *(f"{key}={value}" for key, value in options.items())])


def runs() -> dict[str, tuple[str, dict[str, Any]]]:
    """All runs by name: the method and its options."""
    usual = [(method, BRISK.get(method, {})) for method in METHODS]
    forms = [(method, options) for method, many in FORMS.items() for options in many]
    return {name_of(*run): run for run in sorted([*usual, *forms], key=lambda run: name_of(*run))}


def outcome(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Train, and sum up: losses, accuracies, what was removed, what each instance was worth, and the network."""
    told = {"noise_rate": 0.3} if "noise_rate" in METHODS[method].needs else {}
    config = Config(
        data="blobs",
        noise="symmetric",
        rate=0.3,
        method=method,
        network="mlp",
        seed=1,
        epochs=EPOCHS,
        batch=25,
        lr=0.02,
        drops=(3,),
        device="cpu",
        precision="float32",
        options=options | told,
    )
    run = Run(config, data=data())
    losses, accuracies = [], []
    for epoch in run.steps():
        if epoch is not None and epoch.stage == "main":
            losses.append(epoch.metrics["train_loss"])
            accuracies.append(epoch.metrics["test_accuracy"])
    with torch.no_grad():
        logits = run.networks[0].eval()(run.data.x)
    m = run.method
    found = {"train_loss": losses, "test_accuracy": accuracies, "removed": int(m.removed.sum()), **m.chosen}
    found |= {"weight": float(m.weight.sum()), "quality": m.quality[:4].tolist(), "logits": logits[:2].ravel().tolist()}
    return rounded(found)


def rounded(value: Any) -> Any:
    """To six digits: more would be noise."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def differences(found: Any, golden: Any, place: str = "") -> list[str]:
    """Where two outcomes differ by more than rounding."""
    if isinstance(found, dict) and isinstance(golden, dict) and found.keys() == golden.keys():
        return [line for key in found for line in differences(found[key], golden[key], f"{place} {key}".strip())]
    if isinstance(found, list) and isinstance(golden, list) and len(found) == len(golden):
        pairs = enumerate(zip(found, golden, strict=True))
        return [line for k, pair in pairs for line in differences(*pair, f"{place}[{k}]")]
    if isinstance(found, float) and isinstance(golden, int | float):
        same = math.isclose(found, golden, rel_tol=TOLERANCE, abs_tol=TOLERANCE / 10)
    else:
        same = found == golden
    return [] if same else [f"{place}: {found}, was {golden}"]


def main() -> None:
    torch.set_num_threads(1)
    golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    new = {}
    for name, (method, options) in runs().items():
        if sys.argv[1:] and method not in sys.argv[1:] and name in golden:
            new[name] = golden[name]
            continue
        new[name] = outcome(method, options)
        moved = differences(new[name], golden.get(name, {}))
        if not moved:
            new[name] = golden[name]  # rounding moves no file
        print(f"{name}: {'as it was' if not moved else 'new' if name not in golden else '; '.join(moved)}")
    lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in new.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
