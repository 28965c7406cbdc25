"""The plan of an epoch: a function of its key, and the same whatever the number of processes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from contract import Plain
from marvel import plan as module
from marvel.data import Resident, Streamed
from marvel.data.batches import Source
from marvel.method import Batch
from marvel.plan import Plan, generator_of, seed_of

CPU = torch.device("cpu")
X = torch.arange(40.0).view(20, 2)
Y = torch.arange(20) % 3
DRAWS = [torch.tensor([3, 1, 4, 5]), torch.tensor([9, 2, 6]), torch.tensor([7])]
PAIRS = [(torch.tensor([0, 1, 2]), torch.tensor([10, 11])), (torch.tensor([3, 4]), torch.tensor([12, 13, 14, 15]))]


def at(plan: Plan, step: int, source: Source) -> list[Batch]:
    return plan.batches(step, plan.fetch(step, source), Plain(), Y)


def every(plan: Plan, source: Source) -> list[list[Batch]]:
    return [plan.batches(step, raws, Plain(), Y) for step, raws in enumerate(plan.stream(source))]


def numbers(plan: Plan, *requests: int) -> list[Tensor]:
    """What each step gets of each slot, for these requests in turn, in one row."""
    found = []
    for step in range(len(plan)):
        for batch in at(plan, step, Resident(X, CPU)):
            found += [batch.uniform(k) for k in requests]
    return found


def test_seeds_depend_on_every_part_and_are_the_same_everywhere() -> None:
    keys: list[tuple[str | int, ...]] = [(0, "main", 1), (1, "main", 1), (0, "main", 2), (0, "first", 1), (0, "main")]
    keys += [(0, "main", 1, "order"), ("0", "main", 1), (0, "mai", "n1"), (0, "main", 11), (0, 1, "main")]
    assert len({seed_of(*key) for key in keys}) == len(keys)
    assert all(0 <= seed_of(*key) < 2**63 for key in keys)
    # A record made on one machine is repeated on another: the number itself must never change.
    assert seed_of(0, "main", 1, "order") == 3547755008654998932
    first, again, other = (torch.rand(5, generator=generator_of(*key)) for key in ((0, "a"), (0, "a"), (1, "a")))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    numbers(Plan(DRAWS, (0, "main", 1), CPU), 3, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_are_a_function_of_the_key() -> None:
    first = numbers(Plan(DRAWS, (0, "main", 1), CPU), 4, 4)
    again = numbers(Plan(DRAWS, (0, "main", 1), CPU), 4, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for key in ((1, "main", 1), (0, "first", 1), (0, "main", 2)):
        other = numbers(Plan(DRAWS, key, CPU), 4, 4)
        assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_numbers_are_uniform_below_one() -> None:
    plan = Plan([torch.zeros(5000, dtype=torch.int64)] * 4, (0, "main", 1), CPU)
    table = torch.cat([at(plan, step, Resident(X, CPU))[0].uniform(5) for step in range(4)]).flatten()
    assert len(table) == 100_000
    assert float(table.min()) >= 0 and float(table.max()) < 1
    counts = torch.histc(table, 20, 0, 1)
    # Chi-square with 19 degrees of freedom: mean 19, standard deviation 6.2.
    assert float(((counts - 5000) ** 2 / 5000).sum()) < 50


def test_no_two_requests_get_the_same_numbers() -> None:
    """Not two steps, nor two slots, nor two requests of one batch."""
    found = torch.cat([part.flatten() for part in numbers(Plan(PAIRS, (0, "main", 1), CPU), 3, 3)])
    assert len(found) == 2 * 3 * (3 + 2 + 2 + 4) == len(found.unique())


def test_each_instance_has_a_row_of_its_own_in_the_order_of_the_draws() -> None:
    plan = Plan(DRAWS, (0, "main", 1), CPU)
    table = plan.uniform(0, 0, 3)
    assert table.shape == (8, 3)
    assert torch.equal(torch.cat(numbers(plan, 3)), table)
    assert torch.equal(table, torch.rand(8, 3, generator=generator_of(0, "main", 1, "uniform", 0, 0)))


def test_requests_may_differ_in_width_from_step_to_step() -> None:
    plan = Plan(DRAWS, (0, "main", 1), CPU)
    first, second, third = (at(plan, step, Resident(X, CPU))[0] for step in range(3))
    assert first.uniform(3).shape == (4, 3)
    assert second.uniform(5).shape == (3, 5)
    assert torch.equal(third.uniform(3), Plan(DRAWS, (0, "main", 1), CPU).uniform(0, 0, 3)[7:])
    assert first.uniform(0).shape == (4, 0)


@pytest.mark.parametrize("streamed", [False, True])
def test_batches_are_the_instances_asked_for(streamed: bool) -> None:
    plan = Plan(PAIRS, (0, "main", 1), CPU)
    source: Any = Streamed(X, CPU) if streamed else Resident(X, CPU)
    assert (len(plan), plan.slots) == (2, 2)
    steps = every(plan, source)
    for step, (batches, asked) in enumerate(zip(steps, PAIRS, strict=True)):
        same = at(plan, step, source)
        for batch, other, index in zip(batches, same, asked, strict=True):
            assert torch.equal(batch.index, index) and torch.equal(other.index, index)
            assert torch.equal(batch.y, index % 3)
            assert torch.equal(batch.raw, X[index]) and torch.equal(other.raw, X[index])
            assert torch.equal(batch.uniform(2), other.uniform(2))
        assert plan.sizes(step) == tuple(map(len, asked))
    assert plan.strides(0) == (3, 2)


def test_an_epoch_without_steps() -> None:
    plan = Plan([], (0, "main", 1), CPU)
    assert len(plan) == 0
    assert every(plan, Resident(X, CPU)) == []


def as_process(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    from marvel import distributed

    for room in (module, distributed):
        for name, value in (("rank", rank), ("processes", world)):
            if hasattr(room, name):
                monkeypatch.setattr(room, name, lambda value=value: value)


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize("draws", [DRAWS, PAIRS])
def test_the_shares_of_all_processes_join_to_the_whole(world: int, draws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices, labels, instances and numbers, step by step and in the order of the ranks; also where some have none."""
    alone = every(Plan(draws, (0, "main", 1), CPU), Resident(X, CPU))
    expected = [[(b.index, b.y, b.raw, b.uniform(3)) for b in step] for step in alone]
    parts: list[list[list[tuple[Tensor, ...]]]] = []
    said: list[list[list[int]]] = []
    for rank in range(world):
        as_process(monkeypatch, rank, world)
        plan = Plan(draws, (0, "main", 1), CPU)
        steps = every(plan, Resident(X, CPU))
        parts.append([[(b.index, b.y, b.raw, b.uniform(3)) for b in step] for step in steps])
        said.append([plan.shares(step) for step in range(len(plan))])
    assert all(other == said[0] for other in said)
    for step, slots in enumerate(expected):
        for slot, whole in enumerate(slots):
            for column, tensor in enumerate(whole):
                joined = torch.cat([parts[rank][step][slot][column] for rank in range(world)])
                assert torch.equal(joined, tensor)
        sizes = [len(parts[rank][step][0][0]) for rank in range(world)]
        assert said[0][step] == sizes
        assert max(sizes) - min(sizes) <= 1
