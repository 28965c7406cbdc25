"""Several processes, each with its part of the batch, against one process with all of it."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from marvel import CE, ELR, LDMI, NPCL, SAT, DataParameters, DYBootstrap, Marvel, MarvelPlus, Method
from marvel.distributed import gather, processes, rank, writes_files

pytestmark = pytest.mark.dist

N, CLASSES, EPOCHS = 12, 3, 6
HOPELESS = [0, 1, 2]  # their margins are always negative: removed after two epochs beyond the warm-up

METHODS: dict[str, Callable[[], Method]] = {
    "ce": lambda: CE(N, CLASSES),
    "marvel": lambda: Marvel(N, CLASSES, warmup=1, wait=2),
    "marvel, immediate": lambda: Marvel(N, CLASSES, warmup=1, wait=2, immediate=True),
    "marvel+": lambda: MarvelPlus(N, CLASSES, warmup=1, wait=2),
    "npcl": lambda: NPCL(N, CLASSES, noise_rate=0.3, burn_in=1),
    "elr": lambda: ELR(N, CLASSES),
    "sat": lambda: SAT(N, CLASSES, burn_in=1),
    "l_dmi": lambda: LDMI(N, CLASSES),
    "data-parameters": lambda: DataParameters(N, CLASSES),
    "dy-bootstrap": lambda: DYBootstrap(N, CLASSES, mixup=False),
}

Shards = list[list[int]]
"""The indices of each process, for one step."""


def shards(world: int, epoch: int) -> list[Shards]:
    """The steps of an epoch. Every kind of unevenness occurs: see the comments."""
    rng = np.random.default_rng(100 * world + epoch)
    rest = (3 + rng.permutation(N - 3)).tolist()
    steps = [
        [HOPELESS, *([] for _ in range(world - 2)), rest[:5]],  # rank 0: all removed after a while; some ranks: no rows
        [[] if r == 0 else rest[5:] if r == 1 else rest[:1] for r in range(world)],  # rank 0: no rows; duplicates
        [[rest[0], rest[1]], [rest[1]], *([rest[2]] for _ in range(world - 2))],  # padding: an index on several ranks
    ]
    if epoch >= 4:
        steps.append([HOPELESS[:1], HOPELESS[1:], *([0] for _ in range(world - 2))])  # nobody has weight
    return steps


def rows(world: int, epoch: int, step: int, indices: Shards) -> tuple[list[Tensor], Tensor]:
    """Logits of each process, and the given labels (N,)."""
    rng = np.random.default_rng(10_000 * world + 100 * epoch + step)
    y = np.arange(N) % CLASSES
    logits = []
    for index in indices:
        z = rng.normal(scale=2, size=(len(index), CLASSES))
        for row, i in enumerate(index):
            z[row, y[i]] = z[row].min() - 1 if i in HOPELESS else z[row, y[i]] + 2
        logits.append(torch.tensor(z, dtype=torch.float32))
    return logits, torch.from_numpy(y)


def follow(criterion: Method, world: int, share: Callable[[list[Any]], Any]) -> dict[str, Tensor]:
    """Train on prescribed logits; `share` says which part of each step's rows is ours. Everything that came of it."""
    found = {}
    for epoch in range(1, EPOCHS + 1):
        for step, indices in enumerate(shards(world, epoch)):
            logits, labels = rows(world, epoch, step, indices)
            z = share(logits).clone().requires_grad_()
            index = share([torch.tensor(part, dtype=torch.long) for part in indices])
            loss = criterion(z, labels[index], index)
            loss.backward()
            found[f"loss {epoch}.{step}"] = loss.detach()
            found[f"gradient {epoch}.{step}"] = z.grad / processes()  # as DistributedDataParallel averages them
        seen = criterion.step()
        found |= {f"margin {epoch}": seen.margin, f"seen {epoch}": seen.mask, f"removed {epoch}": criterion.removed}
        found |= {f"{name} {epoch}": tensor.clone() for name, tensor in criterion.remembered().items()}
    return found


