"""The one abstraction: a method is a criterion that remembers each instance.

    criterion = Marvel(n=len(train), classes=10, epochs=120)
    for epoch in range(120):
        for index, x, y in loader:                     # marvel.Indexed(dataset) yields the index
            loss = criterion(network(x), y, index)     # like a loss
            loss.backward(); optimizer.step(); optimizer.zero_grad()
        criterion.step()                               # like a scheduler, once an epoch
    criterion.removed, criterion.quality, criterion.weight

An author overrides as little as the paper changes, from least to most; each default is written with the one before:
`cost`, `loss`, `update`, `outputs`, `draws`, `start`, `prepare`. Everything else here is the machinery around them.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import Dataset, IterableDataset

from marvel.distributed import gather, processes, rank
from marvel.draws import batches_of
from marvel.errors import InvalidInput, NonFinite, amount
from marvel.handed import check_count, check_logits, check_numbers, in_single_precision, two_logits
from marvel.issues import Issue, issues_of
from marvel.memory import Memory

if TYPE_CHECKING:
    from marvel.trainer import Trainer

Networks: TypeAlias = Sequence[nn.Module]

Outputs: TypeAlias = Any
"""What goes from `outputs` to `loss`: logits, or a tuple of tensors whose rows are the batch's instances."""

Steps: TypeAlias = Iterator[Any]
"""A loop that yields once a step, so that several runs can take turns on one device; a stage yields its epochs too."""


