"""MARVEL that throws nothing away: what it removes comes back as unlabelled data. Ours, beyond the paper.

The label of a removed instance is wrong; the instance is not. A *teacher*, the moving average of the network, looks at
every instance once an epoch, and its margins alone move the ledger; it also remembers a guess for each instance. The
*student*, the network itself, spends every draw on something it may believe.

    teacher, on every instance i once an epoch (weak view), p = its probabilities:
        m_i = z_y - max over j != y of z_j
        Q_i <- (Q_i + p_i) / 2                                        the guess
        kept -> removed     after `wait` negative margins in a row    (MARVEL)
        removed -> kept     after `back` positive margins in a row    (its given label is believed again)

    student, on instances drawn in proportion to w:
        removed     w_i = r / over              strong view,  t_i = g_i ~ (Q_i s / pi)^(1/T), normalised
        kept        w_i = 1                     weak view,    t_i = (1 - r lean) e_y + r lean g_i
        x = l x_i + (1 - l) x_j,   t = l t_i + (1 - l) t_j,   l ~ Beta(alpha, alpha), at least 1/2, one for a batch
        L = mean of CE(f(x), t) + KL(s || mean of p(x))

pi is the teacher's mean prediction over the last epoch and s the share of each class among the given labels, so that
guesses do not pile up in the classes that were learnt first. r rises from 0 to 1 over `ramp` epochs; labels begin to
lean an epoch after the learning rate begins to rise. The warm-up is generalised cross entropy on all instances in weak
views, without mixup: it memorises far later than cross entropy. Accuracy is the teacher's.

`over` is as much as the kept instances need for a third of the draws: 1 while they are a third of all or more, when
every instance is drawn alike, under its label or under its guess. The learning rate is at most `gentle` in the warm-up,
where much of what is learnt may be wrong, and comes to its own with r.

One setting is for all noise. The warm-up lasts a twelfth of the epochs; `over` follows from how many are kept, and z,
below which labels are doubted, from the margins; the rest is fixed. The labels of kept instances lean towards the
guesses: a wrong one among them is memorised later, and where label and guess agree it changes nothing.

A margin is negative where a label is wrong, and where the teacher does not know better. It is the log of the odds that
the teacher gives a label against its best rival: a bet that is won e^m times as often as lost, if labels are right. So
right labels at -u are e^-u as many as at u; of wrong ones, where label and rival have changed places, those at u are
e^-u as many as at -u. How many margins f lie at u and at -u then says how many of those at -u are of wrong labels, and
how many of right ones:

    wrong = (f(-u) - e^-u f(u)) / (1 - e^-2u),     right = e^-u (f(u) - e^-u f(-u)) / (1 - e^-2u)
    z = -d,   d >= 0: that beyond which wrong - doubt right, added up, is most

In place of 0 a margin speaks against a label below z: near 0 where many labels are wrong, mostly farther down where few
are; where all are right it is below nearly all margins, or there is none, as no sum is above 0. z is of all margins of
an epoch; of fewer than a thousand too little can be read, and it is 0. Nothing moves in the first epochs after the
warm-up, whose cost makes the teacher surer than it is right. That two classes are in question holds for a teacher that
has learnt much: one that is unsure among many contradicts right labels more often than this says.

Removal keeps wrong labels from being memorised, and need not begin before they are. So some are planted: until removal
begins, a twentieth of the instances, 1,000 at most, is taught another label b than its own, drawn at random, alike in
every run. Nothing in an instance speaks for it, so it can only be memorised. With p(b) what the teacher finds a planted
label, and 1 - p(y) all labels but the given one of any other instance, removal begins as

    mean of p(b) > mean of (1 - p(y)) / (classes - 1) + max(0.02, three standard errors)

or in the last epoch, where it moves the ledger and no more: a network that memorises nothing learns from all labels.
What the teacher knows of b is our own doing, and takes long to be forgotten: b never counts in the margin of its
instance, and from then on not in its guess. With two classes nothing else would be left, so nothing is planted there,
nor with `late=False`: removal begins as margins count.

Classes may be of any size, and epochs of any number of steps:
- s stands where one would write the uniform distribution.
- The average reaches back over `span` epochs, which a decay of 0.998 does on CIFAR-10; on a thousand instances that
would be 50 epochs, and no teacher.
- pi is of one epoch instead of a running mean over a thousand steps: every instance counts once in it.
- Draws are at equal distances (`marvel.drawn`) instead of independent, so that an epoch in which nothing is removed is
a permutation, as in ordinary training.

Controls, to see what the gain is owed to: `removal=False`, the same training with every instance kept, and nothing
planted; `guesses=False` and `back=None`, what is removed is not drawn and never comes back; `back=None`, it is drawn
with its guess, but its label is never believed again. With `warmup_cost="ce"`, `span`, `alpha`, `spread` and `zero` 0,
`over` 1, `guesses`, `late` and `by_weight` false, `back=None`, `warmup` and `wait` alike, and `gentle` no less than the
learning rate, it is MARVEL.
"""

