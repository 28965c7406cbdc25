"""What torch.compile makes of a call; where it fails, the call as it is written."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

log = logging.getLogger("marvel")

Call = TypeVar("Call", bound=Callable[..., Any])


def compiled(call: Call, **options: Any) -> Callable[..., Any]:
    """The call, compiled for the shapes it is given. A call that is wrong in itself fails again as it is written."""
    quick: Callable[..., Any] | None = torch.compile(call, dynamic=False, options=options or None)

    def either(*inputs: Any) -> Any:
        nonlocal quick
        if quick is not None:
            try:
                return quick(*inputs)
            except Exception as error:
                quick = None
                reason = (str(error) or type(error).__name__).splitlines()[0]
                log.warning("the network cannot be compiled and runs as written: %s", reason)
        return call(*inputs)

    return either


class Compiled(nn.Module):
    """A network that is called compiled."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.call = compiled(lambda x: network(x))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.call(x)
        return logits
