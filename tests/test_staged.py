"""Methods that train something before: what they decide is derived a second time, from what their stages left."""

import math
import sys
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contract import BRISK, batch
from marvel import AUM, INCV, ConfidentLearning, InvalidInput, MentorNet, MissingExtra
from marvel.config import Config
from marvel.data import Data
from marvel.methods.aum import flagged
from marvel.methods.confident_learning import FILTERS, folds_of, issues_and_weights
from marvel.methods.incv import Half, largest, rate_behind
from marvel.methods.mentornet import Mentor, percentile_of, predefined
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


# ------------------------------------------------------------ what they train before

FIRST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "aum": ({}, {"epochs": 8, "schedule": "constant", "batch": 64, "lr": 0.05, "classes": CLASSES + 1}),
    "confident-learning": ({}, {"epochs": 8}),
    "incv": ({}, {"epochs": 5, "schedule": "cosine"}),
    "l_dmi": ({"pretrain": 40}, {"epochs": 40, "drops": (16, 30), "batch": 32}),
    "mentornet": ({"form": "dd"}, {"epochs": 8, "schedule": "constant"}),
}


class Asked(Exception):
    pass


@pytest.mark.parametrize("method", FIRST)
def test_the_protocol_of_the_first_training(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 epochs with falls after 8 and 15: what each method says of it in its module, where no option says more."""
    options, expected = FIRST[method]
    run = Run(settings(method, epochs=20, drops=(8, 15), options=options), data=vectors())

    def stage(name: str, **changes: Any) -> None:
        assert {key: value for key, value in changes.items() if key != "y"} == expected
        raise Asked

    monkeypatch.setattr(run.trainer, "stage", stage)
    with pytest.raises(Asked):
        list(run.method.prepare(run.trainer) or ())


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
        assert len(stage["network0.fc.bias"]) == CLASSES + 1
        torch.testing.assert_close(stage["method.quality"], torch.tensor(aum), rtol=1e-2, atol=1e-2)
        aums.append(stage["method.quality"].tolist())
    places = run.trainer.permutation("threshold samples").tolist()
    size = N // (CLASSES + 1) if samples == "paper" else N // CLASSES
    for k, aum in enumerate(aums):
        threshold = [i for i in range(N) if k * size <= places[i] < (k + 1) * size]
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


# ------------------------------------------------------------ confident learning


def probabilities(n: int = 300, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Labels, a third of them wrong, and probabilities of a network that is mostly right."""
    y = problem(n, CLASSES, noise=0.3, seed=seed)[1]
    g = torch.Generator().manual_seed(seed)
    truth = torch.arange(n) % CLASSES
    z = 2.5 * F.one_hot(truth, CLASSES) + torch.randn(n, CLASSES, generator=g)
    return y, z.softmax(1)


def pruned_slowly(y: list[int], p: list[list[float]]) -> tuple[list[bool], list[float]]:
    """Confident learning in plain Python, from its definition: prune by noise rate."""
    n, k = len(y), len(p[0])
    count = [y.count(j) for j in range(k)]
    t = [sum(p[i][j] for i in range(n) if y[i] == j) / count[j] for j in range(k)]
    joint = [[0.0] * k for _ in range(k)]
    for i in range(n):
        confident = [j for j in range(k) if p[i][j] >= t[j] - 1e-6]
        if confident:
            joint[y[i]][max(confident, key=lambda j: p[i][j])] += 1
    for a in range(k):
        total = sum(joint[a])
        joint[a] = [c / total * count[a] for c in joint[a]]
    wrong, table = [False] * n, []
    for a in range(k):
        whole = [math.floor(c) for c in joint[a]]  # brought to whole numbers that keep the row's sum
        rest = sorted(range(k), key=lambda j: joint[a][j] - whole[j], reverse=True)
        for j in rest[: count[a] - sum(whole)]:
            whole[j] += 1
        table.append(whole)
        for b in range(k):
            if a != b:
                ranked = sorted((i for i in range(n) if y[i] == a), key=lambda i: p[i][a] - p[i][b])
                for i in ranked[: whole[b]]:
                    wrong[i] = True
    weight = [sum(row[j] for row in table) / table[j][j] for j in range(k)]
    return [w and max(range(k), key=lambda j: p[i][j]) != y[i] for i, w in enumerate(wrong)], weight


def test_confident_learning_by_hand() -> None:
    pytest.importorskip("cleanlab")
    y, p = probabilities()
    wrong, weight = issues_and_weights(y, p, "prune_by_noise_rate")
    expected, weights = pruned_slowly(y.tolist(), p.double().tolist())
    assert sum(w != e for w, e in zip(wrong.tolist(), expected)) == 0
    assert 60 < sum(expected) < 120
    torch.testing.assert_close(weight, torch.tensor(weights))


@pytest.mark.parametrize("filter_by", ["prune_by_noise_rate", "predicted_neq_given"])
def test_confident_learning_is_cleanlab_on_what_its_folds_put_out(filter_by: str, tmp_path: Path) -> None:
    filters = pytest.importorskip("cleanlab.filter")
    options = {"folds": 3, "fold_epochs": 3, "filter_by": filter_by, "reweight": False}
    run = finished(settings("confident-learning", options=options), tmp_path)
    y = run.trainer.y
    fold = folds_of(y, run.trainer.permutation("folds"), 3)
    p = np.zeros((N, CLASSES))
    for k in range(3):
        stage = saved(tmp_path / f"fold{k + 1}")
        assert torch.equal(stage["method.removed_at"] > 0, fold == k)
        assert torch.equal(stage["method.epochs_seen"], 3 * (fold != k).short())
        network = run.trainer.build(1)[0].eval()
        network.load_state_dict({key[9:]: tensor for key, tensor in stage.items() if key.startswith("network0.")})
        with torch.no_grad():
            p[fold == k] = network(vectors().x).softmax(1)[fold == k]
    expected = filters.find_label_issues(labels=y.numpy(), pred_probs=p, filter_by=filter_by, n_jobs=1)
    assert 0 < expected.sum() < N
    assert run.method.removed.tolist() == expected.tolist()
    assert run.method.weight.tolist() == (~expected).astype(float).tolist()


def test_folds_are_random_and_spread_each_label_evenly() -> None:
    y = torch.arange(N) % 4
    fold = folds_of(y, torch.randperm(N, generator=torch.Generator().manual_seed(0)), 5)
    for label in range(4):
        counts = torch.bincount(fold[y == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    other = folds_of(y, torch.randperm(N, generator=torch.Generator().manual_seed(1)), 5)
    assert not torch.equal(fold, other)


def test_confident_learning_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cleanlab", "cleanlab.count", "cleanlab.filter"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r"confident-learning needs cleanlab.*pip install 'marvel-learn\[cleanlab\]'"
    ):
        finished(settings("confident-learning"))


def test_confident_learning_refuses() -> None:
    with pytest.raises(InvalidInput, match="folds"):
        ConfidentLearning(N, CLASSES, folds=1)
    with pytest.raises(InvalidInput, match=FILTERS[1]):
        ConfidentLearning(N, CLASSES, filter_by="luck")


# ------------------------------------------------------------ MentorNet


def v_by_hand(diff: float, t: int) -> float:
    if t <= 18:
        return 1.0
    if t < 90:
        return 1.0 if diff <= 0 else 0.0
    return min(max(1 - diff, 0.0), 1.0)


def test_the_predefined_curriculum_by_hand() -> None:
    diff = torch.tensor([-3.0, -0.1, 0.0, 0.1, 0.9, 1.0, 7.0])
    for t in (0, 17, 18, 19, 50, 89, 90, 99):
        expected = [v_by_hand(d, t) for d in diff.tolist()]
        assert predefined(diff, torch.tensor(t)).tolist() == pytest.approx(expected)


def test_percentiles_are_costs_of_the_batch() -> None:
    costs = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0])
    assert [float(percentile_of(costs, p)) for p in (0, 0.25, 0.7, 0.75, 1)] == [1, 2, 4, 4, 5]


