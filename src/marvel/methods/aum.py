"""AUM, the area under the margin (Pleiss et al., NeurIPS 2020, arXiv 2001.10528).

    AUM_i = mean over epochs 2..T of z_y - max over j != y of z_j        y: the label i was trained with

A random set of instances, the threshold samples, is given an invented class K + 1: mislabelled on purpose, their AUMs
show what wrong labels look like. A pass trains to the first fall of the learning rate, and an instance is flagged when
its AUM is below the 99th percentile of theirs: when more than 1 % of the threshold samples have a larger one. A second
pass has other threshold samples. What is flagged is removed, and the network is trained anew on K classes.

The paper and its published code differ twice; each is a named option.

    samples = "paper"    floor(n / (K + 1)) threshold samples, as many as an average class of the pass has
    samples = "code"     floor(n / K)
    rule = "paper"       the first pass judges all but its threshold samples, and the second judges those
    rule = "code"        removed only if flagged by every pass in which it was no threshold sample

Departures: margins are not rounded to half precision. As in the code, removed instances stay in the batches with weight
0. A pass is as long as the first learning rate lasts, half the epochs where it never falls; its batch is 64.

Published numbers: the row of the MARVEL paper is that of AUM's authors, by their code (300 epochs, Nesterov momentum,
batch 256, 45,000 images). Under 40 % circular noise it is below cross entropy: there all wrong labels of a class agree
with one another, so that a network learns them as it learns right ones, and threshold samples, which agree with none,
do not show what such labels look like.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method, Steps
from marvel.methods.ce import CE

if TYPE_CHECKING:
    from marvel.trainer import Trainer


def flagged(aum: Tensor, threshold: Tensor, percentile: float = 99) -> Tensor:
    """Which AUMs are below the percentile of those marked in `threshold`.  (n,), (n,) -> (n,)"""
    theirs = aum[threshold].sort().values
    larger = len(theirs) - torch.searchsorted(theirs, aum, right=True)
    return (100 * larger > (100 - percentile) * len(theirs)) & ~threshold


class AUM(Method):
    """`percentile` of the threshold samples' AUMs; `samples` and `rule`: "paper" or "code".

    Of a pass: `pass_epochs` (by default those before the first fall of the learning rate), `pass_batch`, and `pass_lr`
    (by default the run's).
    """

    aum: Tensor  # (n,) of the first pass in which the instance was no threshold sample

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        percentile: float = 99.0,
        samples: str = "paper",
        rule: str = "paper",
        pass_epochs: int | None = None,
        pass_batch: int = 64,
        pass_lr: float | None = None,
    ) -> None:
        super().__init__(n, classes, epochs)
        for name, value in (("samples", samples), ("rule", rule)):
            if value not in ("paper", "code"):
                raise InvalidInput(f"{name} is 'paper' or 'code', got {value!r}")
        if not 0 <= percentile <= 100 or (pass_epochs is not None and pass_epochs < 2):
            raise InvalidInput(
                f"AUM wants a percentile in [0, 100] and passes of 2 epochs or more, got {percentile} and {pass_epochs}"
            )
        self.percentile, self.rule = percentile, rule
        self.threshold_samples = n // (classes + 1 if samples == "paper" else classes)
        if self.threshold_samples < 1:
            raise InvalidInput(f"{n} instances of {classes} classes are too few for AUM's threshold samples")
        self.pass_epochs, self.pass_batch, self.pass_lr = pass_epochs, pass_batch, pass_lr
        self.remember("aum", torch.zeros(n))

    def prepare(self, trainer: "Trainer") -> Steps:
        place = trainer.permutation("threshold samples")  # disjoint: the first places, and the next
        first, second = (place // self.threshold_samples == k for k in (0, 1))
        aum_1 = yield from self.one_pass(trainer, "pass1", first)
        aum_2 = yield from self.one_pass(trainer, "pass2", second)
        flags_1, flags_2 = (flagged(a, t, self.percentile) for a, t in ((aum_1, first), (aum_2, second)))
        self.aum = torch.where(first, aum_2, aum_1)
        if self.rule == "paper":
            self.remove(torch.where(first, flags_2, flags_1))
        else:
            self.remove((flags_1 | first) & (flags_2 | second))

    def one_pass(self, trainer: "Trainer", name: str, threshold: Tensor) -> Generator[Any, None, Tensor]:
        """The AUMs of a training in which the threshold samples are of a class K + 1."""
        stage = trainer.stage(
            name,
            y=torch.where(threshold, self.classes, trainer.y),
            classes=self.classes + 1,
            epochs=self.pass_epochs or max(2, trainer.first_drop),
            batch=self.pass_batch,
            lr=self.pass_lr or trainer.config.lr,
            schedule="constant",
        )
        ranker = CE(self.n, self.classes + 1, stage.epochs)
        yield from stage.run(ranker)
        return ranker.quality
