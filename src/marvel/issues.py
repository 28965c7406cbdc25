"""The ranked list of a criterion: the instances whose labels look wrong, most suspect first."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.handed import outside

if TYPE_CHECKING:
    from marvel.method import Method

NOT_OF_TRAINING = (
    "{} labels are the very class that margins were measured against in training, so these are not the labels that the "
    "criterion was given: see that their order, and the numbers of the classes, are those of the training"
)
"""What is said of labels that the criterion has not seen."""


@dataclass(frozen=True)
class Issue:
    """One line of the ranked list: an instance whose label looks wrong."""

    index: int
    id: str
    given: str
    suggested: str
    quality: float
    removed_at: int  # the epoch it was removed in; 0: it was not


def issues_of(
    method: "Method",
    labels: Tensor | Sequence[int],
    names: Sequence[str] | Mapping[int, str] | None,
    ids: Iterable[Any] | None,
) -> list[Issue]:
    """See `Method.issues`."""
    given = _numbers(labels, method.n)
    if isinstance(names, Mapping):
        names = names_of(names, method.classes)
    ids = None if ids is None else list(ids)
    sizes = (("labels", given, method.n), ("ids", ids, method.n), ("names", names, method.classes))
    for what, values, size in sizes:
        if values is not None and len(values) != size:
            raise InvalidInput(f"expected {size} {what}, got {len(values)}")
    for label in given:
        if not 0 <= label < method.classes:
            raise InvalidInput(outside("label", label, method.classes))
    strangers = int(method.strangers(torch.tensor(given)).sum())
    if strangers:
        warnings.warn(NOT_OF_TRAINING.format(strangers), stacklevel=3)
    quality, suggested, removed_at = method.quality.tolist(), method.suggested.tolist(), method.removed_at.tolist()
    suspect = method.removed | ((method.quality < 0) & (method.epochs_seen > 0))
    ranked = sorted(suspect.nonzero().squeeze(1).tolist(), key=lambda i: (quality[i], i))

    def say(label: int) -> str:
        return "" if label < 0 else str(label) if names is None else str(names[label])

    return [
        Issue(i, str(i if ids is None else ids[i]), say(given[i]), say(suggested[i]), quality[i], removed_at[i])
        for i in ranked
    ]


def names_of(names: Mapping[int, str], classes: int) -> list[str]:
    """The classes' names in their order, of a dict from numbers to names, such as the `id2label` of a model."""
    if set(names) != set(range(classes)):
        raise InvalidInput(f"names of classes as a dict go from 0..{classes - 1} to names, got {names!r}")
    return [names[number] for number in range(classes)]


def _numbers(labels: Tensor | Sequence[int], n: int) -> list[int]:
    try:
        array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    except ValueError:  # of a dataset, say: its items have no one shape
        array = np.empty(len(labels), dtype=object)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInput(
            f"expected labels as {n} whole numbers, got shape {array.shape} of {array.dtype}: say them as the "
            "criterion was given them, and the classes' names as names=..."
        )
    numbers: list[int] = array.tolist()
    return numbers