@pytest.mark.parametrize("dropout", [(0.5, 0.2), (0.5, 0.2, 0.9)], ids=len)
def test_mentornet_by_hand(dropout: tuple[float, ...]) -> None:
    """Three batches in each of twenty epochs: the moving percentile, the curriculum, dropout, the mean over all."""
    g = torch.Generator().manual_seed(0)
    criterion = MentorNet(N, CLASSES, 20, percentile=0.6, percentile_decay=0.8, dropout=dropout)
    q = 0.0
    for epoch in range(20):
        t = 5 * epoch
        gone = dropout[0] if t < 17 else dropout[-1] if t >= 95 else dropout[1]
        for rows in torch.arange(N).split(31):
            z, y = 3 * torch.randn(len(rows), CLASSES, generator=g), torch.randint(3, (len(rows),), generator=g)
            u = torch.rand(len(rows), 1, generator=g)
            found = criterion((z, u), y, rows)
            costs = [float(-z[i].log_softmax(0)[y[i]]) for i in range(len(rows))]
            q = 0.8 * q + 0.2 * sorted(costs)[round(0.6 * (len(rows) - 1))]
            left = math.floor((1 - gone) * len(rows) + 1e-6)
            spared = sorted(range(len(rows)), key=lambda i: float(u[i]))[:left]
            expected = sum(v_by_hand(costs[i] - q, t) * costs[i] for i in spared) / len(rows)
            assert float(found) == pytest.approx(expected, rel=1e-4)
            assert float(criterion.level) == pytest.approx(q, rel=1e-4)
        criterion.step()


