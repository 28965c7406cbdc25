"""L_DMI (Xu et al., NeurIPS 2019, arXiv 1909.03388): determinant-based mutual information.

    U = Y^T P / B,    L = -log |det U|                     Y: one-hot labels (B x K),  P: predictions (B x K)

Label noise that does not depend on the instance multiplies det U by a constant, so it does not change the best
classifier. The loss cannot tell one naming of the classes from another: it goes on from a network trained with cross
entropy, by its own small learning rate. Here `--lr`, `--drops` and the like are those of the cross entropy, which
comes first, for `pretrain` epochs; then come `--epochs` epochs at the constant `dmi_lr`, 1e-6 for the authors' CIFAR-10
(1e-5 for dogs and cats). `pretrain_drops` and `pretrain_batch` are for a cross entropy that differs in more than that.

To keep the logarithm finite, 0.001 is added to the determinant of B U, as in the authors' code for CIFAR. (Added to
that of U, as elsewhere in their code, it would be all there is: with ten classes |det U| is at most 1e-10.) A batch in
which a class is missing has det U = 0 and no gradient: many classes want large batches (CIFAR-100: 1024 or more).

As in the paper, the network to go on from is the best of the cross entropy's by the *given* labels of a share
`validation` of the instances, which that training does not see.

Departures: after that all instances are trained on, and the last network counts; the authors' code chooses again, by a
single batch of validation, and rebuilds the optimizer at every epoch. It skips a last batch that is not full; here that
is trained on too.

Published numbers: the row of the MARVEL paper is Pleiss et al.'s. "Diverged" on CIFAR-100 is the missing gradient: of
100 classes, a batch of 256 lacks 7 or 8 on average. At 1e-6 and 40 epochs the network moves little from the one that
the given labels chose, so that the choice matters most.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Outputs, Steps
from marvel.methods.ce import CE

if TYPE_CHECKING:
    from marvel.trainer import Trainer


def l_dmi(logits: Tensor, y: Tensor) -> Tensor:
    """(m, classes), (m,) -> (). In double precision, and by the logarithm of the determinant, which may be tiny."""
    B, K = logits.shape
    U = F.one_hot(y, K).double().T @ logits.double().softmax(1)  # B times the U above
    # A singular U has no gradient (|det U| is flat, or at its kink), and its inverse would make one of NaN.
    singular = torch.linalg.slogdet(U.detach())[1].isneginf()
    size = torch.linalg.slogdet(torch.where(singular, torch.eye(K, dtype=U.dtype, device=U.device), U))[1]
    least = torch.full_like(size, math.log(0.001))
    size = torch.where(singular, least, torch.logaddexp(size, least))
    return (K * math.log(B) - size).to(logits.dtype)


class EarlyStopped(CE):
    """Cross entropy on the instances that are not in `held`; keeps the network that is best by the labels of `held`."""

    skips_removed = True
    averaged = 1
    decay = 1.0  # not an average: the best network so far

    best: Tensor  # 0-d, its accuracy

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, held: Tensor) -> None:
        super().__init__(n, classes, epochs)
        self.held = held
        self.remember("best", torch.tensor(-1.0))
        self.remove(torch.zeros(n, dtype=torch.bool).index_fill(0, held.cpu(), True))

    def start(self, trainer: "Trainer") -> Steps:
        """Judge the network that the epoch before left, and keep it where it is the best."""
        logits = yield from trainer.logits(self, self.held)
        accuracy = (logits.argmax(1) == trainer.y[self.held]).float().mean()
        if len(self.held) == 0 or accuracy > self.best:
            self.best = accuracy
            trainer.averages[0].load_state_dict(trainer.networks[0].state_dict())


class LDMI(Method):
    """`pretrain`: epochs of cross entropy that come first (None: as many as `epochs`), with the `pretrain_drops` (None:
    `drops`, stretched) and the `pretrain_batch` (None: `batch`); `validation`: the share of the instances whose given
    labels choose among its networks (0: the last); `dmi_lr`: the learning rate afterwards."""

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        pretrain: int | None = None,
        pretrain_drops: tuple[int, ...] | None = None,
        pretrain_batch: int | None = None,
        validation: float = 0.1,
        dmi_lr: float = 1e-6,
    ) -> None:
        super().__init__(n, classes, epochs)
        if (pretrain is not None and pretrain < 1) or not 0 <= validation < 1 or dmi_lr <= 0:
            raise InvalidInput(
                "L_DMI wants pretrain >= 1, validation in [0, 1) and dmi_lr > 0, "
                f"got {pretrain}, {validation} and {dmi_lr}"
            )
        if round(validation * n) == n:
            raise InvalidInput(f"validation must leave some of the {n} instances to train on, got {validation}")
        if pretrain_batch is not None and pretrain_batch < 2:
            raise InvalidInput(f"pretrain_batch must be at least 2, got {pretrain_batch}")
        self.pretrain, self.pretrain_drops, self.pretrain_batch = pretrain, pretrain_drops, pretrain_batch
        self.validated, self.dmi_lr = validation, dmi_lr

    def prepare(self, trainer: "Trainer") -> Iterator[Any]:
        epochs = self.pretrain or trainer.epochs
        drops = self.pretrain_drops
        if drops is None:
            drops = tuple(max(1, round(drop * epochs / trainer.epochs)) for drop in trainer.config.drops or ())
        held = trainer.permutation("validation")[: round(self.validated * self.n)]
        batch = self.pretrain_batch or trainer.config.batch
        stage = trainer.stage("pretrain", epochs=epochs, drops=drops, batch=batch)
        ce = EarlyStopped(self.n, self.classes, held=held)
        yield from stage.run(ce)
        yield from ce.start(stage)
        trainer.networks[0].load_state_dict(stage.averages[0].state_dict())

    def lr(self, scheduled: float) -> float:
        return self.dmi_lr

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        return l_dmi(outputs, y)
