"""What every process of tests/test_torchrun.py does: `torchrun ... tests/together.py FOLDER`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from marvel import CE, METHODS, FolderError, Indexed, InvalidInput, Marvel
from marvel.config import Config
from marvel.data.core import Data
from marvel.distributed import agree, ask_first, processes, rank, share, shares, together
from marvel.method import Batch, Networks, Seen
from marvel.methods import marvel_semi
from marvel.networks import NETWORKS, Network
from marvel.networks.network import Stack
from marvel.plan import merged
from marvel.run import Run, train
from marvel.trainer import Trainer
from toy import network, problem

N, BATCH, EPOCHS = 98, 16, 6

SEMI = ("marvel-semi", "marvel-semi with zero 0")
WAYS = ("ce", "marvel", "marvel+", *SEMI, "mixup", "npcl", "staged", "ce with BatchNorm")
"""What is trained. MARVEL-semi reads off N margins where labels are doubted, which elsewhere are too few."""


class Staged(CE):
    """CE after a training of its own, in a folder of its own, whose logits it remembers. Its last step has two
    instances: of four processes, two have none."""

    def __init__(self, n: int, classes: int, epochs: int | None = None) -> None:
        super().__init__(n, classes, epochs)
        self.remember("before", torch.zeros(n, classes))

    def draws(self, generator: torch.Generator, size: int) -> Any:
        return torch.randperm(self.n, generator=generator).split(size)

    def prepare(self, trainer: Trainer) -> Iterator[None]:
        for _ in range(2):  # finished the first time, read back the second
            stage, method = trainer.stage("before", epochs=2), CE(self.n, self.classes)
            for _ in stage.run(method):
                yield
        self.before = yield from stage.logits(method)


class Apart(CE):
    """CE in one process that normalises as `world` processes do on the CPU: each over its own rows."""

    world = 2

    def draws(self, generator: torch.Generator, size: int) -> Any:
        return merged([(step,) for step in super().draws(generator, size)], 2 * self.world)

    def outputs(self, networks: Networks, *batches: Batch) -> Tensor:
        network, x, world = networks[0], batches[0].x, self.world
        if not hasattr(self, "statistics"):
            named = {name: buffer for name, buffer in network.named_buffers() if buffer.is_floating_point()}
            self.shown, self.statistics = named, [{k: v.clone() for k, v in named.items()} for _ in range(world)]
        parts = x.split([len(x) * (r + 1) // world - len(x) * r // world for r in range(world)])
        return torch.cat([functional_call(network, own, (x,)) for own, x in zip(self.statistics, parts, strict=True)])

    def update(self, seen: Seen) -> None:
        for name, buffer in self.shown.items():
            buffer.copy_(torch.stack([own[name] for own in self.statistics]).mean(0))
            for own in self.statistics:
                own[name].copy_(buffer)


def smooth(classes: int, shape: tuple[int, ...]) -> Network:
    """A network without kinks. Where a unit comes near one, rounding decides, on some processors and not on others, and
    what follows is another training."""
    return Stack(
        nn.Conv2d(shape[0], 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(8 * (shape[1] // 2) * (shape[2] // 2), 32), nn.Tanh(), width=32, classes=classes,
    )  # fmt: skip


def images() -> Data:
    """Three classes of small images, told apart by their brightness, which crops and flips leave."""
    y = torch.arange(N + 31) % 3
    x = torch.rand(N + 31, 1, 8, 8, generator=torch.Generator().manual_seed(0)) + y.view(-1, 1, 1, 1)
    return Data("small", x[:N], y[:N], ("a", "b", "c"), x[N:], y[N:], augment="crop-flip")


def settings(way: str, **changes: Any) -> Config:
    method = way.split()[0]
    options = {"warmup": 1, "wait": 2} if method.startswith("marvel") else {}
    options |= {"burn_in": 2} if method == "npcl" else {"zero": 0.0} if way == SEMI[1] else {}
    # BatchNorm over the few rows of a process makes rounding grow from step to step: more of them, and smaller steps.
    network, batch, lr = ("cnn2", 4 * BATCH, 0.01) if "BatchNorm" in way else ("smooth", BATCH, 0.05)
    return Config(
        data="small", noise="symmetric", rate=0.3, method=method, network=network, epochs=EPOCHS, batch=batch, lr=lr,
        drops=(5,), device="cpu", oracle_rate=True, options=options,
    ).but(**changes)  # fmt: skip


def state(run: Run) -> dict[str, Tensor]:
    """All that the run came to."""
    assert run.record is not None
    tensors, _ = run.trainer.state(run.method)
    final = torch.tensor(run.record["curves"]["test_accuracy"])
    return {"removed": run.method.removed, "test_accuracy": final, **tensors}


def until(run: Run, epoch: int) -> Run:
    """Train until that epoch is over, and leave it there."""
    for shown in run.steps():
        if shown is not None and shown.stage == "main" and shown.epoch == epoch:
            break
    return run


def global_batches(world: int, epoch: int) -> Iterator[Tensor]:
    """The indices of each step in a user's own loop, of all processes: the last are padded with some seen before."""
    parts: list[Iterator[int]] = []
    for r in range(world):
        sampler = DistributedSampler(range(30), world, r, seed=7)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        parts.append(iter(torch.tensor(list(sampler)).split(4)))
    yield from (torch.cat(step) for step in zip(*parts, strict=True))


