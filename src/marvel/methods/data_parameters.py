"""Data parameters (Saxena et al., NeurIPS 2019).

    L = CE(z / sigma, y),    sigma = exp(s_i),  exp(c_y),  or their sum

Every instance (and class) has a temperature that is learned along with the network: a wrong label's rises, and its
gradient fades. The parameters live in log space, are clamped to [1/20, 20] after each step, and have an SGD of their
own with momentum, which moves *only those whose gradient is not 0*: an instance outside the batch keeps its value and
its momentum. An ordinary optimizer would let both decay. Test time knows no temperatures.

Defaults: the authors' for CIFAR-100 with wrong labels, instance parameters alone with learning rate 0.2. The loss is a
mean over the batch, so an instance feels 0.2 / B. They report the epoch that is best on validation (84 of 120): left
running, the network memorises all the same. With `validation` above 0 that share of the instances is not trained on,
and the accuracy is that of the network that was best by their *given* labels, of all epochs but the last.

Departures: none.

Published numbers: the row of the MARVEL paper (Pleiss et al.) is about that of cross entropy, presumably since there
the last epoch counts; ours is well above both by its last epoch. The authors stop by validation and report 71 % for
CIFAR-100 with 40 % noise (Wide ResNet), 21 points above cross entropy. So `marvel bench baselines` has both: the last
epoch, and `validation=0.1`.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marvel.draws import batches_of
from marvel.errors import InvalidInput
from marvel.method import Method, Steps

if TYPE_CHECKING:
    from marvel.trainer import Trainer


class SparseSGD(torch.optim.Optimizer):
    """SGD with momentum that leaves entries without gradient, and their momentum, as they are."""

    def __init__(
        self,
        params: list[nn.Parameter],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        limit: float = math.log(20),
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "limit": limit})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                moved = state["momentum_buffer"]
                touched = p.grad != 0
                gradient = p.grad + group["weight_decay"] * p
                moved.copy_(torch.where(touched, group["momentum"] * moved + gradient, moved))
                there = (p - group["lr"] * moved).clamp(-group["limit"], group["limit"])
                p.copy_(torch.where(touched, there, p))


class DataParameters(Method):
    """`learn` "instance", "class" or "both"; each has a learning rate, a weight decay (in log space) and, where both
    are learned, the temperature they begin with; alone they begin with 1. `validation`: the share of the instances
    whose given labels choose the epoch that counts (0: the last epoch counts)."""

    held: Tensor  # (n,) the instances that choose
    best: Tensor  # 0-d, how well the network kept agrees with their labels

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        learn: str = "instance",
        instance_lr: float = 0.2,
        class_lr: float = 0.1,
        instance_decay: float = 0.0,
        class_decay: float = 0.0,
        instance_start: float = 1.0,
        class_start: float = 0.001,
        validation: float = 0.0,
    ) -> None:
        super().__init__(n, classes, epochs)
        if learn not in ("instance", "class", "both"):
            raise InvalidInput(f"learn is 'instance', 'class' or 'both', got {learn!r}")
        if min(instance_lr, class_lr, instance_start, class_start) <= 0 or min(instance_decay, class_decay) < 0:
            raise InvalidInput("learning rates and temperatures must be positive, weight decays not negative")
        self.holds = max(1, round(validation * n)) if validation > 0 else 0
        if not 0 <= validation < 1 or n - self.holds < 2 <= n:
            raise InvalidInput(f"validation must lie in [0, 1) and leave two of {n} to train on, got {validation}")
        if self.holds:
            self.averaged, self.decay, self.answers = 1, 1.0, 1  # not an average: the best network so far
        self.remember("held", torch.zeros(n, dtype=torch.bool))
        self.remember("best", torch.tensor(-1.0))
        self.learned: dict[str, tuple[float, float]] = {}
        both = learn == "both"
        if learn in ("instance", "both"):
            self.of_instance = nn.Parameter(torch.full((n,), math.log(instance_start if both else 1)))
            self.learned["of_instance"] = instance_lr, instance_decay
        if learn in ("class", "both"):
            self.of_class = nn.Parameter(torch.full((classes,), math.log(class_start if both else 1)))
            self.learned["of_class"] = class_lr, class_decay

    def sigma(self, y: Tensor, index: Tensor) -> Tensor:
        """The temperature of each instance of the batch."""
        log_sigmas = [self.get_parameter(name)[index if name == "of_instance" else y] for name in self.learned]
        return torch.stack(log_sigmas).exp().sum(0)

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        if index is not None:
            logits = logits / self.sigma(y, index)[:, None]
        return F.cross_entropy(logits, y, reduction="none")

    def prepare(self, trainer: "Trainer") -> None:
        held = trainer.permutation("validation")[: self.holds]
        self.held = self.held.index_fill(0, held, True)

    def start(self, trainer: "Trainer") -> Steps | None:
        return self.choose(trainer) if self.held.any() else None

    def choose(self, trainer: "Trainer") -> Steps:
        """Keep the network that the epoch before left, where it is the best so far."""
        held = self.held.nonzero().squeeze(1)
        logits = yield from trainer.evaluate(lambda networks, x: networks[0](x), trainer.source, held)
        agreement = (logits.argmax(1) == trainer.y[held]).float().mean()
        if agreement > self.best:
            self.best = agreement
            trainer.averages[0].load_state_dict(trainer.networks[0].state_dict())

    def draws(self, generator: torch.Generator, size: int) -> list[Tensor]:
        order = torch.randperm(self.n, generator=generator)
        return batches_of(order[~self.held.cpu()[order]], size)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [
            SparseSGD([self.get_parameter(name)], lr, weight_decay=decay) for name, (lr, decay) in self.learned.items()
        ]
