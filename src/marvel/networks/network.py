"""What all networks share: features, and one linear layer on top of them."""

from typing import Any

from torch import Tensor, nn


class Network(nn.Module):
    """A classifier in two parts: `features`, which subclasses write, and the last linear layer.

    The layer is called `fc` in the state dict, as in torchvision's ResNets, so that published weights load; `head` is
    the same layer by the name the rest of Marvel uses, and appears in no state dict.
    """

    fc: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        """The (m, d) input of the last linear layer."""
        raise NotImplementedError

    @property
    def head(self) -> nn.Linear:
        """The last linear layer; assigning a new one replaces it."""
        return self.fc

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module registers modules before it looks at properties: `network.head = ...` would be kept and never used.
        super().__setattr__("fc" if name == "head" else name, value)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits


class Stack(Network):
    """A network whose features are one layer after another."""

    def __init__(self, *layers: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(width, classes)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.body(x)
        return features