def test_when_mentornet_changes_by_the_percent() -> None:
    """Of a hundred epochs: half of the v are dropped before 17 %, and the mentor rules from 18 % on, by t = 18."""
    criterion = MentorNet(N, CLASSES, 100, form="dd", percentile_decay=0.0, clean=torch.ones(N, dtype=torch.bool))
    assert criterion.mentor is not None
    g = torch.Generator().manual_seed(0)
    u, costs = torch.rand(40, generator=g), 3 * torch.rand(40, generator=g)
    diff = costs - sorted(costs.tolist())[round(0.75 * 39)]
    ruled = criterion.mentor(costs, diff, torch.full((40,), 18)).sigmoid()
    assert not torch.allclose(ruled, criterion.mentor(costs, diff, torch.full((40,), 60)).sigmoid(), atol=1e-3)
    for t in (0, 16, 17, 18, 19, 60, 99):
        criterion.clock.fill_(t + 1)
        assert int(criterion.spared(u).sum()) == (20 if t < 17 else 38), t
        torch.testing.assert_close(criterion.weights(costs), torch.ones(40) if t < 18 else ruled)


def test_the_mentor_learns_by_adam_whose_rate_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1, and a tenth less after every 1000 steps; the first steps once more, with the loss written out."""
    rates: list[float] = []

    class Noted(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    g = torch.Generator().manual_seed(0)
    cost, t = 4 * torch.rand(50, generator=g), torch.randint(0, 40, (50,), generator=g)
    v = (cost < 2).float()
    ours, theirs = Mentor(), Mentor()
    theirs.time.requires_grad_(False)
    learnt = [p for p in theirs.parameters() if p.requires_grad]
    adam = torch.optim.Adam(learnt, 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim, "Adam", Noted)
        for _ in ours.learn(cost, cost - 1, t, v, 5, torch.Generator().manual_seed(1)):
            pass
        for _ in Mentor().learn(cost, cost - 1, t, v, 1002, g):
            pass
    assert rates[:5] == [0.1] * 5 and rates[5:] == pytest.approx([0.1] * 1000 + [0.09] * 2)
    for rows in torch.randint(50, (5, 32), generator=torch.Generator().manual_seed(1)):
        adam.zero_grad()
        p = theirs(cost[rows], cost[rows] - 1, t[rows]).sigmoid()
        (-(v[rows] * p.log() + (1 - v[rows]) * (1 - p).log()).mean()).backward()
        torch.nn.utils.clip_grad_norm_(learnt, 5.0)
        adam.step()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-3, atol=1e-3)


def test_the_random_numbers_of_mentornet_are_the_batch_s() -> None:
    criterion = MentorNet(N, CLASSES, 10)
    rows = torch.arange(20)
    one = batch(rows, torch.randn(20, FEATURES), torch.zeros(20, dtype=torch.long), seed=3)
    logits, u = criterion.outputs([torch.nn.Linear(FEATURES, CLASSES)], one)
    assert logits.shape == (20, CLASSES) and torch.equal(u, one.uniform(1))


def test_the_mentor_is_the_network_of_the_paper() -> None:
    """Section 4: an LSTM of one unit a direction, embeddings of label and epoch, twenty tanh units, one logit."""
    before = torch.get_rng_state()
    shapes = {name: tuple(p.shape) for name, p in Mentor().named_parameters()}
    assert torch.equal(torch.get_rng_state(), before)
    lstm = {"weight_ih": (4, 2), "weight_hh": (4, 1), "bias_ih": (4,), "bias_hh": (4,)}
    expected = {f"{way}.{name}": shape for way in ("ahead", "back") for name, shape in lstm.items()}
    expected |= {"label.weight": (2, 2), "time.weight": (100, 5), "hidden.weight": (20, 9), "hidden.bias": (20,)}
    assert shapes == expected | {"logit.weight": (1, 20), "logit.bias": (1,)}


def test_the_mentor_equals_a_bidirectional_lstm() -> None:
    mentor, lstm = Mentor(), torch.nn.LSTM(2, 1, bidirectional=True)
    for name, value in lstm.named_parameters():
        cell = mentor.back if name.endswith("_reverse") else mentor.ahead
        value.data.copy_(getattr(cell, name.replace("_l0", "").replace("_reverse", "")))
    cost, t = torch.linspace(0, 5, 7), torch.arange(7)
    diff = cost - 2
    _, (_, cells) = lstm(torch.stack([cost, diff], 1)[None])
    features = [mentor.label.weight[0].expand(7, 2), mentor.time.weight[:7], cells[0], cells[1]]
    expected = mentor.logit(torch.tanh(mentor.hidden(torch.cat(features, 1)))).squeeze(1)
    torch.testing.assert_close(mentor(cost, diff, t), expected)


def test_the_mentor_learns_to_tell_right_labels_by_their_losses() -> None:
    g = torch.Generator().manual_seed(0)
    t = torch.randint(0, 40, (2000,), generator=g)
    v = (torch.rand(2000, generator=g) < 0.6).float()
    cost = torch.where(v > 0, 0.5, 3.0) + 0.5 * torch.rand(2000, generator=g)
    mentor = Mentor()
    time = mentor.time.weight.clone()
    steps = list(mentor.learn(cost[:1500], cost[:1500] - 2, t[:1500], v[:1500], 400, g))
    found = mentor(cost[1500:], cost[1500:] - 2, t[1500:]).sigmoid()
    assert len(steps) == 400
    assert ((found > 0.5) == (v[1500:] > 0)).float().mean() > 0.98
    assert torch.equal(mentor.time.weight, time)
    assert not any(p.requires_grad for p in mentor.parameters())


def test_the_data_driven_form_trains_its_mentor_and_keeps_it(tmp_path: Path) -> None:
    options = {"form": "dd", "labelled": 0.5, "student_epochs": 3, "mentor_steps": 50, "percentile": 0.7}
    run = finished(settings("mentornet", options=options, epochs=8), tmp_path)
    assert isinstance(run.method, MentorNet) and run.method.mentor is not None
    watched = run.trainer.permutation("labelled")[: N // 2]
    student = saved(tmp_path / "student")
    # Before its first epoch the student's network is as it was built.
    stage = run.trainer.stage("student")
    with torch.no_grad():
        costs = F.cross_entropy(stage.build(1)[0].eval()(vectors().x), run.trainer.y, reduction="none")
    torch.testing.assert_close(student["method.costs"][:, 0], costs[watched])
    assert float(student["method.levels"][0]) == pytest.approx(sorted(costs.tolist())[round(0.7 * (N - 1))])
    # The mentor is what learning from this table gives.
    costs, mentor = student["method.costs"], Mentor()
    table = [
        (costs[s, e], costs[s, e] - student["method.levels"][e], torch.tensor(100 * e // 8), run.clean[i].float())
        for s, i in enumerate(watched)
        for e in range(3)
    ]
    list(mentor.learn(*map(torch.stack, zip(*table)), 50, run.trainer.generator("mentor")))
    for name, value in mentor.state_dict().items():
        torch.testing.assert_close(run.method.mentor.state_dict()[name], value)
        torch.testing.assert_close(saved(tmp_path)[f"method.mentor.{name}"], value)


def test_only_the_data_driven_form_must_be_told_the_truth() -> None:
    assert MentorNet.needed({}) == MentorNet.needed({"form": "pd"}) == ()
    assert MentorNet.needed({"form": "dd"}) == ("clean",)
    with pytest.raises(InvalidInput, match="mentornet must be told which labels are right"):
        Run(settings("mentornet", options={"form": "dd"}, noise="none", rate=0.0), data=vectors())
    with pytest.raises(InvalidInput, match="must be told `clean`"):
        MentorNet(N, CLASSES, 4, form="dd")
    assert "clean" not in Run(settings("mentornet"), data=vectors()).method.remembered()


def test_the_data_driven_form_looks_at_the_labelled_share_alone() -> None:
    options = {"form": "dd", "labelled": 0.3, "student_epochs": 2, "mentor_steps": 10}
    runs = [Run(settings("mentornet", options=options), data=vectors()) for _ in range(2)]
    watched = runs[0].trainer.permutation("labelled")[: round(0.3 * N)]
    other = torch.ones(N, dtype=torch.bool)
    other[watched] = False
    runs[1].method.clean ^= other  # the truth of all the others, turned around
    for run in runs:
        for _ in run.steps():
            pass
    assert torch.equal(runs[0].method.quality, runs[1].method.quality)


@pytest.mark.parametrize(
    "options",
    [{"form": "xy"}, {"percentile": 1.5}, {"dropout": (0.5,)}, {"dropout": (0.5, 1.0)}, {"labelled": -0.1}],
    ids=str,
)
def test_mentornet_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        MentorNet(N, CLASSES, 4, **options)


def test_the_percentile_goes_with_the_noise_rate() -> None:
    def found(**told: Any) -> float:
        clean = torch.ones(N, dtype=torch.bool) if told.get("form") == "dd" else None
        return MentorNet(N, CLASSES, 10, clean=clean, **told).percentile

    assert found() == found(form="dd") == 0.75
    assert [found(noise_rate=e) for e in (0.0, 0.4, 0.79, 0.8, 0.9)] == [0.75, 0.75, 0.75, 0.5, 0.5]
    rates = (0.0, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
    expected = np.interp(rates, (0.2, 0.4, 0.8), (0.8, 0.6, 0.5))
    assert [found(form="dd", noise_rate=e) for e in rates] == pytest.approx(expected)
    assert found(percentile=0.33, noise_rate=0.8) == 0.33


def test_mentornet_must_know_how_long_it_lasts() -> None:
    with pytest.raises(InvalidInput, match="how many epochs"):
        MentorNet(N, CLASSES)


# ------------------------------------------------------------ INCV


@pytest.mark.parametrize("k", [1, 2, 9, 99])
def test_the_noise_rate_behind_an_agreement(k: int) -> None:
    for rate in (0.05, 0.2, 0.4):
        assert rate_behind((1 - rate) ** 2 + rate**2 / k, k) == pytest.approx(rate, abs=0.0011)
    assert rate_behind(0.0, k) == 1.0
    assert rate_behind(1.0, k) == 0.001
    for agreement in torch.linspace(0.3, 1, 40).tolist():
        e = 0.001
        while (1 - e) ** 2 + e**2 / k > agreement and e < 1:
            e += 0.001
        assert rate_behind(agreement, k) == pytest.approx(e, abs=0.0011)


def test_the_noise_rate_found_is_that_of_a_network_that_memorises() -> None:
    """Predictions as wrong as the labels tell the rate; right ones let it seem lower."""
    rng, rate = np.random.default_rng(0), 0.4
    truth = rng.integers(10, size=200_000)

    def noisy() -> np.ndarray[Any, Any]:
        wrong = rng.random(len(truth)) < rate
        return np.where(wrong, (truth + rng.integers(1, 10, size=len(truth))) % 10, truth)

    given = noisy()
    assert rate_behind(float((noisy() == given).mean()), 9) == pytest.approx(rate, abs=0.01)
    assert rate_behind(float((truth == given).mean()), 9) == pytest.approx(0.23, abs=0.005)


def test_the_largest_costs_among_some() -> None:
    costs, among = torch.tensor([5.0, 1.0, 9.0, 3.0, 7.0]), torch.tensor([True, True, False, True, True])
    assert largest(costs, among, 2).tolist() == [True, False, False, False, True]
    assert largest(costs, among, 0).tolist() == [False] * 5  # not everything
    assert largest(costs, among, 9).tolist() == among.tolist()


@pytest.mark.parametrize("noise_type", ["symmetric", "asymmetric"])
def test_incv_selects_and_removes_what_its_stages_say(noise_type: str, tmp_path: Path) -> None:
    """The rounds once more, with lists of indices, from the networks and the best outputs that the stages left."""
    options = {"noise_type": noise_type, "rounds": 3, "stage_epochs": 4}
    run = finished(settings("incv", options=options, lr=0.2), tmp_path)
    method, y, x = run.method, run.trainer.y.tolist(), vectors().x
    assert isinstance(method, INCV)
    k = CLASSES - 1 if noise_type == "symmetric" else 1
    S: list[int] = []
    C = list(range(N))
    discarded: list[int] = []
    e, early = 0.0, 9
    for r in (1, 2, 3):
        order = [i for i in run.trainer.permutation(f"round{r}").tolist() if i in C]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        gained: list[int] = []
        for name, C1, C2 in (("first", *halves), ("second", *reversed(halves))):
            stage = saved(tmp_path / f"round{r}-{name}")
            trained = [i for i in range(N) if stage["method.epochs_seen"][i] == 4]
            assert trained == sorted(S + C1)
            network = run.trainer.build(1)[0].eval()
            network.load_state_dict({key[9:]: tensor for key, tensor in stage.items() if key.startswith("network0.")})
            with torch.no_grad():
                z = network(x)
            agreed = sum(int(z[i].argmax()) == y[i] for i in C2) / len(C2)
            if r <= early and agreed <= float(stage["method.agreement"]) + 1e-6:
                z = stage["method.best"]
            selected = [i for i in C2 if int(z[i].argmax()) == y[i]]
            if (r, name) == (1, "first"):
                e = rate_behind(len(selected) / len(C2), k)
                early = 4 if e <= 0.3 else 2 if e <= 0.6 else 1
                early = early if noise_type == "symmetric" else 1
            by_cost = sorted(C2, key=lambda i: float(z[i].log_softmax(0)[y[i]]))
            discarded += by_cost[: int(min(2, e / (1 - e)) * len(selected))]
            gained += selected
        S += gained
        C = [i for i in C if i not in gained and not (noise_type == "symmetric" and i in discarded)]
    assert 0 < len(S) < N and 0 < e < 1
    assert method.selected.nonzero().squeeze(1).tolist() == sorted(S)
    assert [i for i in range(N) if method.removed[i]] == sorted(set(range(N)) - set(S) - set(C))
    assert method.removed.any() == (noise_type == "symmetric")
    assert float(method.noise_rate_found) == pytest.approx(e)
    assert float(method.noise_rate_selected) == pytest.approx(e**2 / (e**2 + k * (1 - e) ** 2))


def selecting(**options: Any) -> INCV:
    """Forty selected, twenty candidates, the rest removed."""
    criterion = INCV(N, CLASSES, 10, **options)
    criterion.selected = torch.arange(N) < 40
    criterion.remove(torch.arange(N) >= 60)
    criterion.noise_rate_found.fill_(0.4)
    criterion.noise_rate_selected.fill_(0.25)
    return criterion


@pytest.mark.parametrize(
    ("options", "first"), [({}, 3), ({"noise_type": "asymmetric"}, 5), ({"candidates_from": 1}, 2)]
)
def test_candidates_join_late_and_in_proportion(options: dict[str, Any], first: int) -> None:
    criterion = selecting(**options)
    for epoch in range(1, 7):
        criterion.epoch = epoch
        steps = list(criterion.draws(torch.Generator().manual_seed(epoch), 16))
        drawn = torch.cat(steps)
        assert len(drawn.unique()) == len(drawn)
        assert sorted(drawn[drawn < 40].tolist()) == list(range(40))
        joined = [int((step >= 40).sum()) for step in steps]
        assert [len(step) - j for step, j in zip(steps, joined)] == [16, 16, 8]
        assert joined == ([8, 8, 4] if epoch >= first else [0, 0, 0])  # 16 x 20 / 40 of them, half a batch at most
        assert int(drawn.max()) < 60


def test_incv_keeps_as_many_as_the_selected_are_worth() -> None:
    criterion = selecting(ramp=4)
    g = torch.Generator().manual_seed(0)
    for epoch in range(1, 7):
        rows = torch.cat([torch.arange(15), torch.arange(40, 45)])  # fifteen selected, five candidates
        y = torch.randint(CLASSES, (20,), generator=g)
        z = [torch.randn(20, CLASSES, generator=g) for _ in range(2)]
        found = criterion((z[0], z[1]), y, rows)
        keep = round(15 * (1 - 0.25 * min(1, (epoch - 1) / 4)))
        costs = [[float(-logits[i].log_softmax(0)[y[i]]) for i in range(20)] for logits in z]
        picks = [sorted(range(20), key=lambda i, own=own: own[i])[:keep] for own in costs]
        expected = sum(costs[0][i] for i in picks[1]) / keep + sum(costs[1][i] for i in picks[0]) / keep
        assert float(found) == pytest.approx(expected, rel=1e-4)
        criterion.step()


def test_stages_of_incv_begin_with_the_same_weights(tmp_path: Path) -> None:
    """So slowly do they learn that what they end with is what they began with: the run's own first weights."""
    run = finished(settings("incv", options={"rounds": 2, "stage_epochs": 1}, lr=1e-12), tmp_path)
    (first,) = run.trainer.build(1)
    for name in ("round1-first", "round1-second", "round2-first", "round2-second"):
        stage = saved(tmp_path / name)
        for key, tensor in first.named_parameters():
            torch.testing.assert_close(stage[f"network0.{key}"], tensor.detach(), rtol=0, atol=1e-9)


