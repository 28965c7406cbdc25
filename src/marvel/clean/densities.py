"""Two models of the scores of right and wrong labels; both know the scores of the canaries, which are all wrong.

Others are a mixture: a share `pi` has wrong labels, with scores like the canaries', the rest has right ones. That alone
leaves `pi` open (right labels could have any scores), so each model says one thing more:

    ratio   The lower a score is, the more likely is the label wrong, and the lowest are wrong. Only the ranks of the
            others among the canaries count. With u the share of canaries below a score, wrong labels are uniform in u,
            and right ones have the density sum_k rho_k k u^(k-1), k >= kappa: a mixture of Beta(k, 1), fitted by EM.
            `kappa` is averaged over by its likelihood, flattened by 1 + W/m since the m canaries are a sample too.
    shape   Scores are bell-shaped. Right labels are a mixture of two normal densities, wrong ones of three, the third
            being where the right ones are (labels learned by heart). All are fitted by EM to canaries and others
            together, but how much of the wrong ones each density holds is for the canaries to say. That gives how many
            wrong labels are found, below the score where right and wrong are equally likely. How many there are
            follows from the share of canaries that is found (`marvel.clean.recapture`).

`ratio` is right where right and wrong overlap, and `shape` takes hard right labels for wrong ones. `shape` is right
where there is a gap, and `ratio` says far too little of few canaries, or ones that are easier than real wrong labels.
Neither is right everywhere, so both are asked and their answers pooled (`marvel.clean.estimate`).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from marvel.clean.recapture import Sample, missed

Numbers = npt.NDArray[np.float64]

POWERS = np.array([2, 3, 4, 6, 9, 14, 21, 33, 65, 129, 257, 1025.0])
KAPPAS = POWERS[:9]
BINS = 120
LEAST = 0.05
"""Of a canary, in a cell: one without any would leave nothing to tell right and wrong labels apart by."""


@dataclass(frozen=True)
class Fit:
    """What a model says: draws of how many of the others are wrong, and the chance that each of them is."""

    wrong: Numbers
    chance: Numbers


def ratio(canaries: Sample, others: Numbers, draws: int, rng: np.random.Generator) -> Fit:
    """What the ranks of the others among the canaries say."""
    hidden = round(canaries.hidden / 2 * len(canaries))  # as many as is to be expected: the easiest to find
    ordered = np.sort(canaries.score)[hidden:]
    cuts, seen = _cells(ordered)
    cell = np.searchsorted(cuts, others)
    held = np.bincount(cell, minlength=len(seen)).astype(float)
    if canaries.right > 0:
        seen = without_right(seen, held, canaries.right)
    models = [np.append(1.0, POWERS[kappa <= POWERS]) for kappa in KAPPAS]
    likely = _likely(models, held, seen, len(ordered))
    wrong, chance = [], np.zeros(len(held))
    for powers, times in zip(models, rng.multinomial(draws, likely), strict=True):
        if times:
            masses = np.maximum(rng.standard_gamma(seen, (times, len(seen))), LEAST)
            weights, cells = _powers(held, _edges(masses), powers)
            p = np.clip(cells[..., 0] * weights[:, :1] / _mixed(weights, cells), 0, 1)
            wrong.append(rng.binomial(held.astype(int), p).sum(axis=1))
            chance += p.sum(axis=0) / draws
    return Fit(np.concatenate(wrong).astype(float), falling(chance, held + 1e-3)[cell])


def _cells(ordered: Numbers) -> tuple[Numbers, Numbers]:
    """Cells of scores with about as many canaries each: where they end, but for the last, and how many each holds."""
    m = len(ordered)
    count = np.unique(np.linspace(0, m, int(np.clip(m / 5, 6, 30)) + 1).round().astype(int)[1:])
    upper = np.append(ordered, ordered[-1] + 1e-9)
    cuts: Numbers = (ordered[count - 1] + upper[count]) / 2
    return cuts, np.append(np.diff(count, prepend=0), 0.5)  # half a canary beyond the last of them


def _likely(models: list[Numbers], held: Numbers, seen: Numbers, m: int) -> Numbers:
    """How likely each model is, given how many others and canaries each cell holds; of `m` canaries.

    The likelihood is flattened by 1 + W/m, W the wrong labels by the likeliest model.
    """
    edges = _edges(seen[None])
    fits = [_powers(held, edges, powers) for powers in models]
    likelihood = np.array([(held * np.log(_mixed(*fit)[0])).sum() for fit in fits])
    share_wrong = fits[int(likelihood.argmax())][0][0, 0]
    weight = np.exp((likelihood - likelihood.max()) / (1 + share_wrong * held.sum() / m))
    likely: Numbers = weight / weight.sum()
    return likely


def without_right(seen: Numbers, held: Numbers, right: float) -> Numbers:
    """The canaries in each cell, less those expected to be right by accident, who lie where right labels do.

    Two mixtures of the same two densities: seen/m = (1 - a) W + a R, held/n = pi W + (1 - pi) R, with a = `right`. The
    others, less what looks wrong, say R.
    """
    m, n = seen.sum(), held.sum()
    wrong = seen / m
    for _ in range(20):
        filled = wrong > 0.5 / m
        pi = min(np.min(held[filled] / n / wrong[filled]), 0.95) if filled.any() else 0.0
        rest = np.maximum(held / n - pi * wrong, 0)
        wrong = np.maximum(seen / m - right * rest / rest.sum(), 0)
        wrong /= wrong.sum()
    return np.append(np.maximum(wrong * m * (1 - right), LEAST)[:-1], 0.5)


def _edges(masses: Numbers) -> Numbers:
    """(draws, cells) -> (draws, cells + 1), from 0 to 1."""
    ends = np.cumsum(masses, axis=1)
    ends /= ends[:, -1:]
    return np.concatenate([np.zeros((len(masses), 1)), ends], axis=1)


def _powers(held: Numbers, edges: Numbers, powers: Numbers) -> tuple[Numbers, Numbers]:
    """EM for the weights of the densities k u^(k-1), of several draws of the edges at once."""
    cells = np.diff(edges[..., None] ** powers, axis=-2) + 1e-300
    weights = np.full((len(edges), len(powers)), 1 / len(powers))
    for _ in range(150):
        new = weights * np.einsum("bck,bc->bk", cells, held / _mixed(weights, cells))
        new /= new.sum(axis=1, keepdims=True)
        done = np.abs(new - weights).max() < 1e-5
        weights = new
        if done:
            break
    return weights, cells


def _mixed(weights: Numbers, cells: Numbers) -> Numbers:
    mixed: Numbers = np.einsum("bck,bk->bc", cells, weights)
    return mixed


def shape(canaries: Sample, others: Numbers, draws: int, rng: np.random.Generator) -> Fit:
    """What bell-shaped densities and the share of canaries that is found say."""
    low, high = np.quantile(np.concatenate([canaries.score, others]), [0.002, 0.998])
    pad = 0.05 * (high - low) + 1e-9
    edges = np.linspace(low - pad, high + pad, BINS + 1)
    x = (edges[1:] + edges[:-1]) / 2
    bins = [np.clip(np.searchsorted(edges, scores) - 1, 0, BINS - 1) for scores in (canaries.score, others)]
    held = np.bincount(bins[1], minlength=BINS).astype(float)
    seen = np.bincount(bins[0], minlength=BINS).astype(float)
    bells = Bells(x, seen, held).fit(seen[None], canaries.right, rounds=150)
    chance = bells.chance()[0]
    weight = rng.standard_exponential((draws, len(canaries)))
    resampled = np.stack([np.bincount(bins[0], w, BINS) for w in weight]).astype(float)
    bells.fit(resampled, canaries.right, rounds=60)
    below = chance >= 0.5
    found = rng.binomial(held.astype(int), bells.chance())[:, below].sum(axis=1)
    share = canaries.found(float(edges[below.sum()]) if below.any() else -np.inf, draws, rng)
    wrong = np.minimum(found / share, len(others))
    rest = max(float(np.median(wrong) - (held * chance)[below].sum()), 0.0)
    chance = np.where(below, chance, missed(x, seen * ~below, held * ~below, rest))
    return Fit(wrong, np.interp(others, x, falling(chance, held + 1e-3)))


class Bells:
    """The normal densities of right and wrong labels on a grid `x` of scores, of several draws of canaries at once.

    (draws, bells) are the means, widths and weights; (draws,) is `pi`.
    """

    def __init__(self, x: Numbers, seen: Numbers, held: Numbers) -> None:
        self.x, self.held = x, held
        self.finest = 2 * (x[1] - x[0])
        mean = (seen * x).sum() / seen.sum()
        spread = max(np.sqrt((seen * (x - mean) ** 2).sum() / seen.sum()), self.finest)
        pi = float(np.clip((held * (x < mean + spread)).sum() / held.sum() / 0.85, 0.01, 0.7))
        middle = self.quantile(1 - (1 - pi) / 2)
        width = max(self.quantile(1 - 0.16 * (1 - pi)) - middle, self.finest)
        self.pi = np.array([pi])
        self.mean_w = np.array([[mean - 0.3 * spread, mean + spread, middle]])
        self.width_w = np.maximum([[0.7 * spread, 1.2 * spread, width]], self.finest)
        self.weight_w = np.array([[0.75, 0.2, 0.05]])
        self.mean_r = np.array([[middle, middle - 1.5 * width]])
        self.width_r = np.array([[width, 2 * width]])
        self.weight_r = np.array([[0.85, 0.15]])

    def quantile(self, share: float) -> float:
        at = np.searchsorted(self.held.cumsum(), share * self.held.sum())
        return float(self.x[min(int(at), len(self.x) - 1)])

    def fit(self, seen: Numbers, right: float, rounds: int) -> Self:
        """EM, from where it is; `seen` (draws, bins) are the canaries."""
        for k in range(rounds):
            w, r = self.of_wrong(), self.of_right()
            all_w, all_r, pi = w.sum(axis=1), r.sum(axis=1), self.pi[:, None]
            wrong = self.held * pi * all_w / (pi * all_w + (1 - pi) * all_r)
            fooled = seen * (1 - right) * all_w / ((1 - right) * all_w + right * all_r)
            of_canaries = (fooled / all_w)[:, None] * w
            of_wrong = of_canaries + (wrong / all_w)[:, None] * w + 1e-9
            of_right = ((self.held - wrong + seen - fooled) / all_r)[:, None] * r + 1e-9
            self.mean_w, self.width_w = self.moments(of_wrong)
            self.mean_r, self.width_r = self.moments(of_right)
            self.keep_apart()
            self.weight_w, self.weight_r = shares(of_canaries), shares(of_right)
            before, self.pi = self.pi, wrong.sum(axis=1) / self.held.sum()
            if k > 20 and np.abs(self.pi - before).max() < 1e-5:
                break
        return self

    def of_wrong(self) -> Numbers:
        return self.weight_w[..., None] * self.densities(self.mean_w, self.width_w)

    def of_right(self) -> Numbers:
        return self.weight_r[..., None] * self.densities(self.mean_r, self.width_r)

    def densities(self, mean: Numbers, width: Numbers) -> Numbers:
        """(draws, bells, bins), but for a common factor."""
        z = (self.x - mean[..., None]) / width[..., None]
        bells: Numbers = np.exp(-0.5 * z * z) / width[..., None] + 1e-300
        return bells

    def moments(self, weight: Numbers) -> tuple[Numbers, Numbers]:
        total = weight.sum(axis=-1)
        mean = (weight * self.x).sum(axis=-1) / total
        variance = (weight * (self.x - mean[..., None]) ** 2).sum(axis=-1) / total
        return mean, np.maximum(np.sqrt(variance), self.finest)

    def keep_apart(self) -> None:
        """Right labels have one peak: their second bell is the first one's flank, and no heap where wrong ones lie.

        Wrong labels learned by heart look like right ones.
        """
        gap = self.mean_r[:, 0] - self.mean_w[:, 0]
        self.mean_r[:, 1] = np.maximum(self.mean_r[:, 1], self.mean_r[:, 0] - gap / 2)
        self.width_r[:, 1] = np.maximum(np.minimum(self.width_r[:, 1], gap / 3), self.width_r[:, 0])
        self.mean_w[:, 2], self.width_w[:, 2] = self.mean_r[:, 0], self.width_r[:, 0]

    def chance(self) -> Numbers:
        """(draws, bins), of a wrong label; it never rises with the score."""
        w, r, pi = self.of_wrong().sum(axis=1), self.of_right().sum(axis=1), self.pi[:, None]
        return np.stack([falling(row, self.held + 1e-3) for row in pi * w / (pi * w + (1 - pi) * r)])


def shares(weight: Numbers) -> Numbers:
    """(draws, bells, bins) -> (draws, bells): how much of a draw each bell holds; none holds nothing."""
    held = weight.sum(axis=-1) + 0.5
    part: Numbers = held / held.sum(axis=-1, keepdims=True)
    return part


def falling(values: Numbers, weight: Numbers) -> Numbers:
    """The nearest sequence that never rises: neighbours that do are replaced by their mean, until none does."""
    blocks: list[list[float]] = []  # mean, weight, length
    for value, heavy in zip(values, weight, strict=True):
        blocks.append([float(value), float(heavy), 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, p, k), (b, q, j) = blocks[-2:]
            blocks[-2:] = [[(a * p + b * q) / (p + q), p + q, k + j]]
    return np.repeat([block[0] for block in blocks], [int(block[2]) for block in blocks]).clip(0, 1)
