"""Our own Triton kernels, where they can be used."""

from functools import cache
from importlib import import_module
from types import ModuleType

import torch


@cache
def kernels(of: str) -> ModuleType | None:
    """Those of a kind of layer ("conv", "norm"), where there is a GPU with bfloat16 tensor cores, and Triton to compile
    them."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        return None
    try:
        return import_module(f"marvel.networks.{of}_kernels")
    except ImportError:
        return None
