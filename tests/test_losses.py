"""Every cost re-derived from its formula, one number at a time with Python's `math`: values and gradients."""

import math
from collections.abc import Callable, Generator
from itertools import product
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from marvel import GCE, NPCL, SCE, Bootstrap, InvalidInput, Method
from marvel.methods.bootstrap import bootstrap
from marvel.methods.costs import COSTS, as_cost, focal
from marvel.methods.gce import gce
from marvel.methods.label_smoothing import label_smoothing
from marvel.methods.mae import mae
from marvel.methods.npcl import selection, soft_hinge
from marvel.methods.sce import sce

Naive = Callable[[list[float], int], float]


def logsumexp(z: list[float]) -> float:
    top = max(z)
    return top + math.log(sum(math.exp(v - top) for v in z))


def softmax(z: list[float]) -> list[float]:
    return [math.exp(v - logsumexp(z)) for v in z]


def naive_ce(z: list[float], y: int) -> float:
    return logsumexp(z) - z[y]


def naive_gce(q: float) -> Naive:
    return lambda z, y: (1 - max(softmax(z)[y], 1e-7) ** q) / q


def naive_sce(alpha: float, beta: float, A: float) -> Naive:
    """`-sum_k p_k log y_k` in full, with log 0 = A and log 1 = 0."""
    return lambda z, y: alpha * naive_ce(z, y) - beta * sum(p * (0 if k == y else A) for k, p in enumerate(softmax(z)))


def naive_bootstrap(b: float, soft: bool) -> Naive:
    """`-sum_k [b y_k + (1 - b) t_k] log p_k`, with t = p, or one-hot at its largest."""

    def cost(z: list[float], y: int) -> float:
        p = softmax(z)
        t = p if soft else [float(k == p.index(max(p))) for k in range(len(p))]
        return -sum((b * (k == y) + (1 - b) * t[k]) * math.log(p[k]) for k in range(len(p)))

    return cost


def naive_penalty(b: float) -> Naive:
    return lambda z, y: b * naive_ce(z, y) + (1 - b) * sum(p * math.log(p) for p in softmax(z))


def naive_focal(gamma: float) -> Naive:
    return lambda z, y: (1 - softmax(z)[y]) ** gamma * naive_ce(z, y)


def naive_smoothing(s: float) -> Naive:
    def cost(z: list[float], y: int) -> float:
        target = [s / len(z) + (1 - s) * (k == y) for k in range(len(z))]
        return -sum(t * math.log(p) for t, p in zip(target, softmax(z)))

    return cost


def naive_soft_hinge(z: list[float], y: int) -> float:
    margin = z[y] - max(v for k, v in enumerate(z) if k != y)
    return max(0.0, 1 - margin) if margin > 0 else max(0.0, 1 - z[y] + logsumexp(z))


FORMULAS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Naive]] = {
    "ce": (COSTS["ce"], naive_ce),
    "gce": (gce, naive_gce(0.7)),
    "gce, q=0.1": (lambda z, y: gce(z, y, q=0.1), naive_gce(0.1)),
    "gce, q=1": (lambda z, y: gce(z, y, q=1), lambda z, y: 1 - softmax(z)[y]),
    "gce, q=0": (lambda z, y: gce(z, y, q=0), naive_ce),
    "sce": (sce, naive_sce(0.1, 1, -4)),
    "sce, CIFAR-100": (lambda z, y: sce(z, y, 6, 0.1, -9.21), naive_sce(6, 0.1, -9.21)),
    "bootstrap": (bootstrap, naive_bootstrap(0.8, soft=False)),
    "bootstrap, soft": (lambda z, y: bootstrap(z, y, 0.95, soft=True), naive_bootstrap(0.95, soft=True)),
    "bootstrap, penalty": (lambda z, y: bootstrap(z, y, 0.9, soft=True, penalty=True), naive_penalty(0.9)),
    "focal": (focal, naive_focal(2)),
    "focal, gamma=3.5": (lambda z, y: focal(z, y, 3.5), naive_focal(3.5)),
    "focal, gamma=0.5": (lambda z, y: focal(z, y, 0.5), naive_focal(0.5)),
    "label-smoothing": (label_smoothing, naive_smoothing(0.1)),
    "label-smoothing, s=0.3": (lambda z, y: label_smoothing(z, y, 0.3), naive_smoothing(0.3)),
    "mae": (mae, lambda z, y: sum(abs((k == y) - p) for k, p in enumerate(softmax(z)))),
    "soft hinge": (soft_hinge, naive_soft_hinge),
}


