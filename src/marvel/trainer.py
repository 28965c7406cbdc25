"""The trainer: stages, epochs, steps and checkpoints. It knows no method by name.

Every loop is a generator that yields once a step, so that several runs can take turns on one device
(`marvel.fast.pack`); at the end of an epoch it yields what the epoch showed.
"""

import copy
import hashlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from marvel import fast, networks
from marvel.compiled import Compiled
from marvel.config import Config
from marvel.data.batches import Source
from marvel.data.views import Views
from marvel.distributed import (
    ask_first,
    average_over_processes,
    copy_first,
    gather,
    processes,
    rank,
    send_first,
    share,
    shares,
    total,
    writes_files,
)
from marvel.errors import FolderError, Interrupted, InvalidInput, NonFinite
from marvel.half import InHalf
from marvel.ledger import Ledger
from marvel.method import Batch, Method, Networks, Seen
from marvel.plan import Plan, generator_of, seed_of

if TYPE_CHECKING:
    from marvel.runs import Facts, RunFolder

A_MOMENT = 1e-4
"""Seconds between two looks at whether the GPU is done: a fraction of a step."""
EVALUATION_BATCH, EVALUATION_NUMBERS = 2000, 2**25
"""How many instances are judged at once, at most; and how many numbers: of images of 224 x 224 pixels, 222."""


