"""Cross entropy: what everybody does, and what memorises wrong labels.

    loss = mean of -log p_y

Departures: none.
"""

from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


class CE(Method):
    """Plain cross entropy: the base class as it is. Its ledger still follows the margins."""


class Part(CE):
    """Cross entropy on the instances of the mask `kept` (n,) alone, for the stages of other methods."""

    skips_removed = True

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, kept: Tensor) -> None:
        super().__init__(n, classes, epochs)
        if kept.shape != (n,) or not kept.any():
            raise InvalidInput(f"kept must mark at least one of the {n} instances")
        self.remove(~kept.cpu())
