"""What docs/scale.md promises, from the tensors that the code itself makes: bytes, for n instances.

State, ledger, checkpoint and traffic are counted. `PROCESS`, `FIRST_GUESS` and `FINISHED` are bounds, chosen somewhat
above what runs of a million and of three million instances took; `python -m benchmarks --only million` holds the memory
of a real run against the promise.
"""

import torch

from marvel.ledger import Ledger
from marvel.method import Method
from marvel.methods import METHODS

MIB, GIB = 2**20, 2**30

PROCESS = 350 * MIB
"""Python, torch, pyarrow and matplotlib, before there is any data."""
FIRST_GUESS = 300 * MIB
"""Of `marvel clean`: what it takes to guess which classes are taken for which, from 20,000 instances at most."""
LABELS = 5 * 8
"""An instance: labels as read, as given, with canaries, as clean, and the row each came from; whole numbers."""
ORDER = 2 * 8
"""An instance: the permutation of an epoch, and the same cut into steps."""
NUMBER = 4
"""One random number of a view."""
FINISHED = 350
"""An instance, when the run is over: the columns of instances.parquet as arrays, as text and as a table."""
GATHERED = 3 * 4 + 2 * 8
"""Bytes an instance of the global batch that travel: cost, weight and margin, rival and index."""


def state(name: str = "marvel", classes: int = 10) -> float:
    """What the method remembers of an instance."""
    method = made(name, classes)
    return sum(t.nbytes for t in method.remembered().values() if t.shape[:1] == (method.n,)) / method.n


def ledger() -> float:
    """What the trainer writes down of an instance."""
    n = 1000
    kept = Ledger(torch.zeros(n, dtype=torch.int64), None).state()
    return sum(t.nbytes for t in kept.values() if t.shape[:1] == (n,)) / n


def made(name: str, classes: int = 10, n: int = 1000) -> Method:
    return METHODS[name](n, classes, 100)


def checkpoint(n: int, parameters: int, name: str = "marvel") -> float:
    """A file: the state, the ledger, and the network with its momentum. In mid-epoch it is the same size."""
    return n * (state(name) + ledger()) + 2 * 4 * parameters


def training(n: int, instance: float, uniforms: int = 0, name: str = "marvel", parameters: int = 0) -> float:
    """The most that a training takes whose data lies in memory: the state four times, since a checkpoint is put
    together beside it, and `step()` works on copies."""
    held = instance + LABELS + ORDER + NUMBER * uniforms
    return PROCESS + n * held + 4 * checkpoint(n, parameters, name)


def clean(n: int, instance: float, uniforms: int = 0) -> float:
    """The most that `marvel clean` takes: the training, or writing down what was found."""
    most = max(training(n, instance, uniforms), PROCESS + n * (instance + LABELS + state() + ledger() + FINISHED))
    return FIRST_GUESS + most
