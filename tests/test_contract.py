"""What every method of `METHODS` promises, whatever it computes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contract import batch, make
from marvel import METHODS, Method
from marvel.trainer import follow
from toy import network, problem

N, CLASSES, SIZE = 30, 3, 10
X, Y, CLEAN = problem(N, CLASSES, noise=0.3, seed=0)
EVERYONE = torch.arange(N)

every_method = pytest.mark.parametrize("name", sorted(METHODS))


def networks_for(criterion: Method) -> list[nn.Module]:
    return [network(seed) for seed in range(criterion.networks + criterion.averaged)]


def train(
    criterion: Method,
    networks: list[nn.Module],
    epochs: int = 3,
    among: Tensor = EVERYONE,
    names: Tensor = EVERYONE,
    first: int = 1,
) -> list[Tensor]:
    """Plain SGD on the instances `among`, which the method knows by `names`. Returns the losses."""
    optimizer = torch.optim.SGD([p for net in networks for p in net.parameters()], lr=0.5)
    losses = []
    for epoch in range(first, first + epochs):
        order = among[torch.randperm(len(among), generator=torch.Generator().manual_seed(epoch))]
        for step, rows in enumerate(order.split(SIZE)):
            outputs = criterion.outputs(networks, batch(names[rows], X[rows], Y[rows], seed=100 * epoch + step))
            loss = criterion(outputs, Y[rows], names[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for average in networks[criterion.networks :] if criterion.decay < 1 else ():
                follow(average, networks[0], criterion.following())
            losses.append(loss.detach())
        criterion.step()
    return losses


def of_instances(criterion: Method) -> dict[str, Tensor]:
    """What it remembers of each instance."""
    return {name: t.clone() for name, t in criterion.remembered().items() if t.ndim and len(t) == criterion.n}


@every_method
def test_losses_are_finite_and_gradients_reach_the_network(name: str) -> None:
    criterion = make(name, N, CLASSES, epochs=3, clean=CLEAN)
    networks = networks_for(criterion)
    before = copy.deepcopy([net.state_dict() for net in networks])
    losses = train(criterion, networks)
    assert torch.stack(losses).isfinite().all()
    assert all(loss.ndim == 0 for loss in losses)
    for was, net in zip(before[: criterion.networks], networks):
        assert all(not torch.equal(was[key], value) for key, value in net.state_dict().items())


@every_method
def test_permuting_the_instances_permutes_the_result(name: str) -> None:
    """The same training with the instances known by other indices."""
    names = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    renamed_clean = torch.empty_like(CLEAN)
    renamed_clean[names] = CLEAN
    plain, renamed = make(name, N, CLASSES, 3, clean=CLEAN), make(name, N, CLASSES, 3, clean=renamed_clean)
    for key, tensor in of_instances(plain).items():  # what it has drawn already is of the same instances
        renamed.remembered()[key][names] = tensor
    losses = train(plain, networks_for(plain))
    torch.testing.assert_close(train(renamed, networks_for(renamed), names=names), losses)
    for key, tensor in plain.remembered().items():
        other = renamed.remembered()[key]
        torch.testing.assert_close(
            other[names] if key in of_instances(plain) else other,
            tensor,
            equal_nan=True,
            msg=lambda m, key=key: f"{key}: {m}",
        )


@every_method
def test_unseen_instances_keep_their_state(name: str) -> None:
    criterion = make(name, N, CLASSES, 6, clean=CLEAN)
    networks = networks_for(criterion)
    train(criterion, networks)
    unseen, seen = EVERYONE[::3], EVERYONE[EVERYONE % 3 > 0]
    before = of_instances(criterion)
    train(criterion, networks, among=seen, first=4)
    after = of_instances(criterion)
    for key, tensor in before.items():
        assert torch.equal(after[key][unseen], tensor[unseen]), key
    assert not torch.equal(after["quality"][seen], before["quality"][seen])


@every_method
def test_state_dict_round_trip(name: str) -> None:
    """Saved after two epochs, loaded into a fresh method, it goes on as the first one does."""
    whole = make(name, N, CLASSES, 4, clean=CLEAN)
    networks = networks_for(whole)
    train(whole, networks, epochs=2)
    saved = copy.deepcopy(whole.state_dict())
    resumed, copies = make(name, N, CLASSES, 4, clean=CLEAN), copy.deepcopy(networks)
    resumed.load_state_dict(saved)
    assert resumed.epoch == whole.epoch == 3
    assert resumed.chosen == whole.chosen
    losses = train(whole, networks, epochs=2, first=3)
    assert torch.equal(torch.stack(train(resumed, copies, epochs=2, first=3)), torch.stack(losses))
    for key, tensor in whole.remembered().items():
        torch.testing.assert_close(resumed.remembered()[key], tensor, rtol=0, atol=0, equal_nan=True)


@every_method
def test_memory_stays_where_it_is(name: str) -> None:
    criterion = make(name, N, CLASSES, 3, clean=CLEAN)
    addresses = {key: tensor.data_ptr() for key, tensor in criterion.remembered().items()}
    train(criterion, networks_for(criterion))
    assert {key: tensor.data_ptr() for key, tensor in criterion.remembered().items()} == addresses


@every_method
def test_what_it_remembers_is_no_buffer(name: str) -> None:
    criterion = make(name, N, CLASSES, 3)
    registered = {key for key, _ in criterion.named_buffers()} | {key for key, _ in criterion.named_parameters()}
    assert registered.isdisjoint(criterion.remembered())
    assert set(criterion.remembered()) <= set(criterion.state_dict())


@every_method
def test_the_global_generator_is_left_alone(name: str) -> None:
    criterion = make(name, N, CLASSES, 3, clean=CLEAN)
    networks = networks_for(criterion)
    before = torch.get_rng_state()
    train(criterion, networks, epochs=2)
    list(criterion.draws(torch.Generator().manual_seed(0), SIZE))
    assert torch.equal(torch.get_rng_state(), before)


def weighs_cross_entropy(name: str) -> bool:
    """Whether its loss is the weighted mean of cross entropies."""
    criterion = make(name, N, CLASSES, 3)
    z = torch.randn(N, CLASSES, generator=torch.Generator().manual_seed(0))
    costs = criterion.cost(z, Y, EVERYONE)
    return type(criterion).loss is Method.loss and torch.equal(costs, F.cross_entropy(z, Y, reduction="none"))


WEIGHING = [name for name in sorted(METHODS) if weighs_cross_entropy(name)]


def test_those_known_to_weigh_cross_entropy_are_found() -> None:
    assert {"ce", "marvel", "marvel+", "oracle"} <= set(WEIGHING)


@pytest.mark.parametrize("name", WEIGHING)
def test_weights_of_one_give_the_gradient_of_cross_entropy(name: str) -> None:
    criterion = make(name, N, CLASSES, 3)
    assert criterion.weight.tolist() == [1] * N
    for m in (1, 7, N):
        ours, plain = network(0), network(0)
        criterion(ours(X[:m]), Y[:m], EVERYONE[:m]).backward()
        F.cross_entropy(plain(X[:m]), Y[:m]).backward()
        for mine, theirs in zip(ours.parameters(), plain.parameters()):
            assert torch.equal(mine.grad, theirs.grad)