def random_batch(seed: int, classes: int, m: int = 12) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(m, classes, generator=g, dtype=torch.float64), torch.randint(classes, (m,), generator=g)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(("seed", "classes"), [(0, 2), (1, 3), (2, 10)])
def test_values_and_gradients(name: str, seed: int, classes: int) -> None:
    ours, naive = FORMULAS[name]
    z, y = random_batch(seed, classes)
    z.requires_grad_()
    costs = ours(z, y)
    rows = z.tolist()
    assert costs.tolist() == pytest.approx([naive(row, k) for row, k in zip(rows, y.tolist())], rel=1e-9, abs=1e-12)
    costs.sum().backward()
    assert z.grad is not None
    h = 1e-6
    for i, j in product(range(len(rows)), range(classes)):
        up, down = rows[i].copy(), rows[i].copy()
        up[j] += h
        down[j] -= h
        slope = (naive(up, int(y[i])) - naive(down, int(y[i]))) / (2 * h)
        assert float(z.grad[i, j]) == pytest.approx(slope, rel=1e-5, abs=1e-7), (i, j)


def test_every_cost_by_name_has_been_derived_here() -> None:
    assert set(COSTS) <= set(FORMULAS)
    z, y = random_batch(0, 4)
    for name in COSTS:
        torch.testing.assert_close(as_cost(name)(z, y), FORMULAS[name][0](z, y))