class Own(nn.Module):
    """A user's module that carries its criterion along and puts out the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network(seed=3)
        self.criterion = Marvel(30, 3, warmup=1, wait=2)

    def forward(self, x: Tensor, y: Tensor, index: Tensor) -> Tensor:
        loss: Tensor = self.criterion(self.network(x), y, index)
        return loss


def own_loop(batches: Callable[[int], Iterator[Any]], wrap: Callable[[nn.Module], nn.Module]) -> dict[str, Tensor]:
    """A loop as a user writes it."""
    own = Own()
    module = wrap(own)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        for index, x, y in batches(epoch):
            module(x, y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
        own.criterion.step()
    return {name: tensor.clone() for name, tensor in own.state_dict().items()}


class Toy(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.x, self.y, _ = problem(30, 3, noise=0.3, seed=1)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def own_loop_of_one(world: int) -> dict[str, Tensor]:
    """One process that sees the global batches of so many."""
    toy = Toy()
    return own_loop(lambda epoch: ((i, toy.x[i], toy.y[i]) for i in global_batches(world, epoch)), lambda m: m)


def own_loop_of_many() -> dict[str, Tensor]:
    sampler = DistributedSampler(Toy(), seed=7)
    loader = DataLoader(Indexed(Toy()), batch_size=4, sampler=sampler)

    def batches(epoch: int) -> Iterator[Any]:
        sampler.set_epoch(epoch)
        yield from loader

    return own_loop(batches, DistributedDataParallel)


def everywhere(error: type[Exception], act: Callable[[], object]) -> None:
    """Every process is told, not only the one that found out."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"process {rank()} was not told")


def refuse() -> None:
    raise FolderError("no")


def together_in(folder: Path, resume_to: int) -> None:
    """Everything, as one of several processes; the results of the first in files."""
    METHODS["staged"], NETWORKS["smooth"], marvel_semi.FEWEST = Staged, smooth, N
    world, data = processes(), images()
    # A folder that only the first process may touch, as on machines without a common disk.
    home = folder if rank() == 0 else folder / f"elsewhere {rank()}"
    for way in WAYS:
        run = train(settings(way), home / f"{way} {world}", data=data)
        found = state(run)
        for name, tensor in found.items():
            agree(f"{name} {tensor.tolist()}")  # all processes have the same state, to the last bit
        if rank() == 0:
            torch.save(found, folder / f"{way} {world}.pt")
    until(Run(settings("marvel+"), home / "resumed", resume=world != 2, data=data), resume_to)

    found = own_loop_of_many()
    agree(str({name: tensor.tolist() for name, tensor in found.items()}))
    if rank() == 0:
        torch.save(found, folder / f"own loop {world}.pt")

    everywhere(FolderError, lambda: train(settings("ce"), home / f"ce {world}", data=data))
    everywhere(FolderError, lambda: ask_first(refuse))
    everywhere(InvalidInput, lambda: agree(str(rank())))
    everywhere(InvalidInput, lambda: train(settings("ce", seed=rank()), data=data))
    everywhere(InvalidInput, lambda: train(settings("ce with BatchNorm", batch=2 * world - 1), data=data))
    assert sum(shares(10)) == 10
    assert share(10).stop - share(10).start == shares(10)[rank()]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with together():
        together_in(Path(sys.argv[1]), int(sys.argv[2]))
    assert processes() == 1
