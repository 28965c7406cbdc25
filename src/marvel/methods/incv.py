"""INCV, iterative noisy cross-validation (Chen et al., ICML 2019, arXiv 1905.05040).

S, the selected, is empty; C, the candidates, is everything. Each of the `rounds` halves C at random:

    train, from the same initial weights, on S and the one half; on the other half C2
    select     those whose prediction is their given label
    remove     the r #selected of the largest cross entropy, r = min(2, e / (1 - e)); only under symmetric noise
    the same with the halves exchanged; then S gains the selected, and C loses them and the removed

The first half of the first round tells the noise rate: e is the smallest one that explains the share of agreement,

    (1 - e)^2 + e^2 / k <= agreement                      k = K - 1 for symmetric noise, 1 for asymmetric

That is the agreement of a network that errs as often as the labels it learnt from: one that has memorised them. One
that has learnt to do better agrees more often, and e comes out too low: with 40 % of ten classes wrong, 0.23 for a
network that is always right. It is a part of the method, and errs on the safe side: less is removed.

Then Co-teaching on S, whose noise rate is taken to be e^2 / (e^2 + k (1 - e)^2). From a fifth of the epochs on (two
fifths if the noise is asymmetric or e > 0.6), each batch is joined by candidates, in proportion, up to half as many;
the number kept stays that of the selected. It must be told the type of noise, not its rate.

Of a training, the epoch counts that agrees best with the labels of C2: in all four rounds if e <= 0.3, in the first two
if e <= 0.6, else or under asymmetric noise in the first one; afterwards the last epoch counts.

Departures: the published code has k = K - 1 in e for asymmetric noise too, and so finds 0.29 where it is 0.4. It
removes everything where it means to remove nothing (a slice that ends at -0), and takes the optimizer's state along
from one training to the next; not here. Trainings have the run's own optimizer, the learning rate falling as a cosine
(published: Adam; to 0.5, 0.25 and 0.1), and last a quarter of the epochs, as its 50 are of 200.

Published numbers: the row of the MARVEL paper is Pleiss et al.'s. For symmetric noise it is near what the authors
report with their ResNet-32, for asymmetric noise six points below it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.draws import batches_of
from marvel.errors import InvalidInput
from marvel.method import Outputs, Steps
from marvel.methods.ce import Part
from marvel.methods.co_teaching import CoTeaching, exchange

if TYPE_CHECKING:
    from marvel.trainer import Trainer


def rate_behind(agreement: float, k: int) -> float:
    """The smallest e, in steps of 0.001, with (1 - e)^2 + e^2 / k <= agreement; 1 where there is none."""
    steps = (step / 1000 for step in range(1, 1000))
    return next((e for e in steps if (1 - e) ** 2 + e**2 / k <= agreement), 1.0)


def largest(costs: Tensor, among: Tensor, count: int) -> Tensor:
    """The mask of the `count` largest costs among those marked.  (n,), (n,) -> (n,)"""
    order = torch.where(among, costs, -torch.inf).argsort(descending=True, stable=True)
    return torch.zeros_like(among).index_fill_(0, order[:count], True) & among


class Half(Part):
    """Trains on `kept`, and keeps what it puts out for all: after the epoch that agrees best with the given labels of
    the `others` (n,), or after the last one."""

    best: Tensor  # (n, classes) the logits kept
    agreement: Tensor  # 0-d, with the labels of the others

    def __init__(self, n: int, classes: int, epochs: int, *, kept: Tensor, others: Tensor, early: bool) -> None:
        super().__init__(n, classes, epochs, kept=kept)
        self.others, self.early = others, early
        self.remember("best", torch.zeros(n, classes))
        self.remember("agreement", torch.tensor(-1.0))

    def start(self, trainer: "Trainer") -> Steps | None:
        return self.look(trainer) if self.early and self.epoch > 1 else None

    def look(self, trainer: "Trainer") -> Steps:
        logits = yield from trainer.logits(self)
        agreement = (logits.argmax(1) == trainer.y)[self.others].float().mean()
        if not self.early or agreement > self.agreement:
            self.best, self.agreement = logits, agreement


class INCV(CoTeaching):
    """`noise_type` "symmetric" or "asymmetric"; `rounds` of two trainings of `stage_epochs` each, by default a quarter
    of the epochs; `candidates_from`: the last epoch without candidates; `ramp`, `judge`: Co-teaching's."""

    needs: tuple[str, ...] = ()

    selected: Tensor  # (n,) S
    noise_rate_found: Tensor  # 0-d, e
    noise_rate_selected: Tensor  # 0-d, of S

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        noise_type: str = "symmetric",
        rounds: int = 4,
        stage_epochs: int | None = None,
        candidates_from: int | None = None,
        ramp: int = 10,
        judge: str = "first",
    ) -> None:
        super().__init__(n, classes, epochs, noise_rate=0.0, ramp=ramp, judge=judge)
        if noise_type not in ("symmetric", "asymmetric"):
            raise InvalidInput(f"noise_type is 'symmetric' or 'asymmetric', got {noise_type!r}")
        if rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {rounds}")
        self.symmetric = noise_type == "symmetric"
        self.k = classes - 1 if self.symmetric else 1
        self.rounds, self.stage_epochs, self.candidates_from = rounds, stage_epochs, candidates_from
        self.remember("selected", torch.ones(n, dtype=torch.bool))
        self.remember("noise_rate_found", torch.tensor(0.0))
        self.remember("noise_rate_selected", torch.tensor(0.0))

    def prepare(self, trainer: "Trainer") -> Steps:
        S, C = torch.zeros_like(self.selected), torch.ones_like(self.selected)
        discarded, early, e = torch.zeros_like(S), self.rounds, 0.0
        for r in range(1, self.rounds + 1):
            order = trainer.permutation(f"round{r}")
            order = order[C[order]]
            half = torch.zeros_like(C).index_fill_(0, order[: len(order) // 2], True)
            found = torch.zeros_like(C)
            for name, C1, C2 in ((f"round{r}-first", half, C & ~half), (f"round{r}-second", C & ~half, half)):
                if not (S | C1).any() or not C2.any():
                    continue
                stage = trainer.stage(name, epochs=self.stage_epochs or max(1, trainer.epochs // 4), schedule="cosine")
                judge = Half(self.n, self.classes, stage.epochs, kept=S | C1, others=C2, early=r <= early)
                yield from stage.run(judge, trainer.build(1))
                yield from judge.look(stage)
                agreeing = C2 & (judge.best.argmax(1) == trainer.y)
                if name == "round1-first":
                    e = rate_behind(float(agreeing.sum() / C2.sum()), self.k)
                    early = 1 if not self.symmetric or e > 0.6 else 2 if e > 0.3 else 4
                count = int(min(2.0, e / max(1 - e, 1e-9)) * int(agreeing.sum()))
                discarded |= largest(F.cross_entropy(judge.best, trainer.y, reduction="none"), C2, count)
                found |= agreeing
            S |= found
            C &= ~(found | discarded) if self.symmetric else ~found
        if (count := int(S.sum())) < 2:  # BatchNorm cannot train on one
            raise InvalidInput(
                f"INCV selected {count} of {self.n} instances, and training takes two: its first trainings agree with "
                "too few given labels; add --stage-epochs, or instances"
            )
        self.selected = S
        self.noise_rate_found.fill_(e)
        self.noise_rate_selected.fill_(e**2 / (e**2 + self.k * (1 - e) ** 2))
        self.remove(~S & ~C)

    def draws(self, generator: torch.Generator, size: int) -> Iterable[Tensor]:
        order = torch.randperm(self.n, generator=generator)
        chosen, removed = self.selected.cpu()[order], self.removed.cpu()[order]
        S, C = order[chosen], order[~chosen & ~removed]
        steps = batches_of(S, size)
        late = 0.4 if not self.symmetric or self.noise_rate_found > 0.6 else 0.2
        since = round(late * (self.epochs or 200)) if self.candidates_from is None else self.candidates_from
        joining = min(size * len(C) // len(S), size // 2) if self.epoch > since else 0
        return [torch.cat([step, C[k * joining : (k + 1) * joining]]) for k, step in enumerate(steps)]

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        first, second = outputs
        forgotten = self.noise_rate_selected * ((self.clock - 1) / self.ramp).clamp(max=1)
        count = (self.selected[index].sum() * (1 - forgotten)).round()
        return exchange(first, second, y, count / len(y))