@pytest.mark.parametrize("name", FORMULAS)
def test_extreme_logits(name: str) -> None:
    """Wholly wrong and wholly right, in single precision: nothing overflows, nothing is NaN."""
    z = torch.tensor([[200.0, -200.0, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [60.0, 0.0, -60.0]], requires_grad=True)
    for y in ([0, 1, 2, 0], [1, 0, 0, 2]):
        costs = FORMULAS[name][0](z, torch.tensor(y))
        (gradient,) = torch.autograd.grad(costs.sum(), z)
        assert costs.isfinite().all()
        assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (GCE(12, 3), "gce"),
        (GCE(12, 3, q=0.1), "gce, q=0.1"),
        (SCE(12, 3), "sce"),
        (SCE(12, 3, alpha=6, beta=0.1, A=-9.21), "sce, CIFAR-100"),
        (Bootstrap(12, 3), "bootstrap"),
        (Bootstrap(12, 3, kind="soft"), "bootstrap, soft"),
        (Bootstrap(12, 3, kind="soft", b=0.9, penalty=True), "bootstrap, penalty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_methods_average_their_cost(method: Method, name: str) -> None:
    z, y = random_batch(3, 3)
    expected = sum(FORMULAS[name][1](row, k) for row, k in zip(z.tolist(), y.tolist())) / len(y)
    assert float(method(z.float(), y, torch.arange(12))) == pytest.approx(expected, rel=1e-5)
    assert float(method(z.float(), y)) == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- GCE


@pytest.mark.parametrize("q", [1e-3, 1e-5, 1e-7])
def test_gce_becomes_cross_entropy(q: float) -> None:
    """(1 - p^q) / q = CE - q CE^2 / 2 + ..., in single precision too."""
    z, y = random_batch(0, 5)
    ce = F.cross_entropy(z.float(), y, reduction="none")
    assert ce.max() < 16  # p_y is not at its bound
    torch.testing.assert_close(gce(z.float(), y, q=q), ce - q * ce**2 / 2, rtol=1e-4, atol=1e-5)


def test_gce_gradient_is_that_of_ce_times_p_to_the_q() -> None:
    z, y = random_batch(1, 4)
    z.requires_grad_()
    p = z.softmax(1).gather(1, y[:, None]).detach()
    (of_ce,) = torch.autograd.grad(F.cross_entropy(z, y, reduction="sum"), z)
    (of_gce,) = torch.autograd.grad(gce(z, y, q=0.7).sum(), z)
    torch.testing.assert_close(of_gce, p**0.7 * of_ce)


class FakeTrainer(SimpleNamespace):
    """Has what pruning asks for: given labels, and a pass in evaluation mode that takes three steps."""

    evaluated: Tensor
    y: Tensor

    def logits(self, method: Method) -> Generator[None, None, Tensor]:
        for _ in range(3):
            yield
        return self.evaluated


def test_truncated_gce_prunes_on_time() -> None:
    """After `prune_from` epochs and then every `every`: p_y <= k means weight 0, until the next time."""
    n = 20
    y = torch.arange(n) % 3
    criterion = GCE(n, 3, truncate=0.5, prune_from=3, every=2)
    trainer = FakeTrainer(y=y)
    truth = torch.ones(n)
    g = torch.Generator().manual_seed(0)
    for epoch in range(1, 9):
        trainer.evaluated = 2 * torch.randn(n, 3, generator=g)
        steps = criterion.start(trainer)
        if epoch in (4, 6, 8):
            assert steps is not None
            assert len(list(steps)) == 3
            kept = [softmax(row)[k] > 0.5 for row, k in zip(trainer.evaluated.tolist(), y.tolist())]
            assert 0 < sum(kept) < n
            truth = torch.tensor(kept).float()
        else:
            assert steps is None
        assert torch.equal(criterion.weight, truth), epoch
        z = torch.randn(n, 3, generator=g)
        costs = [naive_gce(0.7)(row, k) for row, k in zip(z.tolist(), y.tolist())]
        expected = sum(w * c for w, c in zip(truth.tolist(), costs)) / truth.sum().item()
        assert float(criterion(z, y, torch.arange(n))) == pytest.approx(expected, rel=1e-5)
        criterion.step()
    assert not criterion.removed.any()


def test_pruning_keeps_nothing_at_the_threshold_itself() -> None:
    """p_y <= k goes: with two equal logits p_y is exactly a half."""
    criterion = GCE(2, 2, truncate=0.5, prune_from=0)
    trainer = FakeTrainer(y=torch.tensor([0, 1]), evaluated=torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    list(criterion.start(trainer) or ())
    assert criterion.weight.tolist() == [0, 1]


def test_plain_gce_never_prunes() -> None:
    criterion = GCE(2, 2, prune_from=0, every=1)
    assert criterion.start(FakeTrainer(y=torch.tensor([0, 1]))) is None


# ---------------------------------------------------------------- NPCL


def objective(v: list[bool], h: list[float], C: float) -> float:
    return max(sum(x for x, kept in zip(h, v) if kept), C - sum(v))


@settings(max_examples=100)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 16))
def test_selection_minimises_over_all_subsets(quarters: list[int], half: int) -> None:
    """Hinges on a grid of 1/4 and C on one of 1/2: sums are exact, ties are many."""
    h, C = [q / 4 for q in quarters], half / 2
    best = min(objective(list(v), h, C) for v in product((False, True), repeat=len(h)))
    ours = selection(torch.tensor(h), C).tolist()
    assert objective(ours, h, C) == best


def test_selection_minimises_over_all_subsets_of_ten() -> None:
    g = torch.Generator().manual_seed(0)
    for _ in range(4):
        h = 2 * torch.rand(10, generator=g)
        C = float(10 * torch.rand((), generator=g))
        best = min(objective(list(v), h.tolist(), C) for v in product((False, True), repeat=10))
        assert objective(selection(h, C).tolist(), h.tolist(), C) == pytest.approx(best, abs=1e-5)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 24))
def test_selection_is_the_stated_prefix(quarters: list[int], half: int) -> None:
    """Keep the i-th smallest while S_i <= C + 1 - i; of equal ones the first."""
    h, C = [q / 4 for q in quarters], half / 2
    expected, total = [False] * len(h), 0.0
    for i, place in enumerate(sorted(range(len(h)), key=lambda k: (h[k], k)), start=1):
        total += h[place]
        if total > C + 1 - i:
            break
        expected[place] = True
    assert selection(torch.tensor(h), C).tolist() == expected


