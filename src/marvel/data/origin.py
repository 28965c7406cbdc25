"""Where instances came from, so that they can be shown and written back, and what was not trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marvel.errors import DataError, FolderError

KINDS = ("folder", "listed", "shards", "paths", "table", "arrays", "huggingface", "kept")

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Origin:
    """The file or folder that instances were read from.

    kind    "folder" (of class folders), "listed" (images that lists of a known dataset name), "shards" (what `marvel
            data prepare` wrote), "paths" (a table that names images), "table" (of features), "arrays", "huggingface",
            or "kept": what a loop of one's own trained on, the most suspect of it kept in the run folder
    path    of the file or folder, absolute
    label   the column or array the labels were in
    paths   the column with the images' paths
    id      the column or array that names the instances
    labels  the file of labels that belongs to an .npy file, absolute
    part    the part that is trained on: a folder ("train") or a split
    rows    for each training instance its row in the source, counted from 0; of a folder, its place among the images
    """

    kind: str
    path: str
    label: str | None = None
    paths: str | None = None
    id: str | None = None
    labels: str | None = None
    part: str | None = None
    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"data comes from one of {', '.join(KINDS)}, given '{self.kind}'")

    def facts(self) -> dict[str, str | None]:
        """For JSON; the rows are in instances.parquet."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "rows"}

    @classmethod
    def of(cls, facts: Mapping[str, Any], rows: Sequence[int] | npt.NDArray[Any] = ()) -> "Origin":
        """From what `facts` said."""
        known = {one.name for one in fields(cls)} - {"rows"}
        wrong = [key for key, value in facts.items() if key not in known or not isinstance(value, str | None)]
        if wrong or "kind" not in facts or facts.get("path") is None:
            raise DataError(f"this says nothing of where data came from: {dict(facts)}")
        return cls(**facts, rows=np.asarray(rows, dtype=np.int64))

    def at(self, rows: npt.NDArray[Any]) -> "Origin":
        """The same source, other rows of it."""
        return replace(self, rows=np.asarray(rows, dtype=np.int64))

    def check_outside(self, folder: Path) -> None:
        """A folder that is written must not lie in a folder of data: the next reader would take it for a class."""
        source = Path(self.path).resolve()
        inside = folder.absolute().parent.resolve() / folder.absolute().name
        if source.is_dir() and inside.is_relative_to(source):
            raise FolderError(f"{folder} lies inside the data itself, {source}: name a folder elsewhere with --out")


@dataclass(frozen=True)
class SetAside:
    """An instance that is not trained on, and why. `row` is None where it is not of the training part."""

    id: str
    reason: str
    row: int | None = None
