"""DY-Bootstrap (Arazo et al., ICML 2019, arXiv 1904.11238): bootstrapping as far as a label is likely to be wrong.

Before every epoch a mixture of two beta distributions is fitted to the losses of all instances, scaled to [0, 1]. The
posterior B_i of the component of large losses is how far i's label is distrusted in favour of h_i, what the network
itself predicts (argmax: "hard", M-DYR-H; softmax: "soft", M-DYR-S):

    c(z, i) = (1 - B_i) CE(z, y_i) + B_i CE(z, h_i)
    L = mean of  l c(z, i) + (1 - l) c(z, j)  +  eta sum_c 1/K log( 1/K / p_c ),      z = f(l x_i + (1 - l) x_j)

with l ~ Beta(32, 32) as in mixup, and p_c the mean prediction of the batch. Without mixup (`mixup=False`) l = 1. For
`burn_in` epochs it is plain mixup, or plain cross entropy. The authors' burn-in ends 5 epochs after the first fall of
the learning rate.

The third form, `kind="soft-to-hard"` (MD-DYR-SH, for extreme noise), mixes more of the image whose label is trusted:

    z = f(w x_i + (1 - w) x_j),    w = (1 - B_i) / ((1 - B_i) + (1 - B_j))

For `mixing_epochs` (5) that is all: the loss is mixup's, with l ~ Beta(32, 32) still. Then both halves weigh 1/2, and
h = softmax(z' / T) of the plain image, T falling from 1 to 0.001 in equal steps over `cooling_epochs` (89 of the
authors' 300 epochs): from soft bootstrapping to hard.

Departures: B_i is that of the network and the plain image as the epoch begins, not of each batch anew and of an
augmented one. The published code gives both halves of "soft" the weight 1/2; here it is l, as for "hard".

Published numbers: the row of the MARVEL paper (Pleiss et al.) is near that of cross entropy; the authors' own for
CIFAR-10, 93.8 % at 20 % noise and 91.9 % at 50 % (a larger network, 300 epochs, and noise that may leave a label as it
is), are far above. The row is presumably of the form without mixup. So `marvel bench baselines` has "hard" with and
without mixup, and MD-DYR-SH, each by its name.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Batch, Method, Networks, Outputs, Steps
from marvel.methods.mixup import blend, pair

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
    """`kind` "hard", "soft" or "soft-to-hard"; `mixup`, its `alpha`; `eta` of the term that keeps predictions spread;
    `burn_in`: epochs without bootstrapping (None: 5 more than the first learning rate lasts). Of "soft-to-hard":
    `mixing_epochs`, and `cooling_epochs` (None: 89 / 300 of all)."""

    wrong: Tensor  # (n,) B, how likely each label is wrong
    mixing: Tensor  # 0-d, whether images are mixed by B
    bootstrapping: Tensor  # 0-d, whether the loss distrusts labels by B
    temperature: Tensor  # 0-d, T

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
        mixing_epochs: int = 5,
        cooling_epochs: int | None = None,
    ) -> None:
        super().__init__(n, classes, epochs)
        if kind not in ("hard", "soft", "soft-to-hard"):
            raise InvalidInput(f"kind is 'hard', 'soft' or 'soft-to-hard', got {kind!r}")
        if kind == "soft-to-hard" and not mixup:
            raise InvalidInput("kind 'soft-to-hard' mixes images by how far their labels are trusted: leave mixup on")
        if mixing_epochs < 0 or (cooling_epochs is not None and cooling_epochs < 1):
            raise InvalidInput(
                f"mixing_epochs must not be negative, cooling_epochs at least 1, got {mixing_epochs}, {cooling_epochs}"
            )
        if not 0.01 <= alpha <= 10_000 or eta < 0:
            raise InvalidInput(f"DY-Bootstrap wants alpha in [0.01, 10000] and eta >= 0, got {alpha} and {eta}")
        self.kind, self.mixup, self.alpha, self.eta, self.burn_in = kind, mixup, alpha, eta, burn_in
        self.mixing_epochs = mixing_epochs if kind == "soft-to-hard" else 0
        self.cooling_epochs = cooling_epochs or max(1, round((epochs or 300) * 89 / 300))
        self.remember("wrong", torch.zeros(n))
        self.remember("mixing", torch.tensor(False))
        self.remember("bootstrapping", torch.tensor(False))
        self.remember("temperature", torch.tensor(1.0))

    def start(self, trainer: "Trainer") -> Steps | None:
        passed = self.epoch - (trainer.first_drop + 5 if self.burn_in is None else self.burn_in)
        self.mixing.fill_(self.kind == "soft-to-hard" and passed > 0)
        self.bootstrapping.fill_(passed > self.mixing_epochs)
        cooled = max(0, passed - self.mixing_epochs - 1) / max(1, self.cooling_epochs - 1)
        self.temperature.fill_(1 - 0.999 * min(1.0, cooled))
        return self.refit(trainer) if passed > 0 else None

    def refit(self, trainer: "Trainer") -> Steps:
        logits = yield from trainer.logits(self)
        self.wrong = distrust(F.cross_entropy(logits, trainer.y, reduction="none"))

    def left_out(self) -> list[str]:
        return [name for name in super().left_out() if name != "outputs" or self.mixup]

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        """Of the plain images and of the mixed ones, and with whom each was mixed."""
        (batch,) = batches
        if not self.mixup:
            return networks[0](batch.x)
        with torch.no_grad():
            plain = networks[0](batch.x)
        partner, share = pair(batch, self.alpha)
        x_2, plain_2, y_2, index_2 = (c[partner] for c in batch.everyone(batch.x, plain, batch.y, batch.index))
        trust, trust_2 = 1 - self.wrong[batch.index], 1 - self.wrong[index_2]
        x = blend(batch.x, x_2, torch.where(self.mixing, trust / (trust + trust_2), share))
        return plain, networks[0](x), plain_2, y_2, index_2, share

    def believed(self, logits: Tensor) -> Tensor:
        """h, as probabilities."""
        logits = logits.detach()
        if self.kind == "hard":
            return F.one_hot(logits.argmax(1), self.classes).to(logits.dtype)
        return (logits / self.temperature if self.kind == "soft-to-hard" else logits).softmax(1)

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        wrong = self.wrong * self.bootstrapping
        if not self.mixup:
            logits = outputs
            costs = dynamic(logits, y, self.believed(logits), wrong[index])
        else:
            plain, logits, plain_2, y_2, index_2, share = outputs
            share = torch.where(self.mixing & self.bootstrapping, 0.5, share)
            costs = share * dynamic(logits, y, self.believed(plain), wrong[index])
            costs = costs + (1 - share) * dynamic(logits, y_2, self.believed(plain_2), wrong[index_2])
        return costs.mean() + self.eta * self.bootstrapping * away_from_uniform(logits)
