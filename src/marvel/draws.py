"""Which instances a step goes over: a permutation cut into batches, or draws by weight."""

import torch
from torch import Tensor


def batches_of(order: Tensor, size: int) -> list[Tensor]:
    """Indices cut into batches. What is left over at the end and is less than half a batch shares with the one before:
    a step on a handful of instances, with BatchNorm's statistics of these alone, can undo what an epoch has learnt."""
    steps = list(torch.split(order, size))
    if len(steps) > 1 and len(steps[-1]) < min(size, max(2, size / 2)):
        both = torch.cat(steps[-2:])
        steps[-2:] = both.tensor_split(2) if len(both) > 3 else [both]
    return steps


def drawn(weight: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` indices, each in proportion to its weight; a weight that is expected k.3 times comes k or k + 1 times.

    The weights, in a random order, are laid end to end, and `count` marks at equal distances say what is drawn: so no
    instance is left out by accident, and equal weights give a permutation. Where all are 0, all are drawn alike.
    """
    order = torch.randperm(len(weight), generator=generator)
    weight = weight.detach().cpu().double().clamp(min=0)[order]
    ends = (weight if weight.any() else weight + 1).cumsum(0)
    first = torch.rand((), generator=generator, dtype=torch.float64)
    marks = (torch.arange(count, dtype=torch.float64) + first) * (ends[-1] / count)
    # Beyond the last weight above 0 lies only what rounding put there.
    last = int((weight > 0).nonzero()[-1]) if weight.any() else len(weight) - 1
    found = order[torch.searchsorted(ends, marks, right=True).clamp(max=last)]
    return found[torch.randperm(count, generator=generator)]
