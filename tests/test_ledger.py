"""The lines of metrics.jsonl, number by number, from the margins that were shown: plain loops over instances."""

from typing import Any

import numpy as np
import pytest
import torch

from marvel import Marvel
from marvel.ledger import Ledger
from marvel.method import Seen

N, EPOCHS, WARM, WAIT = 40, 9, 2, 2


def history() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(epochs, n) margins and whether each was shown; (n,) which labels are right. A margin of 0 is among them."""
    rng = np.random.default_rng(0)
    clean = rng.random(N) < 0.6
    margin = np.where(clean, 1.0, -0.7) + rng.normal(size=(EPOCHS, N))
    margin[rng.random((EPOCHS, N)) < 0.05] = 0
    return margin.astype(np.float32), rng.random((EPOCHS, N)) < 0.9, clean


def followed() -> tuple[list[dict[str, Any]], Ledger, Marvel]:
    margin, shown, clean = history()
    y = torch.arange(N) % 3
    truth = torch.where(torch.from_numpy(clean), y, (y + 1 + torch.arange(N) % 2) % 3)
    criterion, ledger = Marvel(N, 3, EPOCHS, warmup=WARM, wait=WAIT), Ledger(y, torch.from_numpy(clean), truth)
    lines = []
    for m, mask in zip(torch.from_numpy(margin), torch.from_numpy(shown)):
        rows = mask.nonzero().squeeze(1)
        criterion.record(rows, m[rows], (y[rows] + 1) % 3)
        seen = criterion.step()
        # What was not shown has no margin, whatever stands in its place.
        lines.append(ledger.line(criterion, Seen(torch.where(mask, seen.margin, 50.0), seen.mask, seen.rival)))
    return lines, ledger, criterion


def test_a_line_by_hand() -> None:
    margin, shown, clean = history()
    lines, _, criterion = followed()
    removed_at = criterion.removed_at.tolist()
    assert 5 < sum(at > 0 for at in removed_at) < N
    for epoch, line in enumerate(lines, 1):
        there = [i for i in range(N) if shown[epoch - 1, i]]
        gone = [i for i in range(N) if 0 < removed_at[i] <= epoch]
        kept = [i for i in range(N) if i not in gone]
        of = margin[epoch - 1].astype(float)
        wrong = [i for i in there if not clean[i]]
        assert line["train_accuracy"] == pytest.approx(sum(of[i] > 0 for i in there) / len(there))
        assert line["memorisation_ratio"] == pytest.approx(sum(of[i] > 0 for i in wrong) / len(wrong))
        assert line["removed"] == len(gone)
        assert line["label_precision"] == pytest.approx(sum(bool(clean[i]) for i in kept) / len(kept))
        assert line["label_recall"] == pytest.approx(sum(bool(clean[i]) for i in kept) / clean.sum())
        assert line["clean_remaining"] == sum(bool(clean[i]) for i in kept)
        assert line["noisy_remaining"] == sum(not clean[i] for i in kept)
        found = [i for i in gone if not clean[i]]
        right = [i for i in found if i % 2 == 0]  # the class after the given one is the clean one of even indices
        assert line["suggestion_accuracy"] == (pytest.approx(len(right) / len(found)) if found else None)
        groups = {
            "all": there,
            "survivors": [i for i in there if i in kept],
            "clean": [i for i in there if clean[i]],
            "noisy": wrong,
        }
        assert {name: sum(line["histogram"][name]) for name in groups} == {k: len(v) for k, v in groups.items()}
        for name in ("all", "survivors"):
            mean, spread = np.mean(of[groups[name]]), np.std(of[groups[name]])
            assert line["margin"]["moments"][name] == pytest.approx([mean, spread], abs=1e-3)
        median = {"quantiles": np.median(of[there]), "survivors": np.median(of[groups["survivors"]])}
        assert {name: line["margin"][name][2] for name in median} == pytest.approx(median, abs=1e-3)


def test_positive_margins_of_the_five_epochs_after_the_warm_up() -> None:
    margin, shown, clean = history()
    _, ledger, _ = followed()
    counts = [sum(bool(shown[e, i] and margin[e, i] > 0) for e in range(WARM, WARM + 5)) for i in range(N)]
    expected = {
        "all": [counts.count(k) for k in range(6)],
        "clean": [sum(counts[i] == k for i in range(N) if clean[i]) for k in range(6)],
        "noisy": [sum(counts[i] == k for i in range(N) if not clean[i]) for k in range(6)],
    }
    assert ledger.apex_counts() == expected and int(ledger.apex) == 5
    assert Ledger(torch.zeros(N), None).apex_counts() is None


def test_a_ledger_that_goes_on_is_the_same() -> None:
    _, ledger, _ = followed()
    other = Ledger(torch.zeros(N), None)
    other.load({name: tensor.clone() for name, tensor in ledger.state().items()})
    assert all(torch.equal(tensor, ledger.state()[name]) for name, tensor in other.state().items())
    assert set(ledger.state()) == {"positives", "apex", "trust", "rival", "lead"}
