"""Methods beyond a plain cost, each re-derived a second way: loops over instances, brute force, known answers."""

import copy
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from contract import Plain
from marvel import (
    D2L,
    ELR,
    LDMI,
    MAE,
    SAT,
    Batch,
    CoTeaching,
    DataParameters,
    DYBootstrap,
    InvalidInput,
    LabelSmoothing,
    Method,
    Mixup,
)
from marvel.config import Config
from marvel.method import Steps
from marvel.methods.co_teaching import exchange, small_loss
from marvel.methods.d2l import lid, turns
from marvel.methods.data_parameters import SparseSGD
from marvel.methods.dy_bootstrap import distrust, fit
from marvel.methods.l_dmi import EarlyStopped, l_dmi
from marvel.methods.mixup import mix, symmetric_beta
from marvel.run import Run
from marvel.trainer import Trainer
from toy import network, problem


def logits_of(seed: int, m: int, classes: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(m, classes, generator=g), torch.randint(classes, (m,), generator=g)


def softmax(z: list[float]) -> list[float]:
    total = sum(map(math.exp, z))
    return [math.exp(v) / total for v in z]


def gradient_of(loss: Callable[[Tensor], Any], z: Tensor) -> Tensor:
    """By central differences, in double precision."""
    z, h = z.double(), 1e-5
    found = torch.zeros_like(z)
    for at in range(z.numel()):
        step = torch.zeros_like(z).view(-1)
        step[at] = h
        found.view(-1)[at] = (float(loss(z + step.view_as(z))) - float(loss(z - step.view_as(z)))) / (2 * h)
    return found.float()


# ---------------------------------------------------------------- costs alone


def test_mae_and_label_smoothing_are_the_means_of_their_costs() -> None:
    z, y = logits_of(0, 6, 4)
    p = [softmax(row) for row in z.tolist()]
    error = sum(2 * (1 - row[k]) for row, k in zip(p, y.tolist())) / 6
    assert float(MAE(6, 4)(z, y, torch.arange(6))) == pytest.approx(error, rel=1e-5)
    assert float(MAE(6, 4, scale=1.0)(z, y, torch.arange(6))) == pytest.approx(error / 2, rel=1e-5)
    smooth = sum(-(0.2 / 4 + 0.8 * (j == k)) * math.log(v) for row, k in zip(p, y.tolist()) for j, v in enumerate(row))
    assert float(LabelSmoothing(6, 4, s=0.2)(z, y, torch.arange(6))) == pytest.approx(smooth / 6, rel=1e-5)


# ---------------------------------------------------------------- mixup


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 2.5, 32.0, 1000.0])
def test_the_shares_have_the_quantiles_of_a_beta(alpha: float) -> None:
    u = torch.linspace(0.0025, 0.5, 200, dtype=torch.float64)
    found = symmetric_beta(u, alpha)
    assert found.diff().min() >= 0
    assert stats.beta(alpha, alpha).cdf(found.numpy()) == pytest.approx(u.numpy(), abs=2e-4)
    torch.testing.assert_close(symmetric_beta(1 - u, alpha), 1 - found, rtol=0, atol=1e-6)


