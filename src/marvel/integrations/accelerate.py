"""Accelerate: `attach` gives a criterion to an `Accelerator`, whose loop stays yours.

    criterion = attach(accelerator, Marvel(n, classes, epochs))

The criterion is then on the accelerator's device and a part of `save_state` and `load_state`. It could be registered
with `accelerator.register_for_checkpointing(criterion)` too; Accelerate keeps such objects in pickles, which run code
when they are read, so here it is a safetensors file.
"""

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from marvel.distributed import writes_files
from marvel.errors import InvalidInput
from marvel.integrations.state import read_criterion, write_criterion
from marvel.method import Method

M = TypeVar("M", bound=Method)

ATTACHED: WeakKeyDictionary[Any, Method] = WeakKeyDictionary()
"""Which accelerator has which criterion in its checkpoints, under the one name there is for it."""


def attach(accelerator: Any, criterion: M) -> M:
    """Move the criterion to the accelerator's device, and let its checkpoints hold it. Returns the criterion."""
    if accelerator.num_processes > 1 and not accelerator.even_batches:
        raise InvalidInput(
            "even_batches=False lets processes take different numbers of steps, and the criterion waits for all of "
            "them in each: leave it out; instances that are repeated to fill up count once"
        )
    if ATTACHED.setdefault(accelerator, criterion) is not criterion:
        raise InvalidInput(
            "this accelerator has a criterion already, and its checkpoints hold one: make a new Accelerator, or let it "
            "keep the second as a pickle, accelerator.register_for_checkpointing(criterion)"
        )

    def save(models: Any, weights: Any, folder: str) -> None:
        if writes_files():
            write_criterion(criterion, folder)

    def load(models: Any, folder: str) -> None:
        read_criterion(criterion, folder)

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)
    return criterion.to(accelerator.device)
