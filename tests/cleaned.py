"""A run folder as `marvel clean` leaves it, without the training: what the report and the review are tested on."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from marvel import metrics
from marvel.runs import RunFolder, as_json, write_atomically
from shapes import SHAPES, Planted

COLUMNS = ("rank", "id", "given", "suggested", "quality", "label_quality", "removed_at", "wrong_probability")
EPOCHS, WARMUP, WAIT = 24, 4, 3


class Pictures:
    """Shows the images of a folder, as a reader does."""

    def __init__(self, planted: Planted) -> None:
        self.planted = planted

    def picture(self, index: int, largest: int = 512) -> bytes | None:
        path = self.planted.folder / self.planted.ids[index]
        return path.read_bytes() if path.exists() else None

    def fields(self, index: int) -> dict[str, str]:
        return {}


class Rows:
    """Shows the rows of a table."""

    def picture(self, index: int, largest: int = 512) -> bytes | None:
        return None

    def fields(self, index: int) -> dict[str, str]:
        return {"height": f"{index / 7:.2f}", "colour": "<b>red</b>", "note": "a long text " * 12}


def margins_of(wrong: np.ndarray[Any, Any], seed: int = 0) -> np.ndarray[Any, Any]:
    """(epochs, n): they grow where the label is right, and fall where it is wrong; a few of each are hard."""
    rng = np.random.default_rng(seed)
    n = len(wrong)
    level = np.where(wrong, rng.normal(-6, 2, n), rng.normal(6.5, 2, n))
    pace = 1 - np.exp(-np.arange(1, EPOCHS + 1) / 5)
    return pace[:, None] * level + rng.normal(0, 0.7, (EPOCHS, n)) + 0.4


def write_cleaned(
    path: Path,
    given: np.ndarray[Any, Any],
    truth: np.ndarray[Any, Any],
    ids: Sequence[str],
    classes: Sequence[str] = SHAPES,
    origin: dict[str, Any] | None = None,
    estimate: bool = True,
    seed: int = 0,
) -> RunFolder:
    """`given` and `truth` are class numbers; the margins are made up from whether they agree."""
    n, rng = len(given), np.random.default_rng(seed)
    folder = RunFolder(path)
    margins = margins_of(given != truth, seed)
    canary = np.zeros(n, dtype=bool)
    canary[rng.permutation(np.flatnonzero(given == truth))[: n // 50]] = True
    run = np.zeros(n, dtype=int)
    removed_at = np.zeros(n, dtype=int)
    lines = []
    for epoch, margin in enumerate(margins, 1):
        run = np.where(margin < 0, run + 1, 0)
        removed_at[(run >= WAIT) & (removed_at == 0) & (epoch > WARMUP + WAIT)] = epoch
        kept = removed_at == 0
        reach = metrics.reach(margin)
        lines.append(
            {
                "epoch": epoch,
                "train_loss": 2 / epoch,
                "test_accuracy": None,
                "validation_accuracy": None,
                "train_accuracy": float((margin > 0).mean()),
                "removed": int((~kept).sum()),
                "idle_batches": 0,
                "margin": {"quantiles": metrics.quantiles(margin), "survivors": metrics.quantiles(margin[kept])},
                "histogram": {
                    "range": list(reach),
                    "all": metrics.histogram(margin, *reach),
                    "survivors": metrics.histogram(margin[kept], *reach),
                },
            }
        )
        folder.append(lines[-1])
        weight = torch.from_numpy(kept.astype(float))
        folder.write_ledger(epoch, torch.from_numpy(margin), weight, torch.from_numpy(~canary))
    quality = margins[1:].mean(axis=0)
    other = (given + rng.integers(1, len(classes), n)) % len(classes)
    suggested = np.where(given != truth, truth, other)
    slips = rng.random(n) < 0.06
    suggested = np.where(slips, other, suggested)
    probability = 1 / (1 + np.exp(1.6 * (quality - 0.2)))
    flagged = (quality < 0.6) & ~canary
    # As of a canary nothing is told but its own label, and a guess at whether that is wrong.
    probability[canary] = np.where(np.arange(canary.sum()) == 0, 0.9999, 0.01)
    flagged[np.flatnonzero(canary)[:1]] = estimate
    quality[canary] = np.nan
    removed_at[canary] = 0
    trust = 1 / (1 + np.exp(-quality))
    folder.write_instances(
        {
            "index": np.arange(n),
            "row": np.arange(n),
            "id": list(ids),
            "given": given,
            "suggested": suggested,
            "quality": quality,
            "label_quality": trust,
            "weight": (removed_at == 0).astype(float),
            "removed_at": removed_at,
            "epochs_seen": np.full(n, EPOCHS),
            "wrong_probability": probability if estimate else [None] * n,
            "flagged": flagged,
            "canary": canary,
        }
    )
    listed = sorted(np.flatnonzero(flagged), key=lambda i: (-probability[i] if estimate else 0, trust[i]))
    _write_issues(path, [int(i) for i in listed], ids, classes, given, suggested, quality, removed_at, probability)
    folder.config = {
        "config": {"data": "shapes", "method": "marvel", "network": "cnn4", "epochs": EPOCHS, "batch": 128, "seed": 0},
        "data": {"name": "shapes", "n": n, "classes": list(classes), "fingerprint": "5ba1" * 16},
        "noise": {"name": "none"},
        "environment": {
            "marvel": "0.1.0",
            "commit": "edaf5223eeec0856e1f02a04136606ee910b026d",
            "python": "3.11.7",
            "torch": "2.13.0",
            "numpy": "2.4.6",
            "platform": "Linux",
            "device": "cpu",
            "processes": 1,
            "command": "marvel clean shapes --out runs/shapes",
        },
    }
    folder.record = {
        **(folder.config or {}),
        "final": {
            "train_accuracy": lines[-1]["train_accuracy"],
            "removed": lines[-1]["removed"],
            "test_accuracy": None,
        },
        "chosen": {"wait": WAIT, "warmup": WARMUP},
        "seconds": 41.3,
        "curves": {
            "train_accuracy": [line["train_accuracy"] for line in lines],
            "margin_quantiles": [line["margin"]["quantiles"] for line in lines],  # type: ignore[index]
            "margin_survivors": [line["margin"]["survivors"] for line in lines],  # type: ignore[index]
        },
        "histograms": {},
        "apex": None,
    }
    _write_found(path, n, classes, given, suggested, flagged, removed_at, origin, int(canary.sum()), estimate)
    return folder


def _write_issues(path: Path, ranked: list[int], ids: Sequence[str], classes: Sequence[str], *columns: Any) -> None:
    given, suggested, quality, removed_at, probability = columns
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for rank, i in enumerate(ranked, 1):
        names = (classes[given[i]], classes[suggested[i]])
        numbers = (quality[i], 1 / (1 + np.exp(-quality[i])), removed_at[i], probability[i])
        writer.writerow([rank, ids[i], *names, *numbers])
    write_atomically(path / "issues.csv", text.getvalue().encode())


def _write_found(path: Path, n: int, classes: Sequence[str], *columns: Any) -> None:
    given, suggested, flagged, removed_at, origin, canaries, estimate = columns
    pairs, counts = np.unique(np.stack([given[flagged], suggested[flagged]], 1), axis=0, return_counts=True)
    wrong = int(flagged.sum())
    known = {
        "wrong": {"value": wrong * 1.06, "low": wrong * 0.94, "high": wrong * 1.21, "level": 0.95},
        "precision": 0.93,
        "recall": 0.88,
        "cut_off": 0.6,
        "model": "A wrong label behaves like one flipped on purpose.",
    }
    shown = np.linspace(1, 2.2 * wrong + 1, 30).astype(int)
    share = shown / max(1, wrong)
    found = {
        "origin": origin or {"kind": "folder", "path": "/data/shapes"},
        "classes": list(classes),
        "n": n,
        "set_aside": [
            {"id": "star/broken.png", "reason": "the image is cut short"},
            {"id": "moon/empty.png", "reason": "the file is empty"},
        ],
        "canaries": canaries if estimate else 0,
        "found": {
            "flagged": wrong,
            "removed": int((removed_at > 0).sum()),
            "by_class": [
                {
                    "name": name,
                    "n": int((given == c).sum()),
                    "flagged": int(flagged[given == c].sum()),
                    "removed": int((removed_at[given == c] > 0).sum()),
                }
                for c, name in enumerate(classes)
            ],
            "pairs": [
                {"given": classes[pairs[k][0]], "suggested": classes[pairs[k][1]], "count": int(counts[k])}
                for k in np.argsort(-counts, kind="stable")
            ],
        },
        "estimate": known if estimate else None,
        "curve": [
            {
                "flagged": int(k),
                "precision": float(min(0.99, 1 / max(1, s) * 0.98)),
                "recall": float(min(0.99, s * 0.9)),
            }
            for k, s in zip(shown, share, strict=True)
        ]
        if estimate
        else [],
        "warnings": ["most of class 'moon' is removed (31 of 48): look at it"],
        "seconds": 44.0,
    }
    write_atomically(path / "clean.json", as_json(found, indent=2))