def judged_at_once(shape: Sequence[int]) -> int:
    """How many instances of that shape are judged at once."""
    return max(1, min(EVALUATION_BATCH, EVALUATION_NUMBERS // math.prod(shape)))


Builder = Callable[[int, tuple[int, ...], int], nn.Module]
"""Number of classes, shape of an instance, seed -> a network; for networks that have no name in `marvel.networks`."""


@dataclass(frozen=True)
class Epoch:
    """What the loop yields at the end of an epoch."""

    stage: str
    epoch: int
    epochs: int
    metrics: "Facts"


@dataclass(frozen=True)
class Labelled:
    """A set to judge by: raw instances and their clean labels."""

    source: Source
    y: Tensor


class Trainer:
    """One training: networks, an optimizer, the labels as given, and the epochs.

    `config` must be resolved (no None left); `clean` is a mask of the rightly labelled instances, where that is known,
    and `truth` their clean labels, to judge what is suggested.
    """

    def __init__(
        self,
        config: Config,
        source: Source,
        views: Views,
        y: Tensor,
        classes: int,
        shape: tuple[int, ...],
        *,
        clean: Tensor | None = None,
        truth: Tensor | None = None,
        test: Labelled | None = None,
        validation: Labelled | None = None,
        folder: "RunFolder | None" = None,
        name: str = "main",
        builder: Builder | None = None,
    ) -> None:
        if len(y) != len(source):
            raise InvalidInput(f"expected {len(source)} labels, one for each instance, got {len(y)}")
        if len(y) < 2:
            raise InvalidInput(
                f"one training is of at least two instances, and here of {len(y)}: hold out fewer, or add some"
            )
        if not bool(((y >= 0) & (y < classes)).all()):
            raise InvalidInput(f"labels must lie in 0..{classes - 1}, got {int(y.min())}..{int(y.max())}")
        self.config, self.source, self.views = config, source, views
        self.device = torch.device(config.device)
        self.y, self.classes, self.shape = y.to(self.device), classes, shape
        self.clean, self.truth, self.test, self.validation = clean, truth, test, validation
        self.folder, self.name, self.builder = folder, name, builder
        self.fingerprint = hashlib.sha256(self.y.cpu().numpy().tobytes()).hexdigest()
        """What a checkpoint must agree on with the training that goes on from it."""
        self.epoch = 0
        self.place = 0
        """How many steps of the epoch that runs are taken."""
        self.planned: str | None = None
        """The fingerprint of its plan, where a checkpoint in its midst was read."""
        self.seconds = 0.0
        self.stop: Callable[[], bool] | None = None
        """Whether to stop: asked after every step, where there are checkpoints in mid-epoch."""
        self.networks: list[nn.Module] = []

    # ------------------------------------------------------------ the loops

    def run(self, method: Method, given: Sequence[nn.Module] | None = None) -> Iterator[Epoch | None]:
        """Train `method`, from the newest checkpoint where there is one; `given` are networks to start from."""
        self.begin(method, given)
        if not self.load(method):
            yield from method.prepare(self) or ()
            self.save(method)
        while self.epoch < self.epochs:
            self.began = time.perf_counter()
            if self.place == 0:
                yield from method.start(self) or ()
            yield from self.train_epoch(method)
            validation = yield from self.accuracy(method, self.validation)
            seen = method.step(validation)
            self.epoch += 1
            test = yield from self.accuracy(method, self.test)
            self.tick()
            yield self.finish(method, seen, {"validation_accuracy": validation, "test_accuracy": test})

    def fit(self, method: Method) -> None:
        """Run to the end."""
        for _ in self.run(method):
            pass

    def stage(self, name: str, *, y: Tensor | None = None, classes: int | None = None, **changes: Any) -> "Trainer":
        """Another training on the same instances, in its own sub-folder: finished before, it is only read back."""
        stage = Trainer(
            self.config.but(**changes),
            self.source,
            self.views,
            self.y if y is None else y,
            classes or self.classes,
            self.shape,
            folder=self.folder.stage(name) if self.folder else None,
            name=f"{self.name}/{name}",
            builder=self.builder,
        )
        stage.stop = self.stop
        return stage

    def train_epoch(self, method: Method) -> Iterator[None]:
        self.set_lr(method.lr(self.lr()))
        for network in self.every_network if method.averages_train else self.networks:
            network.train()
        method.train()
        draws = method.draws(generator_of(*self.key, "order"), self.config.batch)
        plan = Plan(draws, (*self.key, "numbers"), self.device, self.rows_needed * processes(), self.place)
        if self.place == 0:
            self.total.zero_()
        elif plan.fingerprint != self.planned:
            raise FolderError(
                f"epoch {self.epoch + 1} has other steps than the checkpoint in its midst was made with: "
                "go on with as many processes as then, or with the version of Marvel and the method of then"
            )
        self.step_count = len(plan)
        steps = self.steps.epoch(plan)
        for step in range(plan.done, len(plan)):
            method.shares = plan.shares(step)
            yield next(steps)
            self.place = step + 1
            if self.config.checkpoint_every_steps:
                self.pause(method, plan)
        next(steps, None)  # to its end, where workers that read ahead are left to the next epoch
        self.place, method.shares = 0, None
        if self.own_statistics:
            average_over_processes(self.statistics)
        yield from self.landed()

    def pause(self, method: Method, plan: Plan) -> None:
        """Between two steps: save where it is time to, or where one is to stop. All processes do so together."""
        stop = self.stop is not None and bool(total(torch.tensor(int(self.stop()))))
        if stop or (self.place % self.config.checkpoint_every_steps == 0 and self.place < len(plan)):
            self.planned = plan.fingerprint
            self.tick()
            self.save(method)
        if stop:
            raise Interrupted

    def train_step(self, method: Method, batches: list[Batch]) -> None:
        """Forward, loss, backward, optimizer: the whole of a step, with nothing that waits for the device."""
        # What is compiled is so for one batch size; the last ones, of another size, go through the network as it is.
        usual = sum(method.shares or [len(batches[0].index)]) == self.config.batch
        with self.autocast():
            outputs = method.outputs(self.quick_ones if usual else self.every_network, *batches)
            loss: Tensor = method(outputs, batches[0].y, batches[0].index)
        loss.backward()
        if processes() > 1:
            average_over_processes([p.grad for p in self.shared if p.grad is not None])
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        for average in self.averages if method.decay < 1 else ():
            follow(average, self.networks[0], method.following(), statistics=not method.averages_train)
        self.total += loss.detach()

    def logits(self, method: Method, index: Tensor | None = None) -> Generator[None, None, Tensor]:
        """(n, classes), of every training instance, in evaluation mode and without augmentation; or of some."""
        logits = yield from self.evaluate(method.predict, self.source, index)
        if index is not None:
            return logits
        return logits if processes() == 1 else gather(logits, sizes=shares(len(self.source)))[0]

    def features(self, index: Tensor) -> Generator[None, None, Tensor]:
        """(m, d), the input of the last layer of the first network, in evaluation mode and without augmentation."""
        network = self.networks[0].eval()
        if not hasattr(network, "features"):
            raise InvalidInput(
                f"the method looks at the input of the last layer, and {type(network).__name__} has no "
                "features(x) that gives it: add that, or name one of Marvel's networks"
            )
        found = []
        for raw in self.source.stream(torch.split(index.to(self.device), self.judged_at_once)):
            with torch.no_grad(), self.autocast():
                found.append(cast(Any, network).features(self.views.plain(raw)).float())
            yield
        return torch.cat(found)

    def evaluate(
        self, predict: Callable[[Networks, Tensor], Tensor], source: Source, which: Tensor | None = None
    ) -> Generator[None, None, Tensor]:
        """Of `which`, or of this process's share of a source: logits in evaluation mode and without augmentation."""
        for network in self.every_network:
            network.eval()
        found = []
        mine = torch.arange(len(source), device=self.device)[share(len(source))] if which is None else which
        for raw in source.stream(torch.split(mine, self.judged_at_once)):
            with torch.no_grad(), self.autocast():
                found.append(predict(self.every_network, self.views.plain(raw)).float())
            yield
        yield from self.landed()
        return torch.cat(found)

    def landed(self) -> Iterator[None]:
        """Wait until the GPU has done what it was told. Runs beside this one take their turns meanwhile, so that it has
        something to do while this one writes down its epoch."""
        if self.device.type == "cuda":
            done = torch.cuda.Event()
            done.record()
            while not done.query():
                time.sleep(A_MOMENT)
                yield

    def accuracy(self, method: Method, on: Labelled | None) -> Generator[None, None, float | None]:
        """Every process judges its share of the set, and the hits are summed: the same number for all."""
        if on is None:
            return None
        logits = yield from self.evaluate(method.judged, on.source)
        hits = logits.argmax(2) == on.y[share(len(on.y)), None]
        return int(total(hits.sum())) / (len(on.y) * hits.shape[1])

    # ------------------------------------------------------------ what surrounds them

    @property
    def judged_at_once(self) -> int:
        return judged_at_once(self.shape)

    @property
    def epochs(self) -> int:
        assert self.config.epochs is not None
        return self.config.epochs

    @property
    def key(self) -> tuple[str | int, ...]:
        """What everything random of the epoch now running is a function of."""
        return (self.config.seed, self.name, self.epoch + 1)

    def generator(self, name: str) -> torch.Generator:
        """Random numbers for what a method decides before its epochs: a function of seed, stage and name alone."""
        return generator_of(self.config.seed, self.name, "method", name)

    def permutation(self, name: str) -> Tensor:
        """(n,) all indices in a random order, a function of seed, stage and name alone."""
        return torch.randperm(len(self.y), generator=self.generator(name)).to(self.device)

    @property
    def first_drop(self) -> int:
        """How many epochs the first learning rate lasts; half of all where it never falls to a tenth."""
        falls = self.config.drops if self.config.schedule == "drops" else ()
        return min(falls[0] if falls else (self.epochs + 1) // 2, self.epochs)

    def begin(self, method: Method, given: Sequence[nn.Module] | None = None) -> None:
        """Build networks, averages, optimizers and ledger."""
        method.to(self.device)
        method.checks = False  # the labels were checked above, and the indices are ours
        self.networks = list(given or self.build(method.networks))
        for network in self.networks:
            network.to(self.device, memory_format=self.memory_format)  # type: ignore[call-overload]
        if processes() > 1:
            self.unite()
        self.averages = [copy.deepcopy(self.networks[0]).requires_grad_(False).eval() for _ in range(method.averaged)]
        called = self.every_network if method.averages_train else self.networks
        self.quick_ones = [*map(self.quick, called), *self.every_network[len(called) :]]
        """The networks as a step of the usual size calls them."""
        self.parameters = [p for network in self.networks for p in network.parameters()]
        self.optimizers = [self.optimizer(), *method.optimizers()]
        self.shared = [p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]]
        self.ledger = Ledger(self.y, self.clean, self.truth)
        self.total = torch.zeros((), device=self.device)
        self.steps = fast.steps_of(self, method)

    def unite(self) -> None:
        """Let the networks of several processes start alike and, on GPUs, normalise over the global batch.

        PyTorch has no such BatchNorm for the CPU. There each process normalises over its own rows, which is not what
        one process would do; their running statistics are averaged at the end of every epoch.
        """
        if self.device.type == "cuda":
            self.networks = [nn.SyncBatchNorm.convert_sync_batchnorm(network) for network in self.networks]
        copy_first([tensor for network in self.networks for tensor in network.state_dict().values()])

    @property
    def every_network(self) -> list[nn.Module]:
        return [*self.networks, *self.averages]

    @property
    def own_statistics(self) -> bool:
        """Whether a layer normalises over the rows of its own process."""
        norms = [layer for network in self.networks for layer in network.modules() if isinstance(layer, _BatchNorm)]
        return processes() > 1 and any(not isinstance(layer, nn.SyncBatchNorm) for layer in norms)

    @property
    def statistics(self) -> list[Tensor]:
        """What layers that normalise keep of the rows they saw."""
        buffers = [buffer for network in self.every_network for buffer in network.buffers()]
        return [buffer for buffer in buffers if buffer.is_floating_point()]

    @property
    def rows_needed(self) -> int:
        """How many instances a process needs in a step. BatchNorm needs two for a variance, SyncBatchNorm one for its
        shape. Any other network takes none at all, so its steps are the same whatever the number of processes."""
        if processes() == 1:
            return 0
        synced = any(isinstance(layer, nn.SyncBatchNorm) for network in self.networks for layer in network.modules())
        return 2 if self.own_statistics else int(synced)

    def quick(self, network: nn.Module) -> nn.Module:
        """The network as a step of the usual size calls it."""
        if self.config.precision == "bf16" and self.device.type == "cuda":
            return InHalf(network, self.config.compile)
        return Compiled(network) if self.config.compile else network

    def build(self, count: int) -> list[nn.Module]:
        make = self.builder or partial(networks.build, str(self.config.network))
        built = [make(self.classes, self.shape, seed_of(self.config.seed, self.name, "net", k)) for k in range(count)]
        if self.config.weights:
            for network in built:
                networks.load_weights(cast(networks.Network, network), self.config.weights)
        return list(built)

    @property
    def memory_format(self) -> torch.memory_format:
        images = len(self.shape) == 3 and self.device.type == "cuda"
        return torch.channels_last if images else torch.preserve_format

    def optimizer(self) -> torch.optim.Optimizer:
        assert self.config.lr is not None
        c = self.config
        on_gpu = self.device.type == "cuda"
        # A graph reads the learning rate from memory, so there it is a tensor.
        lr: Any = torch.tensor(c.lr, device=self.device) if on_gpu else c.lr
        if c.optimizer == "adamw":
            return torch.optim.AdamW(
                self.parameters, lr, weight_decay=c.weight_decay, fused=on_gpu or None, capturable=on_gpu
            )
        return torch.optim.SGD(
            self.parameters, lr, c.momentum, weight_decay=c.weight_decay, nesterov=c.nesterov, fused=on_gpu or None
        )

    def lr(self) -> float:
        """Of the epoch now running."""
        c = self.config
        assert c.lr is not None
        if c.schedule == "cosine":
            return float(c.lr * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * self.epoch / self.epochs))))
        fallen = sum(self.epoch >= drop for drop in c.drops or ()) if c.schedule == "drops" else 0
        return float(c.lr * 0.1**fallen)

    def set_lr(self, lr: float) -> None:
        for group in self.optimizers[0].param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    def tick(self) -> None:
        """Count the time since it was last counted."""
        now = time.perf_counter()
        self.seconds += now - self.began
        self.began = now

    def finish(self, method: Method, seen: Seen, accuracies: dict[str, float | None]) -> Epoch:
        """Write down what the epoch showed."""
        loss = float(self.total) / self.step_count if self.step_count else None
        if loss is not None and not math.isfinite(loss):
            raise NonFinite(f"the loss of epoch {self.epoch} is {loss}; lower the learning rate")
        line = {
            "epoch": self.epoch,
            "train_loss": loss,
            **accuracies,
            **self.ledger.line(method, seen),
            **method.chosen,
        }
        if self.folder and writes_files():
            self.folder.append(line)
            if self.config.ledger:
                self.folder.write_ledger(self.epoch, seen.margin, method.weight, seen.mask)
        every = self.config.checkpoint_every
        if every and (self.epoch % every == 0 or self.epoch == self.epochs):
            self.save(method)
        return Epoch(self.name, self.epoch, self.epochs, line)

    # ------------------------------------------------------------ checkpoints

    def state(self, method: Method) -> tuple[dict[str, Tensor], "Facts"]:
        """All a checkpoint holds: tensors, and what else there is to say."""
        modules: dict[str, nn.Module] = {"method": method}
        modules |= {f"network{k}": network for k, network in enumerate(self.networks)}
        modules |= {f"average{k}": average for k, average in enumerate(self.averages)}
        tensors = {f"{name}.{key}": value for name, m in modules.items() for key, value in m.state_dict().items()}
        numbers: dict[str, float] = {}
        for k, optimizer in enumerate(self.optimizers):
            for p, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    if isinstance(value, Tensor):
                        tensors[f"optimizer{k}.{p}.{key}"] = value
                    elif value is not None:
                        numbers[f"optimizer{k}.{p}.{key}"] = value
        tensors |= {f"ledger.{key}": value for key, value in self.ledger.state().items()}
        facts: Facts = {"numbers": numbers, "seconds": self.seconds, "fingerprint": self.fingerprint}
        if self.place:
            facts |= {"step": self.place, "plan": self.planned}
            tensors |= self.so_far()
        return tensors, facts

    def so_far(self) -> dict[str, Tensor]:
        """What there is besides in the midst of an epoch: the sum of its losses, and the statistics of each process."""
        found = {"epoch.total": self.total}
        if self.own_statistics:
            mine = torch.cat([buffer.reshape(1, -1) for buffer in self.statistics], 1)
            found["epoch.statistics"] = gather(mine, sizes=[1] * processes())[0]
        return found

    def take_up(self, so_far: dict[str, Tensor]) -> None:
        """The same, read back. For another number of processes the statistics are averaged, as at an epoch's end."""
        self.total.copy_(so_far["total"])
        if "statistics" in so_far:
            every = so_far["statistics"]
            mine = (every[rank()] if len(every) == processes() else every.mean(0)).to(self.device)
            for buffer, saved in zip(self.statistics, mine.split([b.numel() for b in self.statistics]), strict=True):
                buffer.copy_(saved.view_as(buffer))

    def save(self, method: Method) -> None:
        if self.folder and (self.config.checkpoint_every or self.config.checkpoint_every_steps):
            tensors, facts = self.state(method)
            if writes_files():
                self.folder.save_checkpoint(self.epoch, tensors, facts)

    def load(self, method: Method) -> bool:
        """Go on from the newest checkpoint; False where there is none."""
        found = self.checkpoint()
        if found is None or self.folder is None:
            if self.folder is not None and writes_files():
                self.folder.cut_metrics(0)
            return False
        epoch, tensors, facts = found
        if facts["fingerprint"] != self.fingerprint:
            raise FolderError(
                f"the checkpoint in {self.folder.path} was made with other labels or another dataset; "
                "use another folder, or the data it was made with"
            )
        method.load_state_dict(_part(tensors, "method"))
        for k, network in enumerate(self.networks):
            network.load_state_dict(_part(tensors, f"network{k}"))
        for k, average in enumerate(self.averages):
            average.load_state_dict(_part(tensors, f"average{k}"))
        for k, optimizer in enumerate(self.optimizers):
            _take_up(optimizer, {**_part(tensors, f"optimizer{k}"), **_part(facts["numbers"], f"optimizer{k}")})
        self.ledger.load(_part(tensors, "ledger"))
        self.epoch, self.seconds = epoch, facts["seconds"]
        self.place, self.planned = facts.get("step", 0), facts.get("plan")
        if self.place:
            self.take_up(_part(tensors, "epoch"))
        if writes_files():
            self.folder.cut_metrics(epoch)
        return True

    def checkpoint(self) -> "tuple[int, dict[str, Tensor], Facts] | None":
        """The newest one; the first process reads it and sends it to the others."""
        if self.folder is None or processes() == 1:
            return self.folder.load_checkpoint() if self.folder else None
        from safetensors.torch import load, save

        tensors: dict[str, Tensor] = {}

        def read() -> "tuple[int, Facts] | None":
            found = self.folder.load_checkpoint() if self.folder else None
            tensors.update(found[1] if found else {})
            return found and (found[0], found[2])

        told = ask_first(read)
        if told is None:
            return None
        epoch, facts = told
        return epoch, load(send_first(save(tensors))), facts


