"""Ways of running a step, and of running runs side by side. The trainer, the methods and the run folders stay the same."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from marvel.method import Method
from marvel.plan import Plan

if TYPE_CHECKING:
    from marvel.trainer import Trainer

Stepper: TypeAlias = Any


def stepper(trainer: "Trainer", method: Method) -> Stepper:
    return None


def steps(trainer: "Trainer", method: Method, plan: Plan) -> Iterator[None]:
    """The steps of an epoch, one by one."""
    for batches in plan.batches(trainer.source, trainer.views, trainer.y):
        trainer.total += trainer.train_step(method, batches)
        yield


def pack(*runs: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Let runs take turns, a step each, until all have ended: (which run, what it yielded)."""
    waiting = dict(enumerate(runs))
    while waiting:
        for which, run in list(waiting.items()):
            try:
                yield which, next(run)
            except StopIteration:
                del waiting[which]