import math
from collections.abc import Iterable
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from marvel.draws import drawn
from marvel.errors import InvalidInput
from marvel.handed import is_whole
from marvel.method import Batch, Networks, Outputs, Seen, numbers_of, shares_of, weighted_mean
from marvel.methods.costs import Cost
from marvel.methods.marvel import LONGEST, Marvel
from marvel.methods.mixup import blend, pair

LEAST = 1 / 3
"""The share of the draws that kept instances have at least, with `over="auto"`."""
SETTLING = 5
"""Epochs over which the average's reach grows to its span; and after the warm-up, until its margins count."""
UNKNOWN = 100
"""How many epochs are reckoned with where that is not said."""
FEWEST = 1000
"""How many margins must be there to read off them where labels are doubted."""
PART, MOST = 20, 1000
"""Of how many instances one has a label planted, and how many at most."""
MEMORISED, ERRORS = 0.02, 3
"""How much likelier than by chance planted labels are found on average, where labels are memorised; and by how many
standard errors at least, which is more where few are planted."""


def believed(guess: Tensor, share: Tensor, prior: Tensor, temperature: float) -> Tensor:
    """(Q s / pi)^(1/T), normalised: the guesses as targets.  (m, classes), (classes,), (classes,) -> (m, classes)"""
    log = guess.clamp(min=1e-8).log() + share.clamp(min=1e-8).log() - prior.clamp(min=1e-8).log()
    return (log / temperature).softmax(1)


def away_from(share: Tensor, p: Tensor, weight: Tensor) -> Tensor:
    """KL(s || the weighted mean of p); 0 when every weight is 0.  (classes,), (m, classes), (m,) -> ()"""
    mean = (shares_of(weight)[:, None] * p).sum(0)
    # A class without any label has a share of 0, and so a gradient of 0 / 0 where nothing keeps it from that.
    apart = torch.special.xlogy(share, share.clamp(min=1e-8) / mean.clamp(min=1e-8)).sum()
    return torch.where(weight.sum() > 0, apart, 0)


def struck(logits: Tensor, label: Tensor) -> Tensor:
    """The logits without those of the label, -1: of none.  (m, classes), (m,) -> (m, classes)"""
    at = label.clamp(min=0)[:, None]
    least = torch.finfo(logits.dtype).min
    return logits.scatter(1, at, torch.where(label[:, None] < 0, logits.gather(1, at), least))


def nearest(n: int) -> float:
    """Margins nearer to 0 count as these: both sides are as likely there, and of few the nearest would outweigh all."""
    return max(0.1, 10 / math.sqrt(max(1, n)))


def doubted_below(margin: Tensor, times: float) -> Tensor:
    """z: where, going down, margins begin to be of wrong labels `times` as often as of right ones.  (m,) -> ()"""
    size, order = margin.double().abs().sort(descending=True)
    e = (-size.clamp(min=nearest(len(size)))).exp()
    gain = torch.where(margin[order] < 0, 1 + times * e**2, -(1 + times) * e) / (1 - e**2)
    # After the k largest, for every k; those of one size go together.
    total, edge = torch.cat([gain.new_zeros(1), gain.cumsum(0)]), size.new_tensor([torch.inf, -1])
    last, following = torch.cat([edge[:1], size]), torch.cat([size, edge[1:]])
    at = torch.where(last > following, total, -torch.inf).argmax()
    return -torch.where(at > 0, following[at].clamp(min=0), torch.inf).float()


