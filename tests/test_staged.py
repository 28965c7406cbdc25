"""Methods that train something before: what they decide is derived a second time, from what their stages left."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contract import BRISK
from marvel import AUM, InvalidInput
from marvel.config import Config
from marvel.data import Data
from marvel.methods.aum import flagged
from marvel.run import Run
from marvel.runs import RunFolder
from toy import FEATURES, problem

N, CLASSES = 90, 3


def vectors() -> Data:
    x, y, _ = problem(N + 30, CLASSES, noise=0.0, seed=0)
    unit: dict[str, Any] = {"mean": (0.0,) * FEATURES, "std": (1.0,) * FEATURES}
    return Data("vectors", x[:N], y[:N], ("a", "b", "c"), x[N:], y[N:], **unit)


def settings(method: str, **changes: Any) -> Config:
    usual: dict[str, Any] = {"data": "vectors", "noise": "symmetric", "rate": 0.3, "method": method, "network": "mlp"}
    usual |= {"epochs": 4, "batch": 32, "lr": 0.05, "device": "cpu", "options": BRISK.get(method, {})}
    return Config(**(usual | changes))


def finished(config: Config, folder: Path | None = None) -> Run:
    run = Run(config, folder, data=vectors())
    for _ in run.steps():
        pass
    return run


def saved(folder: Path) -> dict[str, Tensor]:
    """What the last checkpoint of a stage holds."""
    found = RunFolder(folder).load_checkpoint()
    assert found is not None
    return found[1]


# ------------------------------------------------------------ AUM


@pytest.mark.parametrize("samples", ["paper", "code"])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_aum_removes_what_the_margins_of_its_passes_say(samples: str, rule: str, tmp_path: Path) -> None:
    options = {"samples": samples, "rule": rule, "percentile": 80.0, "pass_epochs": 5, "pass_batch": 16}
    run = finished(settings("aum", options=options, ledger=True), tmp_path)
    aums, thresholds, flags = [], [], []
    for name in ("pass1", "pass2"):
        ledger = [shown["margin"] for epoch, shown in RunFolder(tmp_path / name).ledger() if epoch > 1]
        assert len(ledger) == 4
        aum = [sum(float(margin[i]) for margin in ledger) / 4 for i in range(N)]
        stage = saved(tmp_path / name)
        assert stage["network0.head.weight"].shape[0] == CLASSES + 1
        torch.testing.assert_close(stage["method.quality"], torch.tensor(aum), rtol=1e-2, atol=1e-2)
        aums.append(stage["method.quality"].tolist())
    generator = run.trainer.generator("threshold samples")
    order = torch.randperm(N, generator=generator).tolist()
    size = N // (CLASSES + 1) if samples == "paper" else N // CLASSES
    for aum, threshold in zip(aums, (order[:size], order[size : 2 * size])):
        larger = [sum(aum[j] > aum[i] for j in threshold) for i in range(N)]
        flags.append([i not in threshold and larger[i] > 0.2 * size + 1e-9 for i in range(N)])
        thresholds.append(threshold)
    expected = []
    for i in range(N):
        judges = [k for k in (0, 1) if i not in thresholds[k]]
        expected.append(flags[judges[0]][i] if rule == "paper" else all(flags[k][i] for k in judges))
    assert 0 < sum(expected) < N
    assert run.method.removed.tolist() == expected
    assert run.method.weight.tolist() == [float(not wrong) for wrong in expected]
    assert isinstance(run.method, AUM)
    assert run.method.aum.tolist() == [aums[int(i in thresholds[0])][i] for i in range(N)]


def test_the_percentile_of_aum_by_hand() -> None:
    aum = torch.tensor([0.5, 9.0, 1.0, 2.0, 3.0, 3.5, 4.0, 4.0])
    threshold = torch.tensor([False, False, True, True, True, False, True, False])
    # Of the four threshold samples 1, 2, 3 and 4, more than a quarter is larger than 0.5 and none is larger than 4.
    assert flagged(aum, threshold, 75).tolist() == [True] + [False] * 7
    assert flagged(aum, threshold, 99).tolist() == [True, *[False] * 4, True, False, False]
    assert not flagged(aum, threshold, 0).any()


def test_a_pass_of_aum_lasts_as_long_as_the_first_learning_rate(tmp_path: Path) -> None:
    for drops, epochs, expected in (((3,), 6, 3), ((), 6, 3), ((1,), 6, 2), ((), 1, 2)):
        folder = tmp_path / f"{drops}{epochs}"
        run = finished(settings("aum", drops=drops, epochs=epochs, options={}), folder)
        assert len(RunFolder(folder / "pass2").metrics()) == expected
        assert run.trainer.first_drop == min(expected, (epochs + 1) // 2 if not drops else drops[0])


@pytest.mark.parametrize(
    "options", [{"samples": "half"}, {"rule": "any"}, {"percentile": 101.0}, {"pass_epochs": 1}], ids=str
)
def test_aum_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        AUM(N, CLASSES, **options)
