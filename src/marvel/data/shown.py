"""Instances as a person judges them: the picture, or the row of the table, as it was in the source.

What cannot be shown any more (a file that is gone, a damaged image) is None or a note, never an error: a page of a
thousand suspects must not fail for one.
"""

from collections.abc import Sequence
from typing import Protocol

from marvel.data.origin import Origin


class Instances(Protocol):
    """Instances to look at, by their index in the run."""

    n: int

    def picture(self, index: int, largest: int = 512) -> bytes | None:
        """A PNG or JPEG no larger than `largest` on either side; None where there is nothing to see."""
        ...

    def fields(self, index: int) -> dict[str, str]:
        """Column -> text; {} for images that come without any."""
        ...


def open_instances(origin: Origin, rows: Sequence[int], ids: Sequence[str]) -> Instances:
    """The instances of a run, in its order: `rows` and `ids` are columns of its instances.parquet."""
    raise NotImplementedError
