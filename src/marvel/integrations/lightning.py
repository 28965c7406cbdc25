"""Lightning, as `lightning` or as `pytorch-lightning`: `MarvelCallback` does for a criterion what the loop must.

    class Net(LightningModule):
        def __init__(self):
            ...
            self.criterion = Marvel(n, classes, epochs)         # was: nn.CrossEntropyLoss()

    trainer = Trainer(max_epochs=epochs, callbacks=[MarvelCallback(feed_index=True)])
    trainer.fit(net, DataLoader(Indexed(dataset), shuffle=True))

It steps the criterion once an epoch and keeps what it remembers in the Trainer's checkpoints. With `feed_index` it also
takes the index out of each training batch and gives it to the criterion, so that `training_step` sees the batches it
always saw; without, `training_step` says `self.criterion(logits, y, index)` itself.
"""

import copy
import importlib
import sys
from collections.abc import Callable, MutableMapping
from functools import wraps
from typing import Any

from torch import Tensor

from marvel.distributed import processes
from marvel.errors import InvalidInput, MissingExtra
from marvel.integrations.tracking import numbers, summary
from marvel.method import Method

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The same framework under two names; its classes are two, and a Trainer of the one wants callbacks of its own."""


class MarvelCallback:
    """Steps the criterion at the end of every training epoch, and saves it with the Trainer's checkpoints.

    `criterion`: where it is not a part of the LightningModule; else it is found there.
    `feed_index`: batches are `(index, ...)` or dicts with "index", and the index goes past `training_step` to the
    criterion.

    An object of this class is also a `Callback` of whichever Lightning was imported.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "MarvelCallback":
        made: MarvelCallback = object.__new__(_joined(cls, _bases()))
        return made

    def __init__(self, criterion: Method | None = None, *, feed_index: bool = False) -> None:
        self.criterion, self.feed_index = criterion, feed_index
        self.inside = criterion is None
        """Whether the criterion is a part of the LightningModule, which then saves, moves and switches it."""
        self.open: int | None = None
        """The epoch whose visits await their step. Lightning may save, and go on from, a state after the last batch of
        an epoch and before its end; then the step is made up for."""
        self.index: Any = None
        self.undo: list[Callable[[], None]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self).__mro__[1], None if self.inside else self.criterion, self.feed_index)

    # ------------------------------------------------------------ the epochs

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Here, and not when the training starts: Lightning's tuners train before that, without its callbacks."""
        if stage != "fit":
            return
        if self.inside:
            self.criterion = _criterion_of(pl_module)
        assert self.criterion is not None
        if self.feed_index and not self.undo:
            self._feed(self.criterion, pl_module)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        assert self.criterion is not None
        if not self.inside:
            self.criterion.to(pl_module.device)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.criterion is not None
        if self.open == trainer.current_epoch:
            return
        # Not in on_train_epoch_start, which Lightning leaves out where it goes on within an epoch.
        if self.open is not None:
            self._step()
        self.open = trainer.current_epoch
        if not self.inside:
            self.criterion.train()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        metrics = numbers({"marvel": self._step()})
        pl_module.log_dict({name: float(value) for name, value in metrics.items()}, sync_dist=processes() > 1)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self.open is not None:  # gone on from the very end of the last epoch: nothing was left to train
            self._step()
        self._unfeed()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._unfeed()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if not self.inside and self.criterion is not None:
            self.criterion.eval()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not self.inside and self.criterion is not None:
            self.criterion.train(self.open is not None)

    def _step(self) -> dict[str, float]:
        assert self.criterion is not None
        if not self.criterion.visits.any():
            raise InvalidInput(
                "the epoch is over and the criterion was given no index: wrap the training set in marvel.Indexed, and "
                "call criterion(logits, y, index) in training_step, or use MarvelCallback(feed_index=True)"
            )
        self.open = None
        return summary(self.criterion, self.criterion.step())

    # ------------------------------------------------------------ checkpoints

    @property
    def state_key(self) -> str:
        return "marvel"

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"open": self.open}
        if not self.inside and self.criterion is not None:
            state["criterion"] = dict(self.criterion.state_dict())
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.open = state_dict["open"]
        if self.criterion is not None and "criterion" in state_dict:
            self.criterion.load_state_dict(state_dict["criterion"])

    # ------------------------------------------------------------ the way of the index

    def _feed(self, criterion: Method, pl_module: Any) -> None:
        """Lead the index around `training_step`, to the criterion it calls."""
        plain = pl_module.training_step

        @wraps(plain)
        def training_step(batch: Any, *args: Any, **kwargs: Any) -> Any:
            self.index, rest = _apart(batch)
            try:
                return plain(rest, *args, **kwargs)
            finally:
                self.index = None

        def give(module: Method, args: Any, kwargs: Any) -> Any:
            if self.index is None or len(args) > 2 or kwargs.get("index") is not None:
                return None
            return args, {**kwargs, "index": self.index}

        pl_module.training_step = training_step
        handle = criterion.register_forward_pre_hook(give, with_kwargs=True)
        self.undo = [handle.remove, lambda: delattr(pl_module, "training_step")]

    def _unfeed(self) -> None:
        while self.undo:
            self.undo.pop()()


def _apart(batch: Any) -> tuple[Any, Any]:
    """The index, and the batch without it."""
    if isinstance(batch, MutableMapping) and "index" in batch:
        rest = copy.copy(batch)  # of its own class: that of a tokenizer has more than its items
        return rest.pop("index"), rest
    if isinstance(batch, list | tuple) and len(batch) > 1 and _may_be_index(batch[0]):
        return batch[0], type(batch)(batch[1:])
    raise InvalidInput(
        f"feed_index needs batches (index, ...) or dicts with 'index', got {_shown(batch)}: "
        "wrap the training set in marvel.Indexed"
    )


def _may_be_index(first: Any) -> bool:
    return isinstance(first, Tensor) and first.ndim == 1 and not first.is_floating_point()


def _shown(batch: Any) -> str:
    if not isinstance(batch, list | tuple):
        return type(batch).__name__
    parts = [f"{tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__ for part in batch]
    return f"a {type(batch).__name__} of {', '.join(parts)}"


def _criterion_of(pl_module: Any) -> Method:
    found = [module for module in pl_module.modules() if isinstance(module, Method)]
    if len(found) != 1:
        raise InvalidInput(
            f"{type(pl_module).__name__} holds {len(found)} criteria of Marvel's, expected one: set one in its "
            "__init__ (self.criterion = Marvel(...)), or say which with MarvelCallback(criterion)"
        )
    return found[0]


# ------------------------------------------------------------ two frameworks of one kind


def _bases() -> tuple[type, ...]:
    """The Callback classes of the Lightnings in use; of the one that is installed, where none is imported yet."""
    names = [name for name in PACKAGES if name in sys.modules]
    for name in PACKAGES if not names else ():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("lightning", "pytorch_lightning"):
                raise
        else:
            names = [name]
            break
    if not names:
        raise MissingExtra("MarvelCallback", "pytorch-lightning (or lightning)", "lightning")
    return tuple(sys.modules[name].Callback for name in names)


def _joined(cls: type, bases: tuple[type, ...]) -> type:
    """The class, made a callback of these kinds."""
    return type(cls.__name__, (cls, *bases), {"__module__": cls.__module__, "__doc__": cls.__doc__})


def _again(cls: type[MarvelCallback], criterion: Method | None, feed_index: bool) -> MarvelCallback:
    """How a copy is made in another process, where the class joined above is not known."""
    return cls(criterion, feed_index=feed_index)
