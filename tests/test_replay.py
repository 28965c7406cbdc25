"""Any wait, replayed on a ledger, is what the paper's algorithm removes; and a history with removals is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithm import algorithm, classification_margins, update_weights
from marvel import Marvel
from marvel.config import Config
from marvel.data import Data
from marvel.errors import FolderError, InvalidInput
from marvel.run import Run, train
from marvel.runs import RunFolder
from marvel.tune import replay, replay_folder
from toy import problem

N, CLASSES = 90, 3


def toy() -> Data:
    x, y, _ = problem(N, CLASSES, noise=0.0, seed=0)
    return Data("toy", x, y, ("a", "b", "c"))


def settings(method: str, **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": "toy", "network": "mlp", "epochs": 12, "batch": 32, "device": "cpu", "lr": 0.05}
    return Config(**(usual | {"method": method, "noise": "symmetric", "rate": 0.4, "ledger": True} | changes))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_papers_rule(seed: int) -> None:
    """Logits that do not depend on what is removed: then every removal of Algorithm 1 is told, not only the first."""
    rng = np.random.default_rng(seed)
    n, epochs = int(rng.integers(2, 12)), int(rng.integers(1, 12))
    warm, wait = int(rng.integers(0, 5)), int(rng.integers(1, 6))
    y = rng.integers(0, CLASSES, n)
    logits = rng.integers(-2, 3, (epochs, n, CLASSES)).astype(np.float64)  # small whole numbers: margins of 0 occur
    story = [[(np.arange(n), z)] for z in logits]
    truth = algorithm(story, y, warm, wait, update_weights)
    margins = [(e, torch.from_numpy(classification_margins(z, y))) for e, z in enumerate(logits, 1)]
    removed_at = replay(margins, warm, [wait])[wait].numpy()
    for e, epoch in enumerate(truth, 1):
        assert np.array_equal((removed_at > 0) & (removed_at <= e), epoch.removed), e


@pytest.mark.parametrize("wait", [1, 2, 4])
def test_the_first_removal_is_that_of_a_real_run(wait: int, tmp_path: Path) -> None:
    """A run of cross entropy tells what MARVEL removes first, instance by instance."""
    train(settings("ce"), tmp_path / "ce", data=toy())
    real = train(settings("marvel", options={"warmup": 3, "wait": wait}), data=toy()).method.removed_at.numpy()
    first = real[real > 0].min()
    ledger = [(epoch, kept["margin"].float()) for epoch, kept in RunFolder(tmp_path / "ce").ledger()]
    told = replay(ledger, 3, [wait])[wait].numpy()
    assert np.array_equal(told == first, real == first) and (real == first).any()
    assert told[told > 0].min() == first
    (row,) = replay_folder(str(tmp_path / "ce"), [wait], [3])
    assert (row.first, row.removed_first) == (first, (real == first).sum())


def test_precision_and_recall_are_of_what_would_be_kept(tmp_path: Path) -> None:
    run = train(settings("ce"), tmp_path, data=toy())
    assert run.clean is not None
    clean = run.clean.numpy()
    ledger = [(epoch, kept["margin"].float()) for epoch, kept in RunFolder(tmp_path).ledger()]
    rows = replay_folder(str(tmp_path), [1, 3, 30], [2, 4])
    assert [(row.warmup, row.wait) for row in rows] == [(2, 1), (2, 3), (2, 30), (4, 1), (4, 3), (4, 30)]
    for row in rows:
        removed = replay(ledger, row.warmup, [row.wait])[row.wait].numpy() > 0
        assert row.removed == removed.sum()
        assert row.label_precision == pytest.approx(clean[~removed].mean())
        assert row.label_recall == pytest.approx((~removed)[clean].mean())
    assert rows[2].first is None and rows[2].removed == rows[2].removed_first == 0


def test_instances_that_were_not_visited_keep_their_row() -> None:
    nan = float("nan")
    margins = [(e, torch.tensor(row)) for e, row in enumerate([[-1.0, -1.0], [nan, 1.0], [-1.0, -1.0], [1.0, -1.0]], 1)]
    assert replay(margins, 0, [2])[2].tolist() == [3, 4]
    with pytest.raises(InvalidInput, match="no margin to replay"):
        replay([], 0, [2])


def test_a_history_with_removals_is_refused(tmp_path: Path) -> None:
    run = train(settings("marvel", options={"warmup": 2, "wait": 2}), tmp_path, data=toy())
    first = int(run.method.removed_at[run.method.removed].min())
    assert first == 4
    with pytest.raises(FolderError, match=r"removed \d+ instances by epoch 4: .*with --until 4"):
        replay_folder(str(tmp_path), [2])
    # Up to its own first removal its margins are those of a run without any.
    (row,) = replay_folder(str(tmp_path), [2], until=4)
    assert (row.warmup, row.first, row.removed_first) == (2, 4, int((run.method.removed_at == 4).sum()))


def test_removals_that_act_at_once_end_the_history_one_epoch_earlier(tmp_path: Path) -> None:
    train(settings("marvel", options={"warmup": 2, "wait": 2, "immediate": True}), tmp_path, data=toy())
    with pytest.raises(FolderError, match="with --until 3"):
        replay_folder(str(tmp_path), [2], until=4)
    assert replay_folder(str(tmp_path), [1], until=3)


def test_what_is_needed_is_said(tmp_path: Path) -> None:
    train(settings("ce", ledger=False), tmp_path / "without", data=toy())
    with pytest.raises(FolderError, match="has no ledger to replay: train with --ledger"):
        replay_folder(str(tmp_path / "without"), [2], [3])
    train(settings("ce"), tmp_path / "with", data=toy())
    with pytest.raises(InvalidInput, match="a wait is at least 1 epoch"):
        replay_folder(str(tmp_path / "with"), [0], [3])
    (tmp_path / "with" / "ledger" / "0005.safetensors").unlink()
    with pytest.raises(FolderError, match="has gaps"):
        replay_folder(str(tmp_path / "with"), [2], [3])


def test_an_unfinished_run_has_counts_only(tmp_path: Path) -> None:
    steps = Run(settings("ce"), tmp_path, data=toy()).steps()
    for shown in steps:
        if shown is not None and shown.epoch == 6:
            break
    steps.close()  # type: ignore[attr-defined]
    (row,) = replay_folder(str(tmp_path), [2], [2])
    assert row.removed > 0 and row.label_precision is None


def test_the_ledger_keeps_the_sign_of_every_margin(tmp_path: Path) -> None:
    """Half precision would make a margin of a billionth 0, which is not negative."""
    margin = torch.tensor([-1e-9, 1e-9, 0.0, -1e-40, -3.5, 70000.0])
    folder = RunFolder(tmp_path)
    folder.write_ledger(1, margin, torch.ones(6), torch.tensor([True] * 5 + [False]))
    ((_, kept),) = folder.ledger()
    assert torch.equal(kept["margin"][:5].float().sign(), margin[:5].sign())
    assert kept["margin"][5].isnan() and kept["margin"][4] == -3.5


def test_the_rule_is_the_methods_own() -> None:
    """The same margins through `Marvel.update`, removed instances and all."""
    rng = np.random.default_rng(0)
    n, epochs, warm, wait = 200, 20, 4, 3
    margins = torch.from_numpy(rng.normal(0.3, 1, (epochs, n))).float()
    method = Marvel(n, 2, epochs, warmup=warm, wait=wait)
    for margin in margins:
        method(torch.stack([margin, torch.zeros(n)], dim=1), torch.zeros(n, dtype=torch.int64), torch.arange(n))
        method.step()
    told = replay(list(enumerate(margins, 1)), warm, [wait])[wait]
    assert torch.equal(told, method.removed_at.long()) and (told > 0).any() and (told == 0).any()
