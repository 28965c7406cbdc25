"""DY-Bootstrap (Arazo et al., ICML 2019, arXiv 1904.11238): bootstrapping as far as a label is likely to be wrong.

Before every epoch a mixture of two beta distributions is fitted to the losses of all instances, scaled to [0, 1]. The
posterior B_i of the component of large losses is how far i's label is distrusted in favour of h_i, what the network
itself predicts (argmax: "hard", M-DYR-H; softmax: "soft", M-DYR-S):

    c(z, i) = (1 - B_i) CE(z, y_i) + B_i CE(z, h_i)
    L = mean of  l c(z, i) + (1 - l) c(z, j)  +  eta sum_c 1/K log( 1/K / p_c ),      z = f(l x_i + (1 - l) x_j)

with l ~ Beta(32, 32) as in mixup, and p_c the mean prediction of the batch. Without mixup (`mixup=False`) l = 1. For
`burn_in` epochs all B_i are 0: plain mixup, or plain cross entropy. The authors' burn-in ends 5 epochs after the first
fall of the learning rate.

Departures: B_i is that of the network and the plain image as the epoch begins, not of each batch anew and of an
augmented one. MD-DYR-SH, which mixes by B_i, is not here.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Batch, Method, Networks, Outputs, Steps
from marvel.methods.mixup import mix

if TYPE_CHECKING:
    from marvel.trainer import Trainer


class BetaMixture(NamedTuple):
    """Two beta distributions, the second that of large losses."""

    a: Tensor  # (2,)
    b: Tensor  # (2,)
    share: Tensor  # (2,)

    def posterior(self, x: Tensor) -> Tensor:
        """How likely x is of each component.  (m,) -> (m, 2)"""
        beta = torch.lgamma(self.a) + torch.lgamma(self.b) - torch.lgamma(self.a + self.b)
        log = (self.a - 1) * x[:, None].log() + (self.b - 1) * (1 - x[:, None]).log() - beta
        return (log + self.share.clamp(min=1e-12).log()).softmax(1)


def fit(x: Tensor, iterations: int = 10) -> BetaMixture:
    """By EM from a fixed start, with moments for the M-step; x in (0, 1), whatever it is.  (m,) -> mixture"""
    found = BetaMixture(*x.new_tensor([[1.0, 2.0], [2.0, 1.0], [0.5, 0.5]]))
    for _ in range(iterations):
        r = found.posterior(x)
        mass = r.sum(0).clamp(min=1e-12)
        mean = ((r * x[:, None]).sum(0) / mass).clamp(1e-4, 1 - 1e-4)
        # Less than the largest variance that a mean allows, and more than none: losses may all be equal.
        spread = (r * (x[:, None] - mean) ** 2).sum(0) / mass
        spread = torch.minimum(spread.clamp(min=1e-6), 0.99 * mean * (1 - mean))
        a = mean * (mean * (1 - mean) / spread - 1)
        fitted = BetaMixture(a, a * (1 - mean) / mean, mass / len(x))
        alive = mass > 1e-6  # a component that has lost all instances stays where it is
        found = BetaMixture(*(torch.where(alive, new, old) for new, old in zip(fitted, found, strict=True)))
    return found


def distrust(losses: Tensor) -> Tensor:
    """How likely each loss is of the large ones.  (n,) -> (n,), in [1e-4, 1 - 1e-4]"""
    losses = losses.double()
    low, high = torch.quantile(losses, 0.05), torch.quantile(losses, 0.95)
    x = ((losses - low) / (high - low + 1e-6)).clamp(1e-3, 1 - 1e-3)
    mixture = fit(x[(losses >= low) & (losses <= high)])
    # Looked up at 100 places, and kept at its maximum beyond it: else the largest losses would look right again.
    places = torch.linspace(1e-3, 1 - 1e-3, 100, dtype=x.dtype, device=x.device)
    table = mixture.posterior(places)[:, 1]
    table = torch.where(torch.arange(100, device=x.device) > table.argmax(), table.max(), table)
    return table[(100 * x).long().clamp(0, 99)].clamp(1e-4, 1 - 1e-4).float()


def dynamic(logits: Tensor, y: Tensor, belief: Tensor, wrong: Tensor) -> Tensor:
    """The cost c, given what the network believes as probabilities.  (m, classes), (m,), (m, classes), (m,) -> (m,)"""
    log_p = logits.log_softmax(1)
    return (1 - wrong) * F.nll_loss(log_p, y, reduction="none") - wrong * (belief * log_p).sum(1)


def away_from_uniform(logits: Tensor) -> Tensor:
    """How far the mean prediction is from the uniform one: sum_c 1/K log(1/K / p_c).  (m, classes) -> ()"""
    log_mean = logits.log_softmax(1).logsumexp(0) - math.log(len(logits))
    return -log_mean.mean() - math.log(logits.shape[1])


class DYBootstrap(Method):
    """`kind` "hard" or "soft"; `mixup`, its `alpha`; `eta` of the term that keeps predictions spread; `burn_in`: epochs
    without bootstrapping (None: 5 more than the first learning rate lasts)."""

    wrong: Tensor  # (n,) B, how likely each label is wrong

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        kind: str = "hard",
        mixup: bool = True,
        alpha: float = 32.0,
        eta: float = 1.0,
        burn_in: int | None = None,
    ) -> None:
        super().__init__(n, classes, epochs)
        if kind not in ("hard", "soft"):
            raise InvalidInput(f"kind is 'hard' or 'soft', got {kind!r}")
        if not 0.01 <= alpha <= 10_000 or eta < 0:
            raise InvalidInput(f"DY-Bootstrap wants alpha in [0.01, 10000] and eta >= 0, got {alpha} and {eta}")
        self.soft, self.mixup, self.alpha, self.eta, self.burn_in = kind == "soft", mixup, alpha, eta, burn_in
        self.remember("wrong", torch.zeros(n))

    def start(self, trainer: "Trainer") -> Steps | None:
        burn_in = trainer.first_drop + 5 if self.burn_in is None else self.burn_in
        return self.refit(trainer) if self.epoch > burn_in else None

    def refit(self, trainer: "Trainer") -> Steps:
        logits = yield from trainer.logits(self)
        self.wrong = distrust(F.cross_entropy(logits, trainer.y, reduction="none"))

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        """Of the plain images and of the mixed ones, and with whom each was mixed."""
        (batch,) = batches
        if not self.mixup:
            return networks[0](batch.x)
        with torch.no_grad():
            plain = networks[0](batch.x)
        x, partner, share = mix(batch, self.alpha)
        return plain, networks[0](x), plain[partner], batch.y[partner], batch.index[partner], share

    def believed(self, logits: Tensor) -> Tensor:
        """h, as probabilities."""
        p = logits.detach().softmax(1)
        return p if self.soft else F.one_hot(p.argmax(1), self.classes).to(p.dtype)

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        if not self.mixup:
            costs = dynamic(outputs, y, self.believed(outputs), self.wrong[index])
            return costs.mean() + self.eta * away_from_uniform(outputs)
        plain, mixed, plain_2, y_2, index_2, share = outputs
        costs = share * dynamic(mixed, y, self.believed(plain), self.wrong[index])
        costs = costs + (1 - share) * dynamic(mixed, y_2, self.believed(plain_2), self.wrong[index_2])
        loss: Tensor = costs.mean() + self.eta * away_from_uniform(mixed)
        return loss
