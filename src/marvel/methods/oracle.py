"""Oracle: cross entropy on the correctly labelled instances alone, the ceiling of any method that only removes.

It is told which labels are right and drops the others before the first epoch; the epoch shrinks with them, and the
rest of the protocol stays as it is.
"""

from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


class Oracle(Method):
    """`clean`: (n,) mask, True where the given label is right."""

    needs = ("clean",)
    skips_removed = True

    def __init__(self, n: int, classes: int, epochs: int | None = None, *, clean: Tensor) -> None:
        super().__init__(n, classes, epochs)
        if clean.shape != (n,) or not clean.any():
            raise InvalidInput(f"clean must mark at least one of the {n} instances as rightly labelled")
        self.remove(~clean.bool())
