"""Oracle: cross entropy on the correctly labelled instances alone, the ceiling of any method that only removes.

It is told which labels are right and drops the others before the first epoch; the epoch shrinks with them, and the
rest of the protocol stays as it is. The paper does not say whether its epochs shrank: with `skip_removed=False` they do
not, and wrong labels stay in the batches without weight, as what MARVEL removes does.
"""

from torch import Tensor

from marvel.errors import InvalidInput
from marvel.method import Method


class Oracle(Method):
    """`clean`: (n,) mask, True where the given label is right; `skip_removed`: False keeps the others in the batches,
    without weight, so that an epoch has as many steps as any method's."""

    needs = ("clean",)

    def __init__(
        self, n: int, classes: int, epochs: int | None = None, *, clean: Tensor, skip_removed: bool = True
    ) -> None:
        super().__init__(n, classes, epochs)
        if clean.shape != (n,) or not clean.any():
            raise InvalidInput(f"clean must mark at least one of the {n} instances as rightly labelled")
        self.skips_removed = skip_removed
        self.remove(~clean.bool())
