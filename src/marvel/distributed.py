"""Several processes: how they meet and part, the global batch, and who reads and writes files.

Every process gathers the rows of all the others, in the order of their ranks, and then computes the same loss and the
same state. Nothing is left to join at the end of an epoch, and batch statistics (MARVEL+, NPCL) are those of the
global batch. The first process alone reads and writes the run folder and tells the others what is in it, so they need
not see its disk, and nobody reads what is not yet written.
"""

import gc
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from marvel.errors import FolderError, InvalidInput, MarvelError, PartnerLost

TIMEOUT = 600.0
"""Seconds to wait for another process before it is given up; the variable MARVEL_TIMEOUT says another number."""


def processes() -> int:
    """How many processes train together; 1 when none were started."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is; 0 when there is only one."""
    return dist.get_rank() if processes() > 1 else 0


def writes_files() -> bool:
    """Only one process writes the run folder."""
    return rank() == 0


# ------------------------------------------------------------ meeting and parting


@contextmanager
def together(device: str = "auto") -> Iterator[None]:
    """Train with the other processes that `torchrun` started, where it did; part from them in good order.

    A group that is there already is left alone, so this may be nested. Tensors on the CPU travel by gloo, those on a
    GPU by NCCL, which is left out where `device` is "cpu".
    """
    if not _has_others() or dist.is_initialized():
        yield
        return
    seconds = float(os.environ.get("MARVEL_TIMEOUT", TIMEOUT))
    with_gpus = device != "cpu" and torch.cuda.is_available() and dist.is_nccl_available()
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if with_gpus else "gloo", timeout=timedelta(seconds=seconds))
    except RuntimeError as error:
        raise PartnerLost(
            f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']} did not meet the others at "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} within {seconds:g} s ({_first_line(error)}): "
            "start all of them, and see that they reach that address"
        ) from error
    try:
        yield
    finally:
        # Reference cycles (DistributedDataParallel has some) keep the group's threads alive beyond its end, and a
        # thread that outlives the interpreter aborts the program.
        gc.collect()
        dist.destroy_process_group()


