"""Tensors a module remembers, without their being buffers.

Buffers are the wrong home for what a method knows of each instance: DistributedDataParallel would broadcast those of
rank 0 at every step, and `.to(torch.bfloat16)` would cast them. These move with the module, are never cast, are saved
in its `state_dict`, and assigning to one writes into it: its memory stays where it is, which is where a captured graph
reads it.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn


class Memory(nn.Module):
    """A module with `remember(name, tensor)`."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: dict[str, Tensor] = {}
        self._each_epoch: list[str] = []

    def remember(self, name: str, start: Tensor, each_epoch: bool = False) -> None:
        """Remember a tensor under `name`; `each_epoch`: `forget_epoch` sets it back to zero."""
        self._memory[name] = start
        if each_epoch:
            self._each_epoch.append(name)

    def remembered(self) -> dict[str, Tensor]:
        """All that is remembered, by name: the tensors themselves."""
        return dict(self._memory)

    def forget_epoch(self) -> None:
        """Set to zero what is remembered for one epoch only."""
        for name in self._each_epoch:
            self._memory[name].zero_()

    def __getattr__(self, name: str) -> Any:
        memory = self.__dict__.get("_memory")
        if memory is not None and name in memory:
            return memory[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        memory = self.__dict__.get("_memory")
        if memory is None or name not in memory:
            super().__setattr__(name, value)
        elif value is not memory[name]:
            memory[name].copy_(value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in self._memory.items():
            # A whole number shows where `fn` moves to, and is safe from what it casts to.
            device = fn(torch.zeros(0, dtype=torch.int64, device=tensor.device)).device
            self._memory[name] = tensor.to(device)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, tensor in self._memory.items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        _, _, missing, _, errors = rest
        for name, tensor in self._memory.items():
            saved = state_dict.get(prefix + name)
            if saved is None:
                missing.append(prefix + name)
            elif saved.shape != tensor.shape:
                errors.append(f"{prefix}{name} has shape {tuple(saved.shape)}, expected {tuple(tensor.shape)}")
            else:
                tensor.copy_(saved)
        mine = {prefix + name for name in self._memory}
        others = {key: value for key, value in state_dict.items() if key not in mine}
        super()._load_from_state_dict(others, prefix, *rest)