def test_mixup_by_hand() -> None:
    x, y, _ = problem(5, 3, 0.0, seed=0)
    u = torch.rand(5, 2, generator=torch.Generator().manual_seed(1))
    batch = Batch(torch.arange(5), y, x, Plain(), lambda k: u[:, :k])
    net = network(0)
    partner = sorted(range(5), key=lambda i: float(u[i, 0]))
    share = max(float(u[0, 1]), 1 - float(u[0, 1]))  # Beta(1, 1) is uniform
    expected = 0.0
    for i, j in enumerate(partner):
        log_p = net(share * x[i : i + 1] + (1 - share) * x[j : j + 1]).log_softmax(1)[0]
        expected -= (share * log_p[y[i]] + (1 - share) * log_p[y[j]]) / 5
    criterion = Mixup(5, 3)
    loss = criterion(criterion.outputs([net], batch), y, batch.index)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    ours = torch.autograd.grad(loss, list(net.parameters()))
    theirs = torch.autograd.grad(expected, list(net.parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_what_has_no_weight_is_mixed_in_and_does_not_count() -> None:
    criterion, (z, y), other = Mixup(5, 3), logits_of(0, 5, 3), torch.tensor([2, 0, 1, 2, 0])
    criterion.remove(torch.tensor([False, True, False, True, False]))
    p = [softmax(row) for row in z.tolist()]
    costs = [-0.7 * math.log(row[i]) - 0.3 * math.log(row[j]) for row, i, j in zip(p, y.tolist(), other.tolist())]
    loss = criterion((z, other, torch.full((5,), 0.7)), y, torch.arange(5))
    assert loss.item() == pytest.approx((costs[0] + costs[2] + costs[4]) / 3, rel=1e-5)


def test_mixing_no_rows_gives_none() -> None:
    batch = Batch(torch.arange(0), torch.arange(0), torch.zeros(0, 8), Plain(), lambda k: torch.zeros(0, k))
    assert [len(part) for part in mix(batch, 1.0)] == [0, 0, 0]


# ---------------------------------------------------------------- ELR and SAT: targets that are remembered


@pytest.mark.parametrize(("b", "lam"), [(0.7, 3.0), (0.9, 7.0)])
def test_elr_over_three_epochs(b: float, lam: float) -> None:
    n, classes = 6, 3
    criterion = ELR(n, classes, b=b, lam=lam)
    memory = [[0.0] * classes for _ in range(n)]
    for epoch in range(3):
        z, y = logits_of(epoch, n, classes)
        z[0] = torch.tensor([20.0, -20, 0])  # p beyond both clamps
        index = torch.randperm(n, generator=torch.Generator().manual_seed(epoch))
        for row, i in enumerate(index.tolist()):
            p = [min(max(v, 1e-4), 1 - 1e-4) for v in softmax(z[row].tolist())]
            memory[i] = [b * t + (1 - b) * v / sum(p) for t, v in zip(memory[i], p)]

        def naive(z: Tensor, y: Tensor = y, index: Tensor = index) -> float:
            total = 0.0
            for row, i in enumerate(index.tolist()):
                p = softmax(z[row].tolist())
                q = [min(max(v, 1e-4), 1 - 1e-4) for v in p]
                total += -math.log(p[y[row]]) + lam * math.log(1 - sum(t * v for t, v in zip(memory[i], q)))
            return total / n

        z.requires_grad_()
        loss = criterion(z, y, index)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(naive(z.detach()), rel=1e-4)
        torch.testing.assert_close(gradient, gradient_of(naive, z.detach()), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(criterion.target, torch.tensor(memory), rtol=1e-5, atol=1e-6)
        criterion.step()


def test_sat_over_four_epochs() -> None:
    n, classes, a = 6, 3, 0.8
    criterion = SAT(n, classes, a=a, burn_in=2)
    y = torch.arange(n) % classes
    target = [[float(k == label) for k in range(classes)] for label in y.tolist()]
    for epoch in range(1, 5):
        z, _ = logits_of(epoch, n, classes)
        if epoch > 2:
            target = [[a * t + (1 - a) * p for t, p in zip(row, softmax(of))] for row, of in zip(target, z.tolist())]

        def naive(z: Tensor, target: list[list[float]] = target) -> float:
            weights = [max(row) for row in target]
            costs = [-sum(t * math.log(p) for t, p in zip(row, softmax(of))) for row, of in zip(target, z.tolist())]
            return sum(w * c for w, c in zip(weights, costs)) / sum(weights)

        z.requires_grad_()
        loss = criterion(z, y, torch.arange(n))
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(naive(z.detach()), rel=1e-5)
        torch.testing.assert_close(gradient, gradient_of(naive, z.detach()), rtol=1e-3, atol=1e-5)
        criterion.step()
    torch.testing.assert_close(criterion.target, torch.tensor(target), rtol=1e-5, atol=1e-6)
    assert SAT(n, classes, 200).burn_in == SAT(n, classes).burn_in == 60 and SAT(n, classes, 50).burn_in == 15


# ---------------------------------------------------------------- Co-teaching


@pytest.mark.parametrize("m", [1, 7, 10, 128])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_small_loss_keeps_the_smallest(m: int, keep: float) -> None:
    costs = torch.randint(4, (m,), generator=torch.Generator().manual_seed(m)).float()  # many are equal
    k = math.floor(round(keep * m, 9))
    expected = set(sorted(range(m), key=lambda i: (float(costs[i]), i))[:k])
    for given in (keep, torch.tensor(keep)):
        assert set(small_loss(costs, given).nonzero().squeeze(1).tolist()) == expected


def test_co_teaching_by_hand_and_its_schedule() -> None:
    m, tau, ramp = 10, 0.4, 4
    criterion = CoTeaching(m, 3, noise_rate=tau, ramp=ramp)
    for epoch in range(1, 7):
        (one, y), (two, _) = logits_of(epoch, m, 3), logits_of(50 + epoch, m, 3)
        kept = math.floor(m * (1 - min(epoch / ramp * tau, tau)) + 1e-9)
        costs = [[-math.log(softmax(row)[k]) for row, k in zip(z.tolist(), y.tolist())] for z in (one, two)]
        chosen = [sorted(range(m), key=lambda i: c[i])[:kept] for c in costs]
        expected = sum(costs[0][i] for i in chosen[1]) / kept + sum(costs[1][i] for i in chosen[0]) / kept
        one.requires_grad_()
        loss = criterion((one, two), y, torch.arange(m))
        assert loss.item() == pytest.approx(expected, rel=1e-5), epoch
        (gradient,) = torch.autograd.grad(loss, one)
        assert set(gradient.abs().sum(1).nonzero().squeeze(1).tolist()) == set(chosen[1])
        criterion.step()


def test_a_network_is_taught_what_the_other_ranks() -> None:
    """The gradient of net 1 changes with the ranking of net 2, and with nothing else of net 2 or its own ranking."""
    (one, y), (two, _) = logits_of(0, 12, 3), logits_of(1, 12, 3)

    def gradient(second: Tensor) -> Tensor:
        first = one.clone().requires_grad_()
        (found,) = torch.autograd.grad(exchange(first, second, y, 0.5), first)
        return found

    same_ranking = two.clone()
    same_ranking[F.cross_entropy(two, y, reduction="none").argmax()] *= 3
    assert (
        F.cross_entropy(same_ranking, y, reduction="none").argmax()
        == F.cross_entropy(two, y, reduction="none").argmax()
    )
    assert torch.equal(gradient(two), gradient(same_ranking))
    assert not torch.equal(gradient(two), gradient(-two))


@pytest.mark.parametrize("judge", ["first", "mean", "together"])
def test_whose_accuracy_counts(judge: str) -> None:
    options = {"noise_rate": 0.2, "judge": judge}
    config = Config(data="digits", noise="symmetric", rate=0.2, method="co-teaching", epochs=2, device="cpu")
    run = Run(config.but(options=options))
    *_, last = [epoch for epoch in run.steps() if epoch is not None]
    test = run.trainer.test
    assert test is not None
    with torch.no_grad():
        x = run.trainer.views.plain(test.source.fetch(torch.arange(len(test.y))))
        p = torch.stack([net.eval()(x).softmax(1) for net in run.networks])
    each = (p.argmax(2) == test.y).double().mean(1)
    expected = {"first": each[0], "mean": each.mean(), "together": (p.mean(0).argmax(1) == test.y).double().mean()}
    assert each[0] != each[1]  # or the question would not arise
    assert last.metrics["test_accuracy"] == pytest.approx(float(expected[judge]))


def test_co_teaching_with_nothing_kept() -> None:
    one, two = torch.zeros(1, 3, requires_grad=True), torch.zeros(1, 3, requires_grad=True)
    loss = exchange(one, two, torch.tensor([0]), 0.6)
    loss.backward()
    assert loss == 0 and not one.grad.any() and not two.grad.any()


# ---------------------------------------------------------------- data parameters


def test_sparse_sgd_moves_what_has_a_gradient_and_nothing_else() -> None:
    n, lr, momentum, decay, limit = 8, 0.5, 0.9, 0.1, 1.0
    g = torch.Generator().manual_seed(0)
    p = torch.nn.Parameter(0.5 * torch.randn(n, generator=g))
    optimizer = SparseSGD([p], lr, momentum, decay, limit)
    value, moved = p.tolist(), [0.0] * n
    for _ in range(12):
        touched = torch.rand(n, generator=g) < 0.4
        p.grad = torch.where(touched, torch.randn(n, generator=g), 0)
        before = p.detach().clone(), optimizer.state[p].get("momentum_buffer", torch.zeros(n)).clone()
        optimizer.step()
        assert torch.equal(p.detach()[~touched], before[0][~touched])
        assert torch.equal(optimizer.state[p]["momentum_buffer"][~touched], before[1][~touched])
        for i in touched.nonzero().squeeze(1).tolist():
            moved[i] = momentum * moved[i] + float(p.grad[i]) + decay * value[i]
            value[i] = min(max(value[i] - lr * moved[i], -limit), limit)
        assert p.tolist() == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert max(map(abs, value)) == limit


@pytest.mark.parametrize("learn", ["instance", "class", "both"])
def test_data_parameters_by_hand(learn: str) -> None:
    n, classes = 6, 3
    criterion = DataParameters(n, classes, learn=learn)
    z, y = logits_of(0, 4, classes)
    index = torch.tensor([5, 0, 3, 1])
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in criterion.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g))
    values = {name: parameter.detach().clone() for name, parameter in criterion.named_parameters()}
    assert set(values) == {"instance": {"of_instance"}, "class": {"of_class"}}.get(learn, {"of_instance", "of_class"})

    def naive(z: Tensor, **values: Tensor) -> float:
        total = 0.0
        for row, (i, label) in enumerate(zip(index.tolist(), y.tolist())):
            sigma = sum(math.exp(v[i] if name == "of_instance" else v[label]) for name, v in values.items())
            total -= math.log(softmax([v / sigma for v in z[row].tolist()])[label])
        return total / len(z)

    z.requires_grad_()
    loss = criterion(z, y, index)
    assert loss.item() == pytest.approx(naive(z.detach(), **values), rel=1e-5)
    loss.backward()
    torch.testing.assert_close(z.grad, gradient_of(lambda z: naive(z, **values), z.detach()), rtol=1e-3, atol=1e-5)
    for name, parameter in criterion.named_parameters():
        expected = gradient_of(lambda v, name=name: naive(z.detach(), **(values | {name: v})), values[name])
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-5)
    assert len(criterion.optimizers()) == len(values)
    assert criterion(z, y).item() == pytest.approx(F.cross_entropy(z, y).item())