class MarvelSemi(Marvel):
    """MARVEL whose removed instances are learnt from under a teacher's guesses, and may come back.

    `warmup`: epochs, or "auto", a twelfth of all; `wait`: negative margins in a row until an instance is removed;
    `back`: positive ones until it is kept again, None: never.
    `over`: how much more often a kept instance is drawn than a removed one, or "auto"; `tau`: how sure a guess must be
    to be drawn at all; `ramp`: epochs until guesses are drawn in full.
    `span`: over how many epochs the teacher averages; `temperature` of the guesses; `alpha` of mixup, 0: none;
    `spread`: how much the mean prediction counts; `warmup_cost`: as MARVEL's `cost`; `strong`: how strong the views are
    that removed instances are seen in, 1 in full and 0 weak ones.
    `lean`: how much of a kept instance's target is its guess too.
    `zero`: the margin below which an instance's label is doubted; "auto": where margins are of wrong labels
    `doubt` times as often as of right ones, and 0 with fewer than a thousand instances.
    `count_warmup`: margins of the warm-up count, so that removal begins as it ends and not `wait` epochs later; where
    `zero` is "auto" it begins five epochs after it all the same.
    `late`: removal begins no sooner than labels are memorised; a twentieth of them, 1,000 at most, is wrong by intent
    until then. Of two classes it begins as margins count.
    `gentle`: the most the learning rate may be in the warm-up; from there it rises with the ramp.
    `removal`, `guesses`: False leaves it out; `by_weight`: False walks over everything and weights the costs instead.
    """

    averaged = 1
    answers = 1  # the teacher
    averages_train = True

    guess: Tensor  # (n, classes) Q, what the teacher predicted of late; 0: not seen yet
    given: Tensor  # (n,) the given label; -1: not seen yet
    back_at: Tensor  # (n,) the epoch each instance was last taken back in; 0: never
    began: Tensor  # 0-d, the epoch removal began with; 0: not yet
    beside: Tensor  # (n,) how far from the given label the planted one is; 0: none is
    likely: Tensor  # (n,) what the teacher last found the planted label; of others, any but the given one
    prior: Tensor  # (classes,) pi
    share: Tensor  # (classes,) s
    predicted: Tensor  # (classes,) this epoch's predictions, summed
    trust: Tensor  # 0-d, r / over
    over: Tensor  # 0-d
    slowness: Tensor  # 0-d, the decay of the average
    below: Tensor  # 0-d, z

    def __init__(
        self,
        n: int,
        classes: int,
        epochs: int | None = None,
        *,
        warmup: int | str = "auto",
        wait: int | str = 3,
        back: int | None = 3,
        over: float | str = "auto",
        tau: float = 0.0,
        ramp: int = 10,
        span: float = 1.25,
        temperature: float = 0.5,
        alpha: float = 1.0,
        spread: float = 1.0,
        warmup_cost: str | Cost = "gce",
        strong: float = 1.0,
        lean: float = 0.5,
        count_warmup: bool = False,
        gentle: float = 0.02,
        zero: float | str = "auto",
        doubt: float = 1.0,
        late: bool = True,
        removal: bool = True,
        guesses: bool = True,
        by_weight: bool = True,
    ) -> None:
        warmup = max(1, round((epochs or UNKNOWN) / 12)) if warmup == "auto" else warmup
        super().__init__(n, classes, epochs, warmup=warmup, wait=wait, cost=warmup_cost, count_warmup=count_warmup)
        if over != "auto" and not (isinstance(over, int | float) and 0.01 <= over <= 1000):
            raise InvalidInput(f"over must be 'auto' or a number in [0.01, 1000], got {over!r}")
        if not all(0 <= number <= 1 for number in (tau, strong, lean)) or not 0 < gentle < math.inf:
            raise InvalidInput(
                "marvel-semi wants tau, strong and lean in [0, 1] and gentle > 0, got "
                f"{tau}, {strong}, {lean} and {gentle}"
            )
        if zero != "auto" and not (isinstance(zero, int | float) and -1000 <= zero <= 1000):
            raise InvalidInput(f"zero must be 'auto' or a number in [-1000, 1000], got {zero!r}")
        if not 0.01 <= doubt <= 1000:
            raise InvalidInput(f"doubt must be a number in [0.01, 1000], got {doubt}")
        if back is not None and not (is_whole(back, 1) and back <= LONGEST):
            raise InvalidInput(f"back must be a number of epochs, 1 to {LONGEST}, or none, got {back}")
        known = is_whole(ramp, 1) and all(0 <= number < math.inf for number in (span, spread, temperature))
        if not (known and temperature > 0 and (alpha == 0 or 0.01 <= alpha <= 10_000)):
            raise InvalidInput(
                "marvel-semi wants a whole ramp >= 1, span >= 0, temperature > 0, spread >= 0, and alpha 0 or in "
                f"[0.01, 10000], got {ramp}, {span}, {temperature}, {spread} and {alpha}"
            )
        self.back, self.tau, self.ramp, self.gentle, self.auto_over = back, tau, ramp, gentle, over == "auto"
        self.span, self.temperature, self.alpha, self.spread, self.strong = span, temperature, alpha, spread, strong
        self.lean, self.removal, self.guesses, self.by_weight = lean, removal, guesses, by_weight
        self.auto_zero, self.doubt, self.late = zero == "auto" and n >= FEWEST, doubt, late and removal and classes > 2
        self.remember("guess", torch.zeros(n, classes))
        self.remember("given", torch.full((n,), -1, dtype=numbers_of(classes)))
        self.remember("back_at", torch.zeros(n, dtype=torch.int16))
        self.remember("prior", torch.full((classes,), 1 / classes))
        self.remember("share", torch.full((classes,), 1 / classes))
        self.remember("predicted", torch.zeros(classes), each_epoch=True)
        self.remember("trust", torch.tensor(0.0))
        self.remember("over", torch.tensor(1.0 if over == "auto" else float(over)))
        self.remember("slowness", torch.tensor(0.0))
        self.remember("below", torch.tensor(0.0 if zero == "auto" else float(zero)))
        self.remember("began", torch.tensor(0))
        self.remember("beside", torch.zeros(n, dtype=numbers_of(classes)))
        self.remember("likely", torch.zeros(n))
        if self.late:
            generator = torch.Generator().manual_seed(0)
            planted = torch.randperm(n, generator=generator)[: min(math.ceil(n / PART), MOST)]
            shift = torch.randint(1, classes, planted.shape, generator=generator)
            self.beside[planted] = shift.to(self.beside.dtype)

    # ------------------------------------------------------------ an epoch

    def draws(self, generator: torch.Generator, size: int) -> Iterable[Tensor | tuple[Tensor, ...]]:
        """Each step: a part of a permutation for the teacher, and as many instances drawn by weight for the student."""
        steps = [step for step in super().draws(generator, size) if isinstance(step, Tensor)]
        reach = self.span * min(1, self.epoch / SETTLING) * len(steps)
        self.slowness.fill_(reach / (1 + reach))
        if not self.by_weight:
            return steps
        students = drawn(self.used, self.n, generator).split([len(step) for step in steps])
        return list(zip(steps, students, strict=True))

    def following(self) -> Tensor:
        return self.slowness

    def lr(self, scheduled: float) -> float:
        gentle = min(self.gentle, scheduled)
        return gentle + (scheduled - gentle) * self.ramped(self.epoch)

    def ramped(self, epoch: int) -> float:
        """r: 0 in the warm-up, and from there on to 1 in `ramp` epochs."""
        return min(1.0, max(0, epoch - int(self.warm)) / self.ramp)

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        """What teacher and student say, and what of: with one batch, both see that."""
        student, teacher = networks[0], networks[1]
        shown, learnt = batches[0], batches[-1]
        index, y, warm = learnt.index, self.taught(learnt.index, learnt.y), self.clock <= self.warm
        # What is drawn has a weight of 1; or nothing may be believed, and none of it counts.
        x, worth = learnt.x, (self.used if shown is learnt else self.weight)[index]
        if self.strong > 0 and self.guesses:
            unlabelled = self.removed_at[index] > 0
            x = torch.where(unlabelled.view(-1, *[1] * (x.ndim - 1)), learnt.strong(self.strong), x)
        if self.alpha > 0:
            partner, share = pair(learnt, self.alpha)
            other_x, other_worth = (column[partner] for column in learnt.everyone(x, worth))
            share = torch.where(warm | (other_worth <= 0), 1, share)
            x = blend(x, other_x, share)
        else:
            partner, share = torch.zeros_like(index), torch.ones_like(worth)  # of whom there is nothing in it
        learns = student(x)
        # Beside the student, where both do not share a view that is still being made.
        with torch.no_grad(), nullcontext() if shown is learnt else self.ahead():
            says = teacher(shown.x)
        return says, learns, index, y, partner, share, worth, self.planted(shown.index, shown.y)

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        says, learns, own_index, own_y, partner, share, worth, _ = outputs
        self.listen(says, y, index)
        warm = self.clock <= self.warm
        target = self.target(own_index, own_y)
        target = blend(target, target[partner], share)
        costs = -(target * learns.log_softmax(1)).sum(1)
        costs = torch.where(warm, self.cost(learns, own_y, own_index), costs)
        loss = weighted_mean(costs, worth)
        if self.spread > 0:
            apart = away_from(self.share, learns.softmax(1), worth)
            loss = loss + self.spread * torch.where(warm, 0, apart)
        return loss

    def followed(self, outputs: Outputs) -> Tensor:
        """What the teacher says, but for planted labels."""
        says = super().followed(outputs)
        return struck(says, outputs[-1]) if self.late and not isinstance(outputs, Tensor) else says

    @torch.no_grad()
    def listen(self, logits: Tensor, y: Tensor, index: Tensor) -> None:
        """Remember what the teacher says."""
        if self.late:
            planted = self.planted(index, y)
            p = logits.softmax(1).gather(1, torch.where(planted < 0, y, planted)[:, None]).squeeze(1)
            self.likely[index] = torch.where(planted < 0, (1 - p) / (self.classes - 1), p)
            logits = torch.where(self.began > 0, struck(logits, planted), logits)
        p, known = logits.softmax(1), self.guess[index]
        self.guess[index] = torch.where(known.sum(1, keepdim=True) > 0, (known + p) / 2, p)
        self.given[index] = y.to(self.given.dtype)
        self.predicted += p.sum(0)

    def planted(self, index: Tensor, y: Tensor) -> Tensor:
        """Which label is planted; -1: none."""
        beside = self.beside[index]
        return torch.where(beside > 0, (y + beside) % self.classes, -1)

    def taught(self, index: Tensor, y: Tensor) -> Tensor:
        """The labels, until removal begins planted ones in their place."""
        return torch.where(self.began > 0, y, (y + self.beside[index]) % self.classes) if self.late else y

    def target(self, index: Tensor, y: Tensor) -> Tensor:
        """What the student is taught of instances: the guess where the label was removed, else the label, which may
        lean towards the guess."""
        label = F.one_hot(y, self.classes).to(self.guess.dtype)
        if not self.guesses:
            return label
        guess = believed(self.guess[index], self.share, self.prior, self.temperature)
        return torch.where((self.removed_at[index] > 0)[:, None], guess, torch.lerp(label, guess, self.leaning))

    @property
    def leaning(self) -> Tensor:
        """0-d, r lean: labels lean towards guesses as guesses come in."""
        return self.lean * self.trust * self.over

    # ------------------------------------------------------------ its end

    def update(self, seen: Seen) -> None:
        # What is removed and was not seen keeps its weight, which `remove` would make 0.
        weight = self.weight.clone()
        labels = self.given[seen.mask & (self.given >= 0)]
        if len(labels):
            self.prior = self.predicted / self.predicted.sum()
            self.share = labels.bincount(minlength=self.classes) / len(labels)
        warm = self.epoch <= self.warm
        if warm and not self.count_warmup:
            return
        if self.removal:
            self.change_sides(seen)
        if self.epoch < self.warm:  # margins were counted, and nothing moves yet
            return
        sure = (self.guess.amax(1) > self.tau).float() * self.guesses
        weight = torch.where(seen.mask, sure, weight)
        self.weight = torch.where(self.removed, weight, 1)
        self.share_out()

    def change_sides(self, seen: Seen) -> None:
        """`streak` counts the margins in a row that speak against where an instance stands; enough of them move it."""
        if self.auto_zero and seen.mask.sum() >= FEWEST:
            self.below = doubted_below(seen.margin[seen.mask], self.doubt)
        against = torch.where(self.removed, seen.margin > self.below, seen.margin < self.below)
        streak = torch.where(against, self.streak.clamp(max=LONGEST - 1) + 1, 0)
        self.streak = torch.where(seen.mask, streak, self.streak)
        self.look_whether_to_begin()
        moves = seen.mask & (self.began > 0)
        leaves = moves & ~self.removed & (self.streak >= self.wait)
        returns = moves & self.removed & (self.streak >= (self.back or LONGEST)) & (self.back is not None)
        self.remove(leaves)
        self.take_back(returns)
        self.back_at = torch.where(returns, self.epoch, self.back_at)
        self.streak = torch.where(leaves | returns, 0, self.streak)

    def look_whether_to_begin(self) -> None:
        """Removal begins as margins count; with `late`, as labels are memorised."""
        if self.epoch < self.warm + SETTLING * self.auto_zero or self.began:
            return
        last = self.epoch >= (self.epochs or UNKNOWN)
        if not self.late or self.memorises or last:
            self.began.fill_(self.epoch)
            self.give_back_labels(last)

    def give_back_labels(self, last: bool) -> None:
        """From now on planted instances are taught their own labels: what was noted of them before is of no account."""
        rows = ((self.beside > 0) & (self.given >= 0)).nonzero().squeeze(1)
        label = self.planted(rows, self.given[rows].long())
        self.guess[rows] = struck(self.guess[rows].clamp(min=1e-8).log(), label).softmax(1)
        if not last:  # where nothing follows, it is all there is
            self.streak[rows] = 0
            self.epochs_seen[rows] = self.epochs_seen[rows].clamp(max=1)

    @property
    def memorises(self) -> bool:
        """Whether the teacher finds planted labels likelier than, of other instances, any but the given one."""
        seen, planted = self.given >= 0, self.beside > 0
        known, chance = self.likely[seen & planted], self.likely[seen & ~planted].mean()
        if len(known) < 2:
            return False
        error = float(known.std()) / math.sqrt(len(known))
        return bool(known.mean() - chance > max(MEMORISED, ERRORS * error))

    def share_out(self) -> None:
        """How often guesses are drawn in the next epoch."""
        guessed, kept = torch.where(self.removed, self.weight, 0).sum(), (~self.removed).sum()
        if self.auto_over:
            self.over = (guessed / kept.clamp(min=1) * LEAST / (1 - LEAST)).clamp(min=1)
        self.trust = self.ramped(self.epoch + 1) / self.over

    @property
    def soonest(self) -> int:
        if not self.removal:
            return 1
        warm = int(self.warm)
        counted = max(warm, self.wait) if self.count_warmup else warm + self.wait
        return max(counted, warm + SETTLING * self.auto_zero)

    # ------------------------------------------------------------ what came of it

    @property
    def used(self) -> Tensor:
        """(n,) in which proportion instances are drawn."""
        return torch.where(self.removed, self.trust * self.weight, self.weight)

    @property
    def returned_at(self) -> Tensor:
        return self.back_at

    @property
    def told(self) -> Tensor:
        """(n, classes) the guesses, but for planted labels, which they hold until removal begins."""
        if not self.late:
            return self.guess
        at = (self.beside > 0).nonzero().squeeze(1)
        return self.guess.index_copy(0, at, struck(self.guess[at], self.planted(at, self.given[at].long())))

    @property
    def suggested(self) -> Tensor:
        """What is guessed, where that is not the given label."""
        guessed = self.told.argmax(1).to(self.given.dtype)
        return torch.where((self.given >= 0) & (guessed != self.given), guessed, -1)

    @property
    def competitor(self) -> Tensor:
        """The class that is favoured but for the given one."""
        first, second = self.told.topk(2).indices.to(self.given.dtype).unbind(1)
        return torch.where(self.given >= 0, torch.where(first == self.given, second, first), -1)

    @property
    def chosen(self) -> dict[str, float]:
        found = {"over": round(float(self.over), 4)} if self.epoch > self.warm + 1 else {}
        if self.removal and self.auto_zero and self.below.isfinite() and self.epoch > self.warm + SETTLING:
            found["zero"] = round(float(self.below), 4) + 0.0  # not -0.0
        first = max(int(self.began), self.soonest)
        if self.late and self.began and self.epoch > first:
            found["removal_from"] = first
        return super().chosen | found