def _take_up(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Set an optimizer's state to what was saved of it, by the number of the parameter and a name: "3.exp_avg"."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in saved.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    _lay_out_alike(optimizer)


def _lay_out_alike(optimizer: torch.optim.Optimizer) -> None:
    """Files hold tensors in rows; fused optimizers want those of a parameter laid out as it is, channels last say."""
    for parameter, held in optimizer.state.items():
        for name, value in held.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                held[name] = torch.empty_like(parameter).copy_(value)


def _part(flat: dict[str, Any], name: str) -> dict[str, Any]:
    return {key[len(name) + 1 :]: value for key, value in flat.items() if key.startswith(name + ".")}


LARGE = 2**17
"""Parameters of a tensor that is worth a kernel of its own."""


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, decay: float | Tensor, statistics: bool = True) -> None:
    """Move an averaged copy towards its network; whole numbers (BatchNorm's counters) are copied.

    Without `statistics`, the parameters only. A large tensor is moved by a kernel that reads it once, and all small
    ones together by three. With a decay of 0 the copy is the network, to the bit.
    """
    ours, theirs = ([*of.parameters(), *(of.buffers() if statistics else ())] for of in (average, network))
    pairs = [pair for pair in zip(ours, theirs, strict=True) if pair[0].is_floating_point()]
    nearer = 1 - decay
    for follower, followed in (pair for pair in pairs if pair[0].numel() >= LARGE):
        follower.lerp_(followed, nearer)
    small = [pair for pair in pairs if pair[0].numel() < LARGE]
    followers, leaders = [pair[0] for pair in small], [pair[1] for pair in small]
    torch._foreach_sub_(followers, leaders)
    torch._foreach_mul_(followers, decay)
    torch._foreach_add_(followers, leaders)
    for counter, counted in zip(ours, theirs, strict=True):
        if not counter.is_floating_point():
            counter.copy_(counted)
