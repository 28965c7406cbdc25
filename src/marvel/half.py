"""bfloat16 arithmetic on float32 weights, cast together.

Under autocast every layer casts its own weights forward and its own gradients back: some seventy kernels of
ResNet-32's step. Here all of them are cast by one kernel each way.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from marvel.compiled import compiled


class InHalf(nn.Module):
    """The network with its convolutions and linear layers in bfloat16; the weights themselves stay as they are.

    BatchNorm keeps its own in float32, which its kernels take beside bfloat16 images.
    """

    def __init__(self, network: nn.Module, compile: bool) -> None:
        super().__init__()
        heavy = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        self.names = [
            f"{name}.{of}" if name else of
            for name, layer in network.named_modules()
            if isinstance(layer, heavy)
            for of, _ in layer.named_parameters(recurse=False)
        ]
        self.network = network

        def call(weights: dict[str, Tensor], x: Tensor) -> Tensor:
            logits: Tensor = functional_call(network, weights, (x,))
            return logits

        self.call: Callable[[dict[str, Tensor], Tensor], Tensor] = (
            compiled(call, max_autotune_pointwise=True) if compile else call
        )

    def forward(self, x: Tensor) -> Tensor:
        weights = [self.network.get_parameter(name) for name in self.names]
        halves: tuple[Tensor, ...] = _Cast.apply(*weights)  # type: ignore[no-untyped-call]
        return self.call(dict(zip(self.names, halves, strict=True)), x.to(torch.bfloat16))


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        return _cast(weights, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return _cast(gradients, torch.float32)


def _cast(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    cast = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(cast, tensors)
    return tuple(cast)