@pytest.mark.parametrize(("learn", "sigma"), [("instance", 1.0), ("class", 1.0), ("both", 1.001)])
def test_the_temperatures_that_data_parameters_begin_with(learn: str, sigma: float) -> None:
    """Alone 1, whichever they are; together those of the authors, 1 of the instance and 0.001 of its class."""
    found = DataParameters(4, 3, learn=learn).sigma(torch.tensor([0, 2, 1]), torch.tensor([3, 0, 1]))
    assert found.tolist() == pytest.approx([sigma] * 3, rel=1e-6)


def test_the_epoch_that_is_best_by_given_labels_counts() -> None:
    """The networks of all epochs are kept here, and judged a second time."""
    options = {"validation": 0.2}
    config = Config(data="digits", noise="symmetric", rate=0.4, method="data-parameters", epochs=6, lr=0.3)
    run = Run(config.but(device="cpu", options=options))
    kept, shown = [], []
    for epoch in run.steps():
        if epoch is not None:
            kept.append(copy.deepcopy(run.networks[0]).eval())
            shown.append(epoch.metrics["test_accuracy"])
    method, trainer, test = run.method, run.trainer, run.trainer.test
    assert isinstance(method, DataParameters) and test is not None
    held = method.held.nonzero().squeeze(1)
    assert len(held) == round(0.2 * method.n)
    assert torch.equal(method.epochs_seen == 0, method.held) and not method.removed.any()

    def accuracy(net: nn.Module, raw: Tensor, y: Tensor) -> float:
        with torch.no_grad():
            return float((net(trainer.views.plain(raw)).argmax(1) == y).double().mean())

    by_given = [accuracy(net, trainer.source.fetch(held), trainer.y[held]) for net in kept[:-1]]
    of_test = [accuracy(net, test.source.fetch(torch.arange(len(test.y))), test.y) for net in kept]
    best = by_given.index(max(by_given))
    assert best < 4  # not simply the newest
    assert shown[-1] == pytest.approx(of_test[best]) and shown[-1] != pytest.approx(of_test[-1])
    # It is what answers, too.
    raw = test.source.fetch(torch.arange(len(test.y)))
    with torch.no_grad():
        answers = method.predict(trainer.every_network, trainer.views.plain(raw)).argmax(1)
    assert float((answers == test.y).double().mean()) == pytest.approx(shown[-1])