def _has_others() -> bool:
    told = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    return told and dist.is_available() and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def _partners() -> Iterator[None]:
    """Around everything that waits for the others: says in one line that one of them is gone."""
    try:
        yield
    except RuntimeError as error:
        raise PartnerLost(
            f"process {rank()} of {processes()} lost another one, which has ended or hangs ({_first_line(error)}): "
            "start all of them again, with --resume where there is a run folder"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


# ------------------------------------------------------------ the global batch


def shares(total: int) -> list[int]:
    """How many of `total` rows each process takes: contiguous and as even as can be, in the order of the ranks."""
    world = processes()
    return [total * (r + 1) // world - total * r // world for r in range(world)]


def share(total: int) -> slice:
    """Which of `total` rows this process takes."""
    start = sum(shares(total)[: rank()])
    return slice(start, start + shares(total)[rank()])


def gather(*columns: Tensor, sizes: list[int] | None = None) -> tuple[Tensor, ...]:
    """The rows `(m, ...)` of every process, as `(sum of all m, ...)`; gradients flow back to the rows of this process.

    One collective for all columns: their bytes travel side by side, so every type arrives as it was. The numbers of
    rows may differ from process to process, and may be 0; where `sizes` does not say them, another collective asks
    first, and waits for the answer.
    """
    if sizes is None:
        sizes = _numbers(len(columns[0]), columns[0].device)
    gathered: tuple[Tensor, ...] = _Gather.apply(sizes, *columns)  # type: ignore[no-untyped-call]
    return gathered


def _numbers(mine: int, device: torch.device) -> list[int]:
    """One whole number of each process."""
    told = torch.empty(processes(), 1, dtype=torch.int64, device=device)
    with _partners():
        dist.all_gather(list(told), torch.tensor([mine], device=device))
    return told.flatten().tolist()


class _Gather(torch.autograd.Function):
    """All rows of all processes. Backward needs no communication.

    Every process computes the same loss of the same rows, so the gradient that reaches this process's rows through the
    losses of all W processes is W times the one at hand. The average over the W processes (`average_over_processes`, or
    DistributedDataParallel's own) then leaves the gradient of the global loss.
    """

    @staticmethod
    def forward(ctx: Any, sizes: list[int], *columns: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.start, ctx.rows = sum(sizes[: rank()]), sizes[rank()]
        parts = [_as_bytes(column) for column in columns]
        everyone = _all_rows(torch.cat(parts, dim=1), sizes)
        found = [
            part.clone(memory_format=torch.contiguous_format)
            .view(column.dtype)
            .reshape(len(everyone), *column.shape[1:])
            for part, column in zip(everyone.split([part.shape[1] for part in parts], dim=1), columns, strict=True)
        ]
        ctx.mark_non_differentiable(*(column for column in found if not column.is_floating_point()))
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        mine = slice(ctx.start, ctx.start + ctx.rows)
        return None, *(None if grad is None else grad[mine] * processes() for grad in grads)


def _as_bytes(column: Tensor) -> Tensor:
    """(m, ...) -> (m, bytes of a row)"""
    rows = column.detach().reshape(len(column), math.prod(column.shape[1:]))
    # `contiguous` would let the odd strides of a single or expanded row pass, which `view` then refuses.
    return rows.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def _all_rows(mine: Tensor, sizes: list[int]) -> Tensor:
    most = max(sizes)
    everyone = mine.new_empty(len(sizes), most, mine.shape[1])
    if most:
        padded = torch.nn.functional.pad(mine, (0, 0, 0, most - len(mine)))
        with _partners():
            dist.all_gather(list(everyone), padded)
    if min(sizes) == most:
        return everyone.flatten(0, 1)
    return torch.cat([part[:size] for part, size in zip(everyone, sizes, strict=True)])


def average_over_processes(tensors: Sequence[Tensor]) -> None:
    """Replace tensors by their average over the processes, in one collective: the gradients, after `backward`.

    DistributedDataParallel sends gradients while the backward pass still runs, which saves a tenth of a step of
    ResNet-18 on 8 images a process (gloo, `benchmarks/gather.py`), less of a larger one. It is not used: it would wrap
    each network (hiding `.features`) and expects every parameter to be used in every step, where methods are free to
    look at a network twice, in part, or not at all.
    """
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    with _partners():
        dist.all_reduce(flat)
    flat /= processes()
    parts = flat.split([tensor.numel() for tensor in tensors])
    with torch.no_grad():
        torch._foreach_copy_(list(tensors), [part.view_as(t) for part, t in zip(parts, tensors, strict=True)])


def total(number: Tensor) -> Tensor:
    """The sum over the processes."""
    if processes() > 1:
        with _partners():
            dist.all_reduce(number)
    return number


# ------------------------------------------------------------ one for all


def copy_first(tensors: Sequence[Tensor]) -> None:
    """Replace tensors by those of the first process."""
    for tensor in tensors:
        sent = tensor.detach().contiguous()  # the same memory unless it is channels-last
        with _partners():
            dist.broadcast(sent, 0)
        tensor.detach().copy_(sent)


def ask_first(answer: Callable[[], Any]) -> Any:
    """What `answer()` is on the first process, in JSON's types. What it finds wrong with the folder, all are told."""
    if processes() == 1:
        return answer()
    said: dict[str, Any] = {}
    wrong: MarvelError | None = None
    if rank() == 0:
        try:
            said = {"answer": answer()}
        except MarvelError as error:
            wrong, said = error, {"wrong": str(error)}
    said = json.loads(send_first(json.dumps(said).encode()))
    if "wrong" in said:
        raise wrong or FolderError(said["wrong"])
    return said["answer"]


def send_first(content: bytes) -> bytes:
    """The bytes of the first process; those of the others are not looked at."""
    size = torch.tensor([len(content)])
    copy_first([size])
    sent = torch.zeros(int(size), dtype=torch.uint8)
    if rank() == 0:
        sent = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    copy_first([sent])
    return sent.numpy().tobytes()


def agree(on: str) -> None:
    """See that all processes were told the same: those on other machines may have other files."""
    if processes() == 1:
        return
    digest = int.from_bytes(hashlib.sha256(on.encode()).digest()[:7], "big")
    told = _numbers(digest, torch.device("cpu"))
    others = [str(r) for r, number in enumerate(told) if number != told[0]]
    if others:
        raise InvalidInput(
            f"process {', '.join(others)} has other settings or other data than process 0: "
            "give all the same command and the same files"
        )


def device_for(name: str) -> str:
    """The device of that name, "auto" being a GPU where there is one. A GPU that is named by its number is the current
    one from here on: streams, graphs and kernels are made for that."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidInput(f"device should be auto, cpu, cuda or cuda:0, got {name!r}") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidInput(f"there is no device {name} here: say cpu, or auto")
    device = own_gpu(device)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    return str(device)


def own_gpu(device: torch.device) -> torch.device:
    """Each process of a machine takes its own GPU, whichever was named."""
    if device.type != "cuda" or processes() == 1 or "LOCAL_RANK" not in os.environ:
        return device
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    there = torch.cuda.device_count()
    if int(os.environ["LOCAL_RANK"]) >= there:
        raise InvalidInput(f"every process needs a GPU of its own, and here are {there}: use --nproc-per-node {there}")
    return device
