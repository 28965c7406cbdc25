"""Several processes: the global batch, gathered once a step, and who writes files.

Every process gathers the rows of all the others, in the order of their ranks, and then computes the same loss and the
same state. Nothing is left to join at the end of an epoch, and batch statistics (MARVEL+, NPCL) are those of the
global batch.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def processes() -> int:
    """How many processes train together; 1 when none were started."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is; 0 when there is only one."""
    return dist.get_rank() if processes() > 1 else 0


def writes_files() -> bool:
    """Only one process writes the run folder."""
    return rank() == 0


def gather(*columns: Tensor, sizes: list[int] | None = None) -> tuple[Tensor, ...]:
    """The rows `(m, ...)` of every process, as `(sum of all m, ...)`; gradients flow back to the rows of this process.

    One collective for all columns: they travel side by side in double precision, which holds indices, labels and single
    precision exactly. The numbers of rows may differ from process to process, and may be 0; where `sizes` does not say
    them, another collective asks first, and waits for the answer.
    """
    rows = columns[0].shape[0]
    flat = torch.cat([column.reshape(rows, _width(column)).double() for column in columns], dim=1)
    if sizes is None:
        told = [torch.empty(1, dtype=torch.int64, device=flat.device) for _ in range(processes())]
        dist.all_gather(told, torch.tensor([rows], dtype=torch.int64, device=flat.device))
        sizes = [int(size) for size in told]
    everyone = _Gather.apply(flat, sizes)  # type: ignore[no-untyped-call]
    parts = everyone.split([_width(column) for column in columns], dim=1)
    return tuple(
        part.reshape(len(everyone), *column.shape[1:]).to(column.dtype)
        for part, column in zip(parts, columns, strict=True)
    )


def _width(column: Tensor) -> int:
    width = 1
    for size in column.shape[1:]:
        width *= size
    return width


class _Gather(torch.autograd.Function):
    """All rows of all processes. Backward needs no communication.

    Every process computes the same loss of the same rows, so the gradient that reaches this process's rows through the
    losses of all W processes is W times the one at hand. DistributedDataParallel then averages over the W processes:
    what is left is the gradient of the global loss.
    """

    @staticmethod
    def forward(ctx: Any, mine: Tensor, sizes: list[int]) -> Tensor:
        ctx.start = sum(sizes[: rank()])
        ctx.rows = mine.shape[0]
        padded = mine.new_zeros(max(sizes), mine.shape[1])
        padded[: ctx.rows] = mine
        everyone = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(everyone, padded)
        return torch.cat([part[:size] for part, size in zip(everyone, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0][ctx.start : ctx.start + ctx.rows] * processes(), None


def share_gradients(parameters: list[torch.nn.Parameter]) -> None:
    """Average the gradients over the processes, in one collective."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= processes()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
