"""What a loop hands to a criterion: brought to one form, and refused by name where it cannot be meant."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from marvel.errors import InvalidInput


def in_single_precision(outputs: Any) -> Any:
    """Whatever autocast made of them."""
    return tree_map_only(Tensor, lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, outputs)


def two_logits(outputs: Any) -> Any:
    """One logit f of a binary problem becomes the two logits (0, f): the same margins, weights and loss."""
    if not isinstance(outputs, Tensor) or (outputs.ndim > 1 and outputs.shape[1] != 1):
        return outputs
    f = outputs.reshape(-1, 1)
    return torch.cat([torch.zeros_like(f), f], dim=1)


def is_whole(value: Any, least: int) -> bool:
    """Whether it is a whole number, Python's or numpy's, of `least` or more; what is true or false is none."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def check_count(name: str, value: Any, least: int, meaning: str) -> None:
    if not is_whole(value, least):
        shown = repr(value) if isinstance(value, int | float | str) else type(value).__name__
        raise InvalidInput(f"{name} is {meaning}, a whole number of {least} or more, got {shown}")


def check_logits(logits: Any, classes: int) -> None:
    if not isinstance(logits, Tensor):
        among = f" with {', '.join(map(str, logits))}" if isinstance(logits, Mapping) else ""
        raise InvalidInput(f"expected logits as a tensor, got {type(logits).__name__}{among}")
    if not logits.is_floating_point() or logits.ndim != 2 or logits.shape[1] != classes:
        raise InvalidInput(f"expected logits of shape (m, {classes}), got {tuple(logits.shape)} of {logits.dtype}")


def check_numbers(name: str, numbers: Tensor, logits: Tensor, end: int, faults: Tensor) -> Tensor:
    """Labels or indices, one a row of the logits, where these are and below `end`.

    Their shape is looked at at once; their values at once on the CPU. On a GPU, which looking would stall, those that
    are outside are added to `faults` and brought inside.
    """
    m, many = len(logits), {"label": "labels"}.get(name, name)
    if not isinstance(numbers, Tensor):
        raise InvalidInput(f"expected {many} as a tensor of {m} whole numbers, got {type(numbers).__name__}")
    if numbers.shape != (m,) or numbers.is_floating_point() or numbers.dtype == torch.bool:
        raise InvalidInput(f"expected {many} as {m} whole numbers, got shape {tuple(numbers.shape)} of {numbers.dtype}")
    numbers = numbers.to(logits.device).long()
    if logits.device.type == "cpu":
        for extreme in map(int, numbers.aminmax() if m else ()):
            if not 0 <= extreme < end:
                raise InvalidInput(outside(name, extreme, end))
        return numbers
    faults += ((numbers < 0) | (numbers >= end)).sum()
    return numbers.clamp(0, end - 1)


def outside(name: str, value: int, end: int) -> str:
    """What is said of a label or an index that there cannot be."""
    meant = {
        "label": "classes are numbered from 0, and instances without a label are to be left out",
        "index": "it counts the instances of the whole training set, which are n",
    }
    return f"{name} {value} is outside 0..{end - 1}: {meant[name]}"
