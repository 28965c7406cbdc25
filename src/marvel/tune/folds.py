"""Which instances are held out, with their given labels: no clean label is looked at."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from marvel.config import Config
from marvel.data.core import Data
from marvel.errors import InvalidInput
from marvel.plan import seed_of
from marvel.run import corrupt


def deal(labels: npt.NDArray[np.int64], folds: int, seed: int) -> npt.NDArray[np.int64]:
    """(n,) the fold each instance is held out in, 0 to folds - 1: every class is dealt out evenly, in random order."""
    if not 2 <= folds <= len(labels):
        raise InvalidInput(f"{len(labels)} instances can be dealt into 2 to {len(labels)} folds, got {folds}")
    found = np.empty(len(labels), dtype=np.int64)
    found[_by_class(labels, seed)] = np.arange(len(labels)) % folds
    return found


def hold(labels: npt.NDArray[np.int64], share: float, seed: int) -> npt.NDArray[np.int64]:
    """(n,) 0 where an instance is held out, else 1: this share of every class. A quarter is as a fold of four."""
    passed = np.floor(np.arange(-1, len(labels)) * share + 1e-9)
    found = np.empty(len(labels), dtype=np.int64)
    found[_by_class(labels, seed)] = np.where(np.diff(passed) > 0, 0, 1)
    return found


def _by_class(labels: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
    """All instances, class after class, each in random order."""
    order = np.random.default_rng(seed_of(seed, "folds")).permutation(len(labels))
    return order[np.argsort(labels[order], kind="stable")]


class Folds:
    """A training set with its noise, dealt into folds; with `share` into two, of which that is the first."""

    def __init__(self, config: Config, data: Data, count: int, share: float | None = None) -> None:
        self.data = data
        self.given = torch.from_numpy(corrupt(config, data).labels)
        self.truth = data.y if data.clean is None else data.clean
        self.known = config.noise != "none" or data.clean is not None
        labels = self.given.numpy()
        dealt = deal(labels, count, config.seed) if share is None else hold(labels, share, config.seed)
        self.fold = torch.from_numpy(dealt)
        self._made: dict[int, Data] = {}

    def without(self, fold: int) -> Data:
        """The instances of the other folds to train on; those of this one, with their given labels, to judge by."""
        if fold not in self._made:
            inside = (self.fold != fold).nonzero().squeeze(1)
            outside = (self.fold == fold).nonzero().squeeze(1)
            labelled = replace(self.data, y=self.given, clean=self.truth if self.known else None)
            self._made[fold] = replace(labelled.take(inside), test_x=self.data.x[outside], test_y=self.given[outside])
        return self._made[fold]


def settings_of_fold(config: Config) -> Config:
    """The noise is in the labels already, and the last epoch counts."""
    return config.but(
        noise="none",
        rate=0.0,
        rates=(),
        noise_file=None,
        hold_out=0.0,
        protocol="final",
        ledger=False,
        checkpoint_every=0,
    )