def test_a_small_share_for_validation_is_one_instance() -> None:
    assert DataParameters(40, 2, validation=0.01).holds == 1
    assert DataParameters(40, 2).holds == 0


def test_the_temperature_of_a_wrong_label_rises() -> None:
    x, y, clean = problem(120, 3, noise=0.3, seed=0)
    criterion, net = DataParameters(120, 3, instance_lr=5.0), network(0)
    optimizers = [torch.optim.SGD(net.parameters(), 0.1), *criterion.optimizers()]
    for _ in range(15):
        for rows in torch.arange(120).split(30):
            criterion(net(x[rows]), y[rows], rows).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        criterion.step()
    temperature = criterion.of_instance.detach()
    assert temperature[~clean].mean() > temperature[clean].mean() + 0.5
    assert temperature.abs().max() <= math.log(20) + 1e-6


# ---------------------------------------------------------------- L_DMI


def determinant(U: list[list[float]]) -> float:
    """By the first row."""
    if not U:
        return 1.0
    return sum((-1) ** j * U[0][j] * determinant([[*row[:j], *row[j + 1 :]] for row in U[1:]]) for j in range(len(U)))


@pytest.mark.parametrize(("seed", "classes"), [(0, 2), (1, 3), (2, 4)])
def test_l_dmi_by_hand(seed: int, classes: int) -> None:
    m = 12
    z, _ = logits_of(seed, m, classes)
    y = torch.arange(m) % classes

    def naive(z: Tensor) -> float:
        U = [[0.0] * classes for _ in range(classes)]
        for row, k in zip(z.tolist(), y.tolist()):
            for j, p in enumerate(softmax(row)):
                U[k][j] += p
        return classes * math.log(m) - math.log(abs(determinant(U)) + 0.001)

    z.requires_grad_()
    loss = LDMI(m, classes)(z, y, torch.arange(m))
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.item() == pytest.approx(naive(z.detach()), rel=1e-5)
    torch.testing.assert_close(gradient, gradient_of(naive, z.detach()), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("present", [8, 9])
def test_classes_that_are_missing_leave_no_gradient(present: int) -> None:
    z = torch.randn(40, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = l_dmi(z, torch.arange(40) % present)
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.item() == pytest.approx(10 * math.log(40) - math.log(0.001))
    assert not gradient.any()


def test_l_dmi_does_not_depend_on_the_names_of_classes_nor_on_uniform_noise() -> None:
    """det(T U) = det T det U: noise moves the loss by a constant, and so the gradient not at all."""
    z = 3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = z.argmax(1)
    renamed = l_dmi(z[:, [2, 0, 1]], y)
    assert renamed.item() == pytest.approx(l_dmi(z, y).item(), rel=1e-9)
    assert l_dmi(z, y) < l_dmi(z, (y + (torch.arange(300) % 5 == 0)) % 3) < l_dmi(0 * z, y)
    # With many classes too the gradient is not drowned by what keeps the logarithm finite.
    z = torch.randn(128, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (gradient,) = torch.autograd.grad(l_dmi(z, torch.arange(128) % 10), z)
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_l_dmi_goes_on_from_the_best_network_of_cross_entropy(validation: float, tmp_path: Path) -> None:
    """By the given labels of the instances that the cross entropy did not see; without any, from the last one."""
    options = {"pretrain": 4, "dmi_lr": 1e-30, "validation": validation}
    config = Config(
        data="digits", noise="symmetric", rate=0.4, method="l_dmi", epochs=1, lr=0.1, device="cpu", options=options
    )
    run = Run(config, tmp_path)
    held = run.trainer.permutation("validation")[: round(validation * run.method.n)]
    networks: list[nn.Module] = []
    accuracies: list[float] = []
    usual = EarlyStopped.start

    def start(self: EarlyStopped, trainer: Trainer) -> Steps:
        networks.append(copy.deepcopy(trainer.networks[0].eval()))
        with torch.no_grad():
            logits = networks[-1](trainer.views.plain(run.data.x[held]))
        accuracies.append(float((logits.argmax(1) == trainer.y[held]).float().mean()) if validation else len(networks))
        assert self.removed.nonzero().squeeze(1).tolist() == sorted(held.tolist())
        assert not self.epochs_seen[held].any()
        return usual(self, trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EarlyStopped, "start", start)
        shown = [epoch.stage for epoch in run.steps() if epoch is not None]
    assert shown == 4 * ["main/pretrain"] + ["main"]
    assert len(networks) == 5  # at the beginning, and after each epoch
    best = networks[accuracies.index(max(accuracies))]
    for (name, parameter), expected in zip(run.networks[0].named_parameters(), best.parameters()):
        torch.testing.assert_close(parameter.detach(), expected.detach(), msg=name)
    assert run.trainer.optimizers[0].param_groups[0]["lr"] == 1e-30


def test_the_cross_entropy_before_l_dmi_has_a_protocol_of_its_own() -> None:
    options = {"pretrain": 3, "pretrain_drops": (2,), "pretrain_batch": 100, "dmi_lr": 1e-9}
    run = Run(Config(data="digits", method="l_dmi", epochs=1, batch=256, drops=(), device="cpu", options=options))
    seen: list[tuple[str, int, float]] = []
    usual = Trainer.train_step

    def train_step(trainer: Trainer, method: Method, batches: list[Batch]) -> None:
        seen.append((trainer.name, len(batches[0].y), trainer.optimizers[0].param_groups[0]["lr"]))
        usual(trainer, method, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        for _ in run.steps():
            pass
    sizes = {name: max(size for stage, size, _ in seen if stage == name) for name, _, _ in seen}
    assert sizes == {"main/pretrain": 100, "main": 256}
    assert sorted({lr for _, _, lr in seen}) == pytest.approx([1e-9, 0.001, 0.01])


# ---------------------------------------------------------------- D2L


@pytest.mark.parametrize(("d", "expected"), [(1, 1.1), (2, 2.0), (3, 2.9), (5, 4.5)])
def test_lid_of_uniform_points_in_a_cube(d: int, expected: float) -> None:
    g = torch.Generator().manual_seed(d)
    found = torch.stack([lid(torch.rand(128, d, generator=g)).mean() for _ in range(20)]).mean()
    assert float(found) == pytest.approx(expected, abs=0.1)


def test_lid_by_hand() -> None:
    points = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    for i, found in enumerate(lid(points, k=5).tolist()):
        r = sorted(math.dist(points[i].tolist(), points[j].tolist()) for j in range(30) if j != i)[:5]
        assert found == pytest.approx(-5 / sum(math.log(v / r[-1] + 1e-8) for v in r), rel=1e-4)


def test_lid_of_points_that_repeat() -> None:
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).repeat(3, 1)
    assert lid(points).isfinite().all()
    assert lid(torch.zeros(40, 3)).isfinite().all()
    assert lid(torch.randn(3, 2)).isfinite().all()


def test_turning_point_and_the_labels_after_it() -> None:
    values = torch.tensor([5.0, 1.0, 2.0, 1.0, 2.0, 2.4])
    mean, sd = 1.5, 0.5
    assert not turns(values, 4)  # 2.4 <= 1.5 + 2 * 0.5
    values[-1] = mean + 2 * sd + 0.01
    assert turns(values, 4)
    criterion = D2L(6, 3, 10)
    z, y = logits_of(0, 6, 3)
    for alpha in (1.0, 0.3):
        criterion.alpha.fill_(alpha)
        costs = []
        for row, k in zip(z.tolist(), y.tolist()):
            p = softmax(row)
            target = [alpha * (j == k) + (1 - alpha) * (p[j] == max(p)) for j in range(3)]
            costs.append(-sum(t * math.log(v) for t, v in zip(target, p)))
        assert criterion(z, y, torch.arange(6)).item() == pytest.approx(sum(costs) / 6, rel=1e-5)


def test_d2l_on_symmetric_cross_entropy() -> None:
    """0.1 CE + RCE with log 0 = -9.21 before the turning point; the usual costs after it."""
    criterion, usual = D2L(6, 3, 10, base="sce"), D2L(6, 3, 10)
    z, y = logits_of(0, 6, 3)
    log_p = z.log_softmax(1).gather(1, y[:, None]).squeeze(1)
    expected = -0.1 * log_p + 9.21 * (1 - log_p.exp())
    torch.testing.assert_close(criterion.cost(z, y, None), expected)
    for one in (criterion, usual):
        one.turned.fill_(4)
        one.alpha.fill_(0.3)
    torch.testing.assert_close(criterion.cost(z, y, None), usual.cost(z, y, None))


def test_d2l_goes_back_by_one_epoch_and_then_distrusts() -> None:
    """LIDs are prescribed; what matters is which network each epoch begins with, and alpha."""
    config = Config(data="digits", method="d2l", epochs=7, device="cpu", options={"window": 2, "first": 1})
    run = Run(config)
    prescribed = [9.0, 4.0, 5.0, 4.0, 8.0, 6.0, 7.0]
    begun: list[dict[str, Tensor]] = []
    ended: list[dict[str, Tensor]] = []
    usual = run.trainer.train_epoch

    def train_epoch(method: Method) -> Iterator[None]:
        begun.append(copy.deepcopy(run.trainer.networks[0].state_dict()))
        yield from usual(method)
        ended.append(copy.deepcopy(run.trainer.networks[0].state_dict()))

    alphas = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.trainer, "train_epoch", train_epoch)
        patch.setattr("marvel.methods.d2l.lid", lambda x: torch.full((len(x),), prescribed[run.method.epoch - 1]))
        for epoch in run.steps():
            if epoch is not None:
                alphas.append(float(run.method.alpha))
    # The window before epoch 5 is (5, 4): 8 > 4.5 + 2 * 0.5. Before epoch 4 it is (4, 5), and 4 is no jump.
    assert run.method.chosen == {"turning_epoch": 5}
    assert alphas == pytest.approx([1] * 4 + [math.exp(-e / 7 * prescribed[e - 1] / 4) for e in (5, 6, 7)])
    for epoch in range(2, 8):
        before = ended[epoch - 2] if epoch != 5 else ended[2]  # epoch 5 begins where epoch 4 did
        assert all(torch.equal(value, before[name]) for name, value in begun[epoch - 1].items()), epoch


def test_d2l_does_not_take_a_fall_of_the_learning_rate_for_a_turning_point() -> None:
    prescribed = [9.0, 4.0, 5.0, 4.0, 8.0, 30.0, 99.0]
    for after_drop, expected in ((0, 5), (2, 7)):
        options = {"window": 2, "first": 1, "after_drop": after_drop}
        config = Config(data="digits", method="d2l", epochs=7, drops=(4,), device="cpu", options=options)
        run = Run(config)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("marvel.methods.d2l.lid", lambda x: torch.full((len(x),), prescribed[run.method.epoch - 1]))  # noqa: B023
            for _ in run.steps():
                pass
        assert run.method.chosen == {"turning_epoch": expected}


class Watched:
    """As much of a Trainer as D2L asks for; it is asked for the features of some instances."""

    def __init__(self, n: int, rates: list[float]) -> None:
        self.n, self.rates, self.asked = n, rates, list[Tensor]()
        self.networks, self.averages = [network(0)], [network(0)]

    def permutation(self, name: str) -> Tensor:
        return torch.randperm(self.n, generator=torch.Generator().manual_seed(len(name) + len(self.asked)))

    def features(self, index: Tensor) -> Iterator[None]:
        self.asked.append(index)
        yield
        return torch.zeros(len(index), 2)  # type: ignore[return-value]

    def lr(self) -> float:
        return self.rates[len(self.asked) - 1]


def watched(lids: list[float], rates: list[float] | None = None, n: int = 30, **options: Any) -> tuple[D2L, Watched]:
    """D2L after epochs with these LIDs and learning rates."""
    criterion, trainer = D2L(n, 3, len(lids), **options), Watched(n, rates or [0.1] * len(lids))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marvel.methods.d2l.lid", lambda x: torch.full((len(x),), lids[len(trainer.asked) - 1]))
        for _ in lids:
            list(criterion.start(trainer))  # type: ignore[arg-type]
            criterion.epoch += 1
    return criterion, trainer


@pytest.mark.parametrize(("window", "first"), [(2, 0), (2, 3), (4, 1)])
def test_a_turning_point_needs_more_than_first_and_window_values(window: int, first: int) -> None:
    """The LID doubles at every epoch, which is a jump wherever one is looked for."""
    criterion, _ = watched([2.0**e for e in range(window + first + 4)], window=window, first=first)
    assert criterion.chosen == {"turning_epoch": window + first + 1}


def test_d2l_waits_after_a_fall_alone() -> None:
    """Neither the start nor a learning rate that falls slowly keeps it from looking."""
    lids = [2.0**e for e in range(6)]
    assert watched(lids, window=2, first=0, after_drop=20)[0].chosen == {"turning_epoch": 3}
    slowly = [0.1 * 0.6**e for e in range(6)]
    assert watched(lids, slowly, window=2, first=0, after_drop=2)[0].chosen == {"turning_epoch": 3}
    at_once = [0.1, 0.1, 0.01, 0.01, 0.01, 0.01]
    assert watched(lids, at_once, window=2, first=0, after_drop=2)[0].chosen == {"turning_epoch": 5}


def test_a_lid_that_is_none_repeats_the_one_before() -> None:
    lids = [3.0, -1.0, 2.0, math.nan, 0.0, 4.0]
    criterion, _ = watched(lids, window=5, first=5)
    assert criterion.lids.tolist() == [3.0, 3.0, 2.0, 2.0, 2.0, 4.0]


def test_the_lid_is_of_ten_batches_drawn_anew() -> None:
    _, trainer = watched([3.0, 2.0], n=1500)
    assert [len(index.unique()) for index in trainer.asked] == [1280, 1280]
    assert set(trainer.asked[0].tolist()) != set(trainer.asked[1].tolist())


# ---------------------------------------------------------------- DY-Bootstrap


def test_two_known_betas_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.beta(2, 10, 3000), rng.beta(8, 3, 2000)
    x = torch.tensor(np.concatenate([small, large])).clamp(1e-3, 1 - 1e-3)
    found = fit(x).posterior(x)[:, 1]
    exact = 2000 * stats.beta(8, 3).pdf(x) / (2000 * stats.beta(8, 3).pdf(x) + 3000 * stats.beta(2, 10).pdf(x))
    assert ((found > 0.5).numpy() == (exact > 0.5)).mean() > 0.97
    assert np.corrcoef(found, exact)[0, 1] > 0.95  # ten steps of EM are far from converged
    torch.testing.assert_close(found + fit(x).posterior(x)[:, 0], torch.ones_like(found))


def test_fit_is_the_em_of_the_paper() -> None:
    x = torch.rand(60, generator=torch.Generator().manual_seed(0), dtype=torch.float64).clamp(0.01, 0.99)
    a, b, share = [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]
    for _ in range(10):
        r = np.stack([share[k] * stats.beta(a[k], b[k]).pdf(x.numpy()) for k in (0, 1)])
        r /= r.sum(0)
        for k in (0, 1):
            mean = (r[k] * x.numpy()).sum() / r[k].sum()
            spread = (r[k] * (x.numpy() - mean) ** 2).sum() / r[k].sum()
            a[k] = mean * (mean * (1 - mean) / spread - 1)
            b[k] = a[k] * (1 - mean) / mean
            share[k] = r[k].sum() / 60
    found = fit(x)
    for ours, theirs in zip(found, (a, b, share)):
        assert ours.tolist() == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    "losses",
    [
        torch.zeros(50),
        torch.full((50,), 3.0),
        torch.cat([torch.zeros(99), torch.ones(1)]),
        torch.cat([torch.zeros(50), 5 * torch.ones(50)]),
        torch.arange(2.0),
        1e-9 * torch.rand(50, generator=torch.Generator().manual_seed(0)),
        torch.logspace(-8, 3, 100),
    ],
)
def test_distrust_survives_any_losses(losses: Tensor) -> None:
    found = distrust(losses)
    assert found.isfinite().all() and found.min() >= 1e-4 and found.max() <= 1


def test_distrust_by_hand() -> None:
    """Percentiles, scaling, the mixture of what lies between them, a table of 100, its end; with numpy and scipy."""
    rng = np.random.default_rng(3)
    losses = np.concatenate([rng.gamma(1.5, 0.4, 400), rng.normal(4, 1, 200).clip(0.1), [9.0, 30.0]])
    low, high = np.percentile(losses, [5, 95])
    x = ((losses - low) / (high - low + 1e-6)).clip(1e-3, 1 - 1e-3)
    a, b, share = (part.numpy() for part in fit(torch.tensor(x[(losses >= low) & (losses <= high)])))
    density = [share[k] * stats.beta(a[k], b[k]).pdf(np.linspace(1e-3, 1 - 1e-3, 100)) for k in (0, 1)]
    table = density[1] / (density[0] + density[1])
    top = int(table.argmax())
    places = [min(int(100 * value), 99) for value in x]
    expected = [min(max(table[top if at > top else at], 1e-4), 1 - 1e-4) for at in places]
    assert distrust(torch.tensor(losses)).tolist() == pytest.approx(expected, rel=1e-4)
    assert len(set(expected)) > 50  # or the table would not be seen


def test_distrust_grows_with_the_loss_and_stays_high() -> None:
    g = torch.Generator().manual_seed(0)
    losses = torch.cat([0.2 * torch.rand(600, generator=g), 2 + torch.randn(400, generator=g).abs()])
    found = distrust(losses)
    assert found[:600].mean() < 0.1 < 0.85 < found[600:].mean()
    largest = losses.argsort()[-50:]
    assert (found[largest] == found.max()).all()


@pytest.mark.parametrize(
    ("kind", "mixup", "phase"),
    [
        *((kind, mixup, phase) for kind in ("hard", "soft") for mixup in (False, True) for phase in (0, 2)),
        *(("soft-to-hard", True, phase) for phase in (0, 1, 2)),
    ],
)
def test_dy_bootstrap_by_hand(kind: str, mixup: bool, phase: int) -> None:
    """Phase 0 is the burn-in, 1 mixes by B, 2 bootstraps by it."""
    n, T = 5, 0.4
    x, y, _ = problem(n, 3, 0.0, seed=0)
    u = torch.rand(n, 2, generator=torch.Generator().manual_seed(1))
    batch = Batch(torch.tensor([3, 0, 4, 2, 1]), y, x, Plain(), lambda k: u[:, :k])
    net = network(0)
    criterion = DYBootstrap(n, 3, kind=kind, mixup=mixup, alpha=1.0, eta=0.7)
    criterion.wrong = torch.tensor([0.1, 0.9, 0.5, 0.0, 0.3])
    criterion.mixing.fill_(kind == "soft-to-hard" and phase > 0)
    criterion.bootstrapping.fill_(phase == 2)
    criterion.temperature.fill_(T)
    partner = sorted(range(n), key=lambda i: float(u[i, 0])) if mixup else list(range(n))
    share = max(float(u[0, 1]), 1 - float(u[0, 1])) if mixup else 1.0
    total, mean_p = torch.zeros(()), torch.zeros(3)
    for i, j in enumerate(partner):
        B_i, B_j = (float(criterion.wrong[batch.index[of]]) for of in (i, j))
        there = (1 - B_i) / (2 - B_i - B_j) if kind == "soft-to-hard" and phase > 0 else share
        part_i = 0.5 if kind == "soft-to-hard" and phase == 2 else share
        log_p = net(there * x[i : i + 1] + (1 - there) * x[j : j + 1]).log_softmax(1)[0]
        mean_p = mean_p + log_p.exp() / n
        for of, part, B in ((i, part_i, B_i), (j, 1 - part_i, B_j)):
            z = net(x[of : of + 1]).detach()[0]
            h = torch.eye(3)[z.argmax()] if kind == "hard" else (z / (T if kind == "soft-to-hard" else 1)).softmax(0)
            B = B if phase == 2 else 0
            total = total - part * ((1 - B) * log_p[y[of]] + B * (h * log_p).sum()) / n
    expected = total + (0.7 if phase == 2 else 0) * sum(1 / 3 * torch.log(1 / 3 / p) for p in mean_p)
    loss = criterion(criterion.outputs([net], batch), y, batch.index)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    ours = torch.autograd.grad(loss, list(net.parameters()))
    theirs = torch.autograd.grad(expected, list(net.parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


class Drops:
    """As much of a Trainer as DY-Bootstrap asks for; its learning rate falls after three epochs."""

    y = torch.arange(20) % 2
    first_drop = 3

    def logits(self, method: Method) -> Iterator[None]:
        yield
        return torch.stack([torch.zeros(20), torch.linspace(-3, 3, 20)], 1)  # type: ignore[return-value]


def test_dy_bootstrap_begins_after_its_burn_in() -> None:
    for burn_in, first in ((None, 9), (0, 1), (2, 3)):
        criterion = DYBootstrap(20, 2, 12, burn_in=burn_in)
        for epoch in range(1, 13):
            steps = criterion.start(Drops())  # type: ignore[arg-type]
            assert (steps is not None) == (epoch >= first), (burn_in, epoch)
            list(steps or ())
            assert bool(criterion.wrong.any()) == bool(criterion.bootstrapping) == (epoch >= first)
            assert not criterion.mixing
            criterion.step()


def test_soft_to_hard_mixes_then_cools() -> None:
    criterion = DYBootstrap(20, 2, 300, kind="soft-to-hard", burn_in=105)
    temperatures = {}
    for epoch in range(1, 301):
        list(criterion.start(Drops()) or ())  # type: ignore[arg-type]
        assert (bool(criterion.mixing), bool(criterion.bootstrapping)) == (epoch >= 106, epoch >= 111)
        temperatures[epoch] = float(criterion.temperature)
        criterion.step()
    expected = np.linspace(1, 0.001, 89)  # as published: from epoch 111, one step an epoch
    assert [temperatures[e] for e in range(111, 200)] == pytest.approx(expected, abs=1e-6)
    assert {temperatures[e] for e in range(1, 111)} == {1.0}
    assert temperatures[300] == pytest.approx(0.001, abs=1e-6)


# ---------------------------------------------------------------- settings that cannot be meant


@pytest.mark.parametrize(
    "make",
    [
        lambda: MAE(3, 2, scale=0.0),
        lambda: LabelSmoothing(3, 2, s=1.5),
        lambda: Mixup(3, 2, alpha=0.0),
        lambda: ELR(3, 2, b=1.0),
        lambda: ELR(3, 2, lam=-1.0),
        lambda: SAT(3, 2, a=1.5),
        lambda: CoTeaching(3, 2, noise_rate=1.0),
        lambda: CoTeaching(3, 2, noise_rate=0.1, ramp=0),
        lambda: CoTeaching(3, 2, noise_rate=0.1, judge="both"),
        lambda: DataParameters(3, 2, learn="neither"),
        lambda: DataParameters(3, 2, instance_lr=0.0),
        lambda: DataParameters(3, 2, validation=1.0),
        lambda: DataParameters(3, 2, validation=0.9),  # all three
        lambda: DataParameters(3, 2, validation=0.5),  # all but one
        lambda: LDMI(3, 2, pretrain=0),
        lambda: LDMI(3, 2, dmi_lr=0.0),
        lambda: LDMI(3, 2, pretrain_batch=1),
        lambda: LDMI(3, 2, validation=1.0),
        lambda: LDMI(3, 2, validation=0.9),
        lambda: D2L(3, 2),
        lambda: D2L(3, 2, 10, window=1),
        lambda: D2L(3, 2, 10, base="mae"),
        lambda: DYBootstrap(3, 2, kind="medium"),
        lambda: DYBootstrap(3, 2, alpha=0.0),
        lambda: DYBootstrap(3, 2, kind="soft-to-hard", mixup=False),
        lambda: DYBootstrap(3, 2, mixing_epochs=-1),
        lambda: DYBootstrap(3, 2, cooling_epochs=0),
        lambda: DYBootstrap(3, 2, eta=-1.0),
    ],
)
def test_settings_that_cannot_be_meant(make: Callable[[], Method]) -> None:
    with pytest.raises(InvalidInput):
        make()