class Indexed(Dataset[Any]):
    """Any map-style dataset, each item with its index in front: `(index, x, y)`; items that are dicts get a key."""

    def __init__(self, dataset: Any) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise InvalidInput(
                f"Indexed needs a dataset whose items have places, with a length and [], got {type(dataset).__name__}: "
                "one that streams can yield (index, x, y) itself"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if isinstance(item, Mapping):
            return {**item, "index": index}
        return (index, *item) if isinstance(item, tuple | list) else (index, item)


class Viewer(Protocol):
    """How a batch is looked at; `marvel.data.Views` is one."""

    weak_uniforms: int
    strong_uniforms: int

    def weak(self, x: Tensor, u: Tensor) -> Tensor: ...
    def strong(self, x: Tensor, u: Tensor, strength: float) -> Tensor: ...


class Batch:
    """Some instances: their indices, their given labels, and views of them."""

    def __init__(
        self,
        index: Tensor,
        y: Tensor,
        raw: Tensor,
        views: Viewer,
        uniform: Callable[[int], Tensor],
        shares: list[int] | None = None,
    ) -> None:
        self.index, self.y, self.raw, self.views = index, y, raw, views
        self.uniform = uniform
        """`uniform(k)`: k numbers in [0, 1) for each instance, (m, k), a function of the seed."""
        self.shares = shares or [len(index)]
        """How many instances each process has."""

    @cached_property
    def x(self) -> Tensor:
        """The view to train on: `weak()`, made once."""
        return self.weak()

    def weak(self) -> Tensor:
        """A new weakly augmented view: crop and flip where the data has them."""
        return self.views.weak(self.raw, self.uniform(self.views.weak_uniforms))

    def strong(self, strength: float = 1.0) -> Tensor:
        """A new strongly augmented view; a strength of 1 is full, and 0 leaves the weak view."""
        return self.views.strong(self.raw, self.uniform(self.views.strong_uniforms), strength)

    def everyone(self, *columns: Tensor) -> tuple[Tensor, ...]:
        """The rows of all processes, in their order, for what is decided or mixed over the global batch."""
        return gather(*columns, sizes=self.shares) if processes() > 1 else columns

    @property
    def mine(self) -> slice:
        """Which rows of the global batch are these."""
        before = sum(self.shares[: rank()])
        return slice(before, before + len(self.index))


class Seen(NamedTuple):
    """What one epoch showed of each instance."""

    margin: Tensor  # (n,) its margin, the mean over its visits
    mask: Tensor  # (n,) whether it was visited at all; elsewhere the margin means nothing
    rival: Tensor  # (n,) the class the margin of its last visit was measured against


TRAINERS = ("outputs", "draws", "start", "prepare", "predict", "optimizers", "lr")
"""What only our Trainer calls: a method that changes one of these needs it, unless it says where (`trainer_where`)."""
NAMELESS = "so nothing is learnt about any instance: call criterion(outputs, y, index)"
"""What comes of batches without their index."""
MOST_EPOCHS = torch.iinfo(torch.int16).max
"""Epochs are remembered of each instance, in two bytes."""


def margins(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """`z_y - max over j != y of z_j`, and the class j it was measured against.  (m, classes), (m,) -> (m,), (m,)"""
    own = logits.gather(1, y[:, None]).squeeze(1)
    best, rival = logits.scatter(1, y[:, None], -torch.inf).max(dim=1)
    return own - best, rival


def weighted_mean(costs: Tensor, weight: Tensor) -> Tensor:
    """`sum(w c) / sum(w)`; 0, with zero gradient, when every weight is 0. A cost without weight may be infinite."""
    return (torch.where(weight > 0, costs, 0) * shares_of(weight)).sum()


def shares_of(weight: Tensor) -> Tensor:
    """Each weight's share of their sum; 0 when every weight is 0."""
    total = weight.sum()
    return weight / torch.where(total > 0, total, 1)


def running_majority(leader: Tensor, lead: Tensor, vote: Tensor, votes: Tensor) -> tuple[Tensor, Tensor]:
    """Boyer and Moore's: of one more vote, where `votes` says that there is one, who leads now and by how much.

    A class that had more than half of all votes is the leader, and nothing else need be remembered. A lead ends at the
    largest number of its type.  (n,) each
    """
    most = torch.iinfo(lead.dtype).max
    now = torch.where(leader == vote, lead.clamp(max=most - 1) + 1, lead - 1)
    now = torch.where(votes, now, lead)
    return torch.where(now < 0, vote, leader), now.clamp(min=0)


def numbers_of(classes: int) -> torch.dtype:
    """The type that holds the number of a class, and -1, for each of very many instances."""
    return torch.int16 if classes - 1 <= torch.iinfo(torch.int16).max else torch.int32


class Method(Memory):
    """A criterion that remembers each of `n` instances; `epochs`, where known, helps methods that plan ahead.

    What it remembers is kept in tensors made with `remember` (see `marvel.memory`).
    """

    networks = 1
    """How many networks it trains."""
    averaged = 0
    """How many moving averages of the network it keeps; they come after the trained ones in `networks`."""
    decay = 0.999
    """How slowly the averages follow; 1: not at all, for a method that sets them itself."""
    answers = 0
    """Which of them, trained or averaged, answers: `predict` asks it, and a run keeps it at its end."""
    averages_train = False
    """Whether the averages too are shown training batches: then they normalise over these, as in training, and keep
    BatchNorm statistics of their own. By default they are in evaluation mode and follow the network's statistics."""
    needs: tuple[str, ...] = ()
    """What it must be told about the noise: `noise_rate`, `clean`."""
    needs_with: ClassVar[Mapping[tuple[str, Any], tuple[str, ...]]] = {}
    """What it must be told besides, where an option is set to a value: {("form", "dd"): ("clean",)}."""
    trainer_where = ""
    """When alone it needs our Trainer, for a method that otherwise works in any loop: "truncate > 0"."""
    skips_removed = False
    """Whether removed instances leave the batches. By default they stay, without weight, as in Algorithm 1."""

    weight: Tensor  # (n,) what each instance is worth in the loss
    removed_at: Tensor  # (n,) the epoch it was given up in; 0: kept
    quality: Tensor  # (n,) its mean margin so far; low: suspect
    rival: Tensor  # (n,) the class its margin lost to most often: the label to suggest; -1: to none
    lead: Tensor  # (n,) by how many epochs that class leads
    lost_to: Tensor  # (n,) the class this epoch's margin was measured against
    epochs_seen: Tensor  # (n,) in how many epochs it was visited
    clock: Tensor  # 0-d, the epoch now running, for steps that a graph has captured

    def __init__(self, n: int, classes: int, epochs: int | None = None) -> None:
        super().__init__()
        check_count("n", n, 1, "the number of training instances")
        check_count("classes", classes, 2, "the number of classes")
        if epochs is not None:
            check_count("epochs", epochs, 1, "the number of epochs of the training")
        self._check_epochs(epochs or 1)
        self.n, self.classes, self.epochs = n, classes, epochs
        self.epoch = 1
        self.checks = True
        """Whether labels and indices are checked at every call; the Trainer, which made them, checks once."""
        self.aside: Callable[..., AbstractContextManager[Any]] = _at_once
        """Where notes are taken, given the tensors they read; a captured step takes them on another stream."""
        self.ahead: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Where that is done which the outputs are not needed for; a captured step does it beside the network."""
        self.foreseen = type(self).worth is Method.worth
        """Whether `worth` reads the index alone."""
        self.validation: float | None = None
        """The accuracy on a clean validation set that the last `step` was told."""
        self.shares: list[int] | None = None
        """How many instances each process has in this step, where that is known; else they ask one another."""
        self.watchers: list[Callable[[Method, Seen], None]] = []
        """Told at the end of every `step` what the epoch showed; `marvel.keep_ledger` adds one."""
        self._visited = 0
        self._nameless = 0
        self._warned = False

        self.remember("clock", torch.tensor(1))
        self.remember("weight", torch.ones(n))
        self.remember("removed_at", torch.zeros(n, dtype=torch.int16))
        self.remember("quality", torch.zeros(n))
        self.remember("epochs_seen", torch.zeros(n, dtype=torch.int16))
        self.remember("rival", torch.full((n,), -1, dtype=numbers_of(classes)))
        self.remember("lead", torch.zeros(n, dtype=torch.int8))
        self.remember("margin", torch.zeros(n), each_epoch=True)
        self.remember("visits", torch.zeros(n, dtype=torch.int16), each_epoch=True)
        self.remember("lost_to", torch.zeros(n, dtype=numbers_of(classes)), each_epoch=True)
        self.remember("faults", torch.zeros(2, dtype=torch.int64), each_epoch=True)  # bad labels, bad indices
        self.remember("idle", torch.zeros((), dtype=torch.int64))  # batches in which no instance had weight

    # ------------------------------------------------------------ what a paper changes, from least to most

    def cost(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        """One cost per instance, (m,). Default: cross entropy."""
        return F.cross_entropy(logits, y, reduction="none")

    def worth(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        """What each instance of the batch is worth, (m,). Default: its stored weight."""
        return self.weight[index]

    def loss(self, outputs: Outputs, y: Tensor, index: Tensor) -> Tensor:
        """The batch's loss. Default: the mean of the costs, weighted by what each is worth."""
        return weighted_mean(self.cost(self.followed(outputs), y, index), self.worth(outputs, y, index))

    def update(self, seen: Seen) -> None:
        """Once an epoch, on `(n,)` vectors: what the epoch just seen changes."""

    def outputs(self, networks: Networks, *batches: Batch) -> Outputs:
        """What goes through which network, in which view. Default: the batch through the network."""
        return networks[0](batches[0].x)

    def draws(self, generator: torch.Generator, size: int) -> Iterable[Tensor | tuple[Tensor, ...]]:
        """The steps of an epoch: one list of indices a step, or several. Default: a permutation, cut into batches."""
        order = torch.randperm(self.n, generator=generator)
        if self.skips_removed:
            order = order[~self.removed.cpu()[order]]
        return batches_of(order, size) if len(order) > 1 or not self.skips_removed else []

    def start(self, trainer: "Trainer") -> Steps | None:
        """Before each epoch; a generator where it takes long."""
        return None

    def prepare(self, trainer: "Trainer") -> Steps | None:
        """Trainings that come before; a generator that yields once a step."""
        return None

    def lr(self, scheduled: float) -> float:
        """The learning rate of the epoch that begins, given the one the settings say."""
        return scheduled

    def predict(self, networks: Networks, x: Tensor) -> Tensor:
        """The logits of instances."""
        logits: Tensor = networks[self.answers](x)
        return logits

    def judged(self, networks: Networks, x: Tensor) -> Tensor:
        """The logits that accuracies are of, (m, k, classes): the mean accuracy of k. Default: of `predict`, alone."""
        return self.predict(networks, x)[:, None]

    def following(self) -> float | Tensor:
        """How slowly the averages follow in this step; a 0-d tensor where that is not always `decay`."""
        return self.decay

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Its own, for what it learns about instances; stepped and saved by the Trainer."""
        return []

    # ------------------------------------------------------------ what authors use

    def followed(self, outputs: Outputs) -> Tensor:
        """The logits whose margins the ledger follows. Default: the outputs, or the first of them."""
        logits: Tensor = outputs[0] if isinstance(outputs, tuple | list) else outputs
        return logits

    def record(self, index: Tensor, margin: Tensor, rival: Tensor) -> None:
        """Note what the global batch showed, (m,) each, without waiting for the device."""
        self.margin.index_add_(0, index, margin)
        self.visits.index_add_(0, index, torch.ones_like(index, dtype=torch.int16))
        self.lost_to.index_copy_(0, index, rival.to(self.lost_to.dtype))

    def remove(self, which: Tensor) -> None:
        """Give up the instances of the mask `which` (n,), for good."""
        self.removed_at = torch.where(which & ~self.removed, self.epoch, self.removed_at)
        self.weight = torch.where(self.removed, 0, self.weight)

    def take_back(self, which: Tensor) -> None:
        """Keep the removed instances of the mask `which` (n,) again, under their given labels."""
        which = which & self.removed
        self.removed_at = torch.where(which, 0, self.removed_at)
        self.weight = torch.where(which, 1, self.weight)

    # ------------------------------------------------------------ what callers use

    @property
    def removed(self) -> Tensor:
        """(n,) which instances were given up as mislabelled. Apart from `weight`: a tiny weight is no removal."""
        return self.removed_at > 0

    @property
    def soonest(self) -> int:
        """The first epoch at whose end an instance may be removed."""
        return 1

    @property
    def returned_at(self) -> Tensor | None:
        """(n,) the epoch each instance was last taken back in, 0: never; None where removal is for good."""
        return None

    @property
    def suggested(self) -> Tensor:
        """(n,) the label to suggest for each instance; -1: none."""
        return self.rival

    @property
    def competitor(self) -> Tensor | None:
        """(n,) the likeliest class but for the given one, where the method knows more than its margins' rivals."""
        return None

    @property
    def used(self) -> Tensor:
        """(n,) what each instance counted for in the loss of the last epoch. Default: its weight."""
        return self.weight

    @property
    def label_quality(self) -> Tensor:
        """(n,) the quality between 0 and 1, low = suspect, as other tools print it."""
        return self.quality.sigmoid()

    def strangers(self, labels: Tensor) -> Tensor:
        """(n,) which of these labels the training cannot have had: the class that margins were measured against."""
        return self.rival.cpu() == labels.cpu()

    @property
    def chosen(self) -> dict[str, float]:
        """What the method chose by itself so far, for the log and the record."""
        return {}

    @property
    def of_costs(self) -> bool:
        """Whether its loss is the weighted mean of its costs, and no more."""
        return type(self).loss is Method.loss

    @classmethod
    def needed(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """What it must be told about the noise, given its options."""
        more = (needs for (name, value), needs in cls.needs_with.items() if options.get(name) == value)
        return sum(more, cls.needs)

    def left_out(self) -> list[str]:
        """What of it a loop of one's own leaves out, since our Trainer alone calls it."""
        return needs_trainer_for(type(self))

    def forward(self, outputs: Outputs, y: Tensor, index: Tensor | None = None, reduction: str = "mean") -> Tensor:
        """The loss of a batch; notes its margins on the way.

        In `eval()` mode, or without an index, it is the plain mean of the costs and nothing is noted. With
        `reduction="none"` it is the weighted cost of each instance, for those who combine the costs themselves; a
        method whose loss is not of costs refuses it. Of a model that puts out a dict, the logits are its "logits".
        """
        if reduction not in ("mean", "none"):
            raise InvalidInput(f"reduction is 'mean' or 'none', got {reduction!r}")
        if isinstance(outputs, Mapping) and "logits" in outputs:
            outputs = outputs["logits"]
        outputs = in_single_precision(two_logits(outputs) if self.classes == 2 else outputs)
        logits = self.followed(outputs)
        if not self.training:
            index = None  # of another set, as a rule
        if self.checks:
            y, index = self._check(logits, y, index)
            self._check_use(outputs, index)
        if index is None:
            costs = self._costs(logits, y, None)
            return costs if reduction == "none" else costs.mean()
        if reduction == "none" and not (self.of_costs if processes() == 1 else type(self).loss is Method.loss):
            raise InvalidInput(
                f"the loss of {type(self).__name__} is one of the whole batch, not of costs of instances: leave out "
                "reduction='none'"
            )
        if reduction == "mean" and type(self).loss is not Method.loss:
            if processes() > 1:
                outputs, y, index = self._everyone(outputs, y, index)
            self._note(self.followed(outputs), y, index)
            return self.loss(outputs, y, index)
        # Where one cost per instance says it all, only costs travel between processes, not outputs.
        with self.ahead() if self.foreseen else nullcontext():
            worth = self.worth(outputs, y, index)
            without, share = (worth <= 0)[:, None], shares_of(worth)
        # An instance without weight may have an infinite cost: cut off, it cannot send 0 x inf back.
        costs = self._costs(logits.masked_fill(without, 0), y, index)
        if processes() == 1:
            self._note(logits, y, index, worth)
            # Cut off, no cost is infinite: that saves a third of `weighted_mean`'s kernels.
            return costs * worth if reduction == "none" else (costs * share).sum()
        own = torch.where(worth > 0, costs, 0) * worth
        costs, worth, margin, rival, index = gather(
            costs, worth, *margins(logits.detach(), y), index, sizes=self.shares
        )
        self._record(index, margin, rival, worth)
        return own if reduction == "none" else weighted_mean(costs, worth)

    @torch.no_grad()
    def step(self, validation: float | None = None) -> Seen:
        """Once an epoch: let the method update, and begin the next epoch. Returns what the epoch showed.

        `validation`, the accuracy on a clean validation set where there is one, helps methods that look for their peak.
        """
        if self._nameless and not self._visited:
            warnings.warn(
                f"no batch of this epoch came with its index, {NAMELESS}",
                stacklevel=3,
            )
        elif self.checks and not self.training and not self.visits.any():
            warnings.warn(
                "the criterion was in eval() mode for the whole epoch, so nothing is learnt about any instance: call "
                "criterion.train() before you train on",
                stacklevel=3,
            )
        self._check_epochs(self.epoch)
        seen = Seen(self.margin / self.visits.clamp(min=1), self.visits > 0, self.lost_to.clone())
        self._raise_faults(seen)
        # The running mean over the epochs seen, the first excepted unless it is the only one.
        before = self.epochs_seen
        mean = torch.where(before <= 1, seen.margin, self.quality + (seen.margin - self.quality) / before.clamp(min=1))
        self.quality = torch.where(seen.mask, mean, self.quality)
        self.epochs_seen = before + seen.mask
        self._vote(seen)
        self.validation, soonest = validation, self.soonest if self.epoch > 1 else 1
        self.update(seen)
        if self.epochs and soonest <= self.epochs < self.soonest:
            warnings.warn(
                f"nothing can be removed before epoch {self.soonest}, and the training has {self.epochs}: shorten the "
                "warm-up or the wait, or train longer",
                stacklevel=3,
            )
        self.epoch += 1
        self.clock += 1
        self._visited, self._nameless = 0, 0
        self.forget_epoch()
        for watch in self.watchers:
            watch(self, seen)
        return seen

    def issues(
        self,
        labels: Tensor | Sequence[int],
        names: Sequence[str] | Mapping[int, str] | None = None,
        ids: Iterable[Any] | None = None,
    ) -> list[Issue]:
        """The instances whose labels look wrong, most suspect first: those removed, and those of negative quality.

        `labels` are the given labels (n,), as numbers; `names` the classes' names, in the order of the numbers, and
        `ids` the instances' own names.
        """
        return issues_of(self, labels, names, ids)

    # ------------------------------------------------------------ the machinery

    def _check_epochs(self, epoch: int) -> None:
        if epoch > MOST_EPOCHS:
            raise InvalidInput(
                f"a training has at most {MOST_EPOCHS:,} epochs, got {epoch:,}: call step() less often, after several "
                "rounds through the data"
            )

    def _note(self, logits: Tensor, y: Tensor, index: Tensor, worth: Tensor | None = None) -> None:
        """Nothing in the loss waits for the notes, so they may be taken beside it."""
        with self.aside(logits, y, index, worth):
            self._record(index, *margins(logits.detach(), y), worth)

    @torch.no_grad()
    def _record(self, index: Tensor, margin: Tensor, rival: Tensor, worth: Tensor | None) -> None:
        self.record(index, margin, rival)
        if worth is not None:
            self.idle += worth.sum() <= 0
        self._visited += len(index)
        if self.checks and self._visited - len(index) <= 2 * self.n < self._visited:
            warnings.warn(
                f"{self._visited} visits to {self.n} instances without a step(): call criterion.step() once an epoch",
                stacklevel=7,
            )

    def _vote(self, seen: Seen) -> None:
        """Keep the class that most margins were lost to."""
        lost = seen.mask & (seen.margin < 0)
        self.rival, self.lead = running_majority(self.rival, self.lead, self.lost_to, lost)

    def _costs(self, logits: Tensor, y: Tensor, index: Tensor | None) -> Tensor:
        costs = self.cost(logits, y, index)
        if costs.shape != y.shape:
            raise InvalidInput(
                f"a cost gives one number for each of the {len(y)} instances, got shape {tuple(costs.shape)}; "
                'torch\'s losses do with reduction="none"'
            )
        return costs

    def _check(self, logits: Any, y: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What is wrong on a GPU is raised by `step`."""
        check_logits(logits, self.classes)
        y = check_numbers("label", y, logits, self.classes, self.faults[0])
        return y, None if index is None else check_numbers("index", index, logits, self.n, self.faults[1])

    def _check_use(self, outputs: Outputs, index: Tensor | None) -> None:
        """Say what looks like a mistake in the loop around: no error would, and nothing or nonsense would be learnt."""
        if not self.training:
            return
        left_out = self.left_out()
        if "outputs" in left_out and isinstance(outputs, Tensor) and index is not None:
            raise InvalidInput(
                f"{type(self).__name__} learns from more than the logits of a batch: its outputs() makes that, and "
                "marvel.run.train calls it; `marvel methods` says which methods work in any loop"
            )
        if left_out and "outputs" not in left_out and not self._warned:
            self._warned = True
            parts = " and ".join(f"{name}()" for name in left_out)
            warnings.warn(
                f"{type(self).__name__} does part of its work in {parts}, which marvel.run.train calls and a loop of "
                "one's own does not: nothing of that is done here",
                stacklevel=5,
            )
        if index is None:
            m = len(self.followed(outputs))
            self._nameless += m
            if not self._visited and self._nameless - m <= 2 * self.n < self._nameless:
                warnings.warn(f"{self._nameless} instances came without their index, {NAMELESS}", stacklevel=5)
        elif not torch.is_grad_enabled():
            warnings.warn(
                "a batch with its index came without gradients, and is noted as one of training: call criterion.eval() "
                "before you evaluate, and criterion.train() after it",
                stacklevel=5,
            )

    def _everyone(self, outputs: Outputs, y: Tensor, index: Tensor) -> tuple[Outputs, Tensor, Tensor]:
        """The global batch."""
        leaves, form = tree_flatten(outputs)
        *leaves, y, index = gather(*leaves, y, index, sizes=self.shares)
        return tree_unflatten(leaves, form), y, index

    def _raise_faults(self, seen: Seen) -> None:
        labels, indices = self.faults.tolist()
        if labels or indices:
            raise InvalidInput(
                f"epoch {self.epoch} had {amount(labels, 'label')} outside 0..{self.classes - 1} "
                f"and {amount(indices, 'index', 'indices')} outside 0..{self.n - 1}"
            )
        lost = seen.mask & ~seen.margin.isfinite()
        if lost.any():
            first = lost.nonzero().squeeze(1)[:5].tolist()
            raise NonFinite(
                f"the network put out NaN or infinity for {amount(int(lost.sum()), 'instance')} in epoch {self.epoch} "
                f"(index {', '.join(map(str, first))}, ...); lower the learning rate or look at these inputs"
            )

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.epoch = int(self.clock)
        self._visited, self._nameless = int(self.visits.sum()), 0


def needs_trainer_for(kind: type[Method]) -> list[str]:
    """What a kind of method changes of that which only our Trainer calls."""
    return [name for name in TRAINERS if getattr(kind, name) is not getattr(Method, name)]


def _at_once(*read: Tensor | None) -> AbstractContextManager[Any]:
    return nullcontext()