class Putting(SimpleNamespace):
    """As much of a Trainer as a half of INCV asks for: its labels, and what the network of each epoch puts out."""

    y: Tensor
    out: list[Tensor]

    def logits(self, method: Half) -> Generator[None, None, Tensor]:
        yield
        return self.out[method.epoch - 2]


@pytest.mark.parametrize("early", [True, False])
def test_a_half_of_incv_keeps_what_agrees_best_or_the_last(early: bool) -> None:
    """The networks of four epochs agree with 2, 4, 4 and 3 of the five labels of the others."""
    y, others = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]), torch.arange(8) < 5
    hits = ((0, 1), (0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4))
    out = [
        F.one_hot((y + torch.tensor([i not in hit for i in range(8)])) % 3, 3) + 0.01 * e for e, hit in enumerate(hits)
    ]
    trainer, half = Putting(y=y, out=out), Half(8, 3, 4, kept=~others, others=others, early=early)
    for _ in range(4):
        list(half.start(trainer) or ())  # type: ignore[arg-type]
        half.step()
    list(half.look(trainer))  # type: ignore[arg-type]
    assert torch.equal(half.best, out[1] if early else out[3])
    assert float(half.agreement) == pytest.approx(0.8 if early else 0.6)


@pytest.mark.parametrize(("found", "first"), [(0.55, 3), (0.65, 5)])
def test_candidates_join_later_where_most_labels_are_wrong(found: float, first: int) -> None:
    criterion = selecting()
    criterion.noise_rate_found.fill_(found)
    for epoch in range(1, 7):
        criterion.epoch = epoch
        drawn = torch.cat(list(criterion.draws(torch.Generator().manual_seed(epoch), 16)))
        assert bool((drawn >= 40).any()) == (epoch >= first), epoch