@pytest.mark.parametrize("threshold", ["rate", "batch"])
@pytest.mark.parametrize("seed", range(6))
def test_npcl_loss(threshold: str, seed: int) -> None:
    eps, B, classes = 0.3, 9, 3
    z, y = random_batch(seed, classes, B)
    rows, labels = z.tolist(), y.tolist()
    margins = [row[k] - max(v for j, v in enumerate(row) if j != k) for row, k in zip(rows, labels)]
    C = (1 - eps) * B if threshold == "rate" else (1 - eps) ** 2 * B + (1 - eps) * sum(m <= 0 for m in margins)
    order = sorted(range(B), key=lambda i: max(0.0, 1 - margins[i]))
    kept: list[int] = []
    for i in order:
        if sum(max(0.0, 1 - margins[j]) for j in [*kept, i]) > C + 1 - (len(kept) + 1):
            break
        kept.append(i)
    soft = [naive_soft_hinge(row, k) for row, k in zip(rows, labels)]
    assert 0 < len(kept) < B

    criterion = NPCL(B, classes, noise_rate=eps, burn_in=1, threshold=threshold)
    single = z.float().requires_grad_()
    burning = criterion(single, y, torch.arange(B))
    assert burning.item() == pytest.approx(sum(soft) / B, rel=1e-5)
    criterion.step()
    loss = criterion(single, y, torch.arange(B))
    assert loss.item() == pytest.approx(sum(soft[i] for i in kept) / len(kept), rel=1e-5, abs=1e-7)
    (gradient,) = torch.autograd.grad(loss, single)
    naive = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(soft_hinge(naive[kept], y[kept]).mean(), naive)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=1e-6)
    assert {i for i in range(B) if gradient[i].any()} <= set(kept)


@pytest.mark.parametrize("burn_in", [0, 2])
def test_npcl_burn_in_is_a_number_of_epochs(burn_in: int) -> None:
    """Of one right and one hopeless instance, both count until the burn-in is over."""
    criterion = NPCL(2, 2, noise_rate=0.5, burn_in=burn_in)
    z, y = torch.tensor([[2.0, 0.0], [8.0, 0.0]]), torch.tensor([0, 1])
    both = (0 + 1 + logsumexp([8.0, 0.0])) / 2
    for epoch in range(1, 5):
        expected = both if epoch <= burn_in else 0.0
        assert float(criterion(z, y, torch.arange(2))) == pytest.approx(expected, rel=1e-5), epoch
        criterion.step()


def test_npcl_notes_what_it_kept() -> None:
    """Instance 1 was in no batch; 0 and 3 have large hinges, of which there is room for none."""
    criterion = NPCL(4, 2, noise_rate=0.5, burn_in=0)
    logits = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 5.0]])
    criterion(logits, torch.tensor([0, 0, 0]), torch.tensor([2, 0, 3]))
    assert criterion.used.tolist() == [0, 1, 1, 0]
    assert criterion.weight.tolist() == [1, 1, 1, 1]


def test_npcl_with_nothing_kept() -> None:
    criterion = NPCL(3, 2, noise_rate=0.3, burn_in=0)
    z = torch.tensor([[50.0, -50.0]] * 3, requires_grad=True)
    loss = criterion(z, torch.ones(3, dtype=torch.long), torch.arange(3))
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss == 0
    assert not gradient.any()


def test_npcl_counts_the_batches_in_which_it_keeps_nothing() -> None:
    criterion = NPCL(3, 2, noise_rate=0.3, burn_in=0)
    y, index = torch.tensor([0, 0, 0]), torch.arange(3)
    criterion(torch.tensor([[50.0, -50.0]] * 3), y, index)
    criterion(torch.tensor([[-50.0, 50.0]] * 3), y, index)
    assert criterion.idle == 1


# ---------------------------------------------------------------- settings that cannot be meant


@pytest.mark.parametrize(
    "make",
    [
        lambda: GCE(3, 2, q=1.1),
        lambda: GCE(3, 2, q=-0.1),
        lambda: GCE(3, 2, truncate=1.0),
        lambda: GCE(3, 2, every=0),
        lambda: SCE(3, 2, A=0.0),
        lambda: SCE(3, 2, alpha=-1.0),
        lambda: SCE(3, 2, beta=-1.0),
        lambda: Bootstrap(3, 2, kind="both"),
        lambda: Bootstrap(3, 2, b=1.5),
        lambda: NPCL(3, 2, noise_rate=1.0),
        lambda: NPCL(3, 2, noise_rate=-0.1),
        lambda: NPCL(3, 2, noise_rate=0.2, threshold="mine"),
    ],
)
def test_settings_that_cannot_be_meant(make: Callable[[], Method]) -> None:
    with pytest.raises(InvalidInput):
        make()