def gathered() -> dict[str, Tensor]:
    """`gather` by itself: rank r has r rows, each column of another type."""
    r = rank()
    big = 2**52 + 1
    number = torch.arange(r, dtype=torch.float32) / 3 + r
    matrix = torch.full((r, 2, 3), float(r), requires_grad=True)
    index = torch.arange(r) + big
    flag = torch.arange(r) % 2 == 0
    all_number, all_matrix, all_index, all_flag = gather(number, matrix, index, flag)
    weights = torch.arange(all_matrix.numel(), dtype=torch.float32).reshape(all_matrix.shape)
    (all_matrix * weights).sum().backward()
    assert matrix.grad is not None
    found = {"number": all_number, "matrix": all_matrix.detach(), "index": all_index, "flag": all_flag}
    return found | {"gradient": matrix.grad, "writes": torch.tensor(writes_files())}


def worker(r: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=r, world_size=world)
    for name, make in METHODS.items():
        criterion = make()
        torch.save(follow(criterion, world, lambda parts: parts[r]), f"{folder}/{name} {r}.pt")
        del criterion
    torch.save(gathered(), f"{folder}/gather {r}.pt")
    gc.collect()
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """So many processes, started once for all tests: their number, and the folder with what they found."""
    folder = tmp_path_factory.mktemp(f"processes{request.param}")
    mp.spawn(worker, args=(request.param, str(folder)), nprocs=request.param)
    return request.param, folder


def load(folder: Path, name: str, world: int) -> list[dict[str, Tensor]]:
    return [torch.load(folder / f"{name} {r}.pt", weights_only=True) for r in range(world)]


@pytest.mark.parametrize("name", METHODS)
def test_many_processes_are_one(run: tuple[int, Path], name: str) -> None:
    world, folder = run
    alone = follow(METHODS[name](), world, torch.cat)
    ranks = load(folder, name, world)
    for key, expected in alone.items():
        if key.startswith("gradient"):
            torch.testing.assert_close(torch.cat([found[key] for found in ranks]), expected, rtol=1e-5, atol=1e-7)
        else:
            for r, found in enumerate(ranks):
                torch.testing.assert_close(
                    found[key], expected, rtol=1e-6, atol=1e-6, equal_nan=True, msg=lambda m, at=(key, r): f"{at}: {m}"
                )
    assert all(set(found) == set(alone) for found in ranks)


@pytest.mark.parametrize("name", METHODS)
def test_what_was_compared_is_worth_comparing(name: str) -> None:
    """In one process: hopeless instances are removed, idle batches are met and harmless, gradients are not all 0."""
    alone = follow(METHODS[name](), 2, torch.cat)
    removed, idle = alone[f"removed {EPOCHS}"], int(alone[f"idle {EPOCHS}"])
    if "marvel" in name:
        assert removed[HOPELESS].all()
        assert not removed.all()
        assert idle >= EPOCHS - 3
        assert alone["loss 4.3"] == 0
        assert not alone["gradient 4.3"].any()
    else:
        assert not removed.any()
    assert alone["visits 1"].sum() == 0
    for epoch in range(1, EPOCHS + 1):
        assert any(alone[f"gradient {epoch}.{step}"].any() for step in range(3)), epoch


def test_gather(run: tuple[int, Path]) -> None:
    world, folder = run
    ranks = load(folder, "gather", world)
    owner = [r for r in range(world) for _ in range(r)]  # of each row
    place = [i for r in range(world) for i in range(r)]
    for r, found in enumerate(ranks):
        assert found["number"].dtype == torch.float32
        assert torch.equal(
            found["number"], torch.cat([torch.arange(q, dtype=torch.float32) / 3 + q for q in range(world)])
        )
        assert found["index"].tolist() == [2**52 + 1 + i for i in place]
        assert found["flag"].tolist() == [i % 2 == 0 for i in place]
        assert found["flag"].dtype == torch.bool
        assert found["matrix"].shape == (len(owner), 2, 3)
        assert found["matrix"][:, 1, 2].tolist() == owner
        weights = torch.arange(6.0 * len(owner)).reshape(-1, 2, 3)
        assert torch.equal(found["gradient"], world * weights[[q == r for q in owner]])
        assert found["writes"].item() == (r == 0)


def test_gather_where_nobody_has_rows(tmp_path: Path) -> None:
    """A group of one is enough to see it: no rows anywhere are no rows, of the same form."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        matrix, index = gather(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    finally:
        dist.destroy_process_group()
    assert matrix.shape == (0, 2)
    assert index.shape == (0,)
    assert index.dtype == torch.long


def test_one_process() -> None:
    assert processes() == 1
    assert rank() == 0
    assert writes_files()