def test_incv_refuses() -> None:
    with pytest.raises(InvalidInput, match="noise_type is 'symmetric' or 'asymmetric', got 'odd'"):
        INCV(N, CLASSES, noise_type="odd")
    with pytest.raises(InvalidInput, match="rounds"):
        INCV(N, CLASSES, rounds=0)


def test_incv_says_when_it_selected_too_few_to_train_on() -> None:
    """With two or three instances each half is one or two, of which one alone may agree with its label."""
    said: list[str] = []
    for seed, n in [(seed, n) for n in (2, 3) for seed in range(6)]:
        run = Run(settings("incv", epochs=2, seed=seed), data=vectors().take(range(n)))
        try:
            list(run.steps())
        except InvalidInput as error:
            said.append(str(error))
    assert any("INCV selected 1 of" in one for one in said), said
    assert all("instances, and training takes two" in one for one in said)


# ------------------------------------------------------------ interrupted


@pytest.mark.parametrize(
    ("method", "options", "stop"),
    [
        ("aum", None, ("main/pass1", 1)),
        ("aum", None, ("main/pass2", 1)),
        ("incv", None, ("main/round1-second", 1)),
        ("incv", None, ("main", 1)),
        ("l_dmi", {"pretrain": 3, "dmi_lr": 0.01}, ("main/pretrain", 2)),
        ("mentornet", {"form": "dd", "labelled": 0.5, "mentor_steps": 20, "student_epochs": 3}, ("main/student", 2)),
        ("mentornet", {"form": "dd", "labelled": 0.5, "mentor_steps": 20}, ("main", 2)),
        ("data-parameters", {"validation": 0.2}, ("main", 2)),
        ("dy-bootstrap", {"kind": "soft-to-hard", "burn_in": 1, "mixing_epochs": 1}, ("main", 2)),
    ],
)
def test_a_stage_goes_on_where_it_was(
    method: str, options: dict[str, Any] | None, stop: tuple[str, int], tmp_path: Path
) -> None:
    config = settings(method, options=BRISK.get(method, {}) if options is None else options)
    whole = finished(config)
    steps = Run(config, tmp_path, data=vectors()).steps()
    for epoch in steps:
        if epoch is not None and (epoch.stage, epoch.epoch) == stop:
            break
    next(steps)  # and a step into what follows
    steps.close()  # type: ignore[attr-defined]
    run = Run(config, tmp_path, resume=True, data=vectors())
    shown = [(epoch.stage, epoch.epoch) for epoch in run.steps() if epoch is not None]
    assert stop not in shown and shown[-1] == ("main", 4)
    for key, tensor in whole.method.state_dict().items():
        assert torch.equal(run.method.state_dict()[key], tensor), key
    for ours, theirs in zip(run.networks, whole.networks):
        assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()))
