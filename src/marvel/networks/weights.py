"""Weights from a file into a network, such as those published for torchvision's ResNet-50."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from marvel.errors import InvalidInput
from marvel.networks.network import Network


def load_weights(network: Network, path: str | Path) -> list[str]:
    """Copy the file's tensors into the network; the names of those skipped.

    Only the last layer may be skipped, and only because the file has another number of classes: it then keeps its
    initialisation. Anything else that does not fit is an error, and leaves the network as it was.
    """
    given = _read(Path(path))
    wanted = network.state_dict()
    skipped: list[str] = [name for name in ("fc.weight", "fc.bias") if name in given and _other_classes(given, wanted)]
    # Files older than PyTorch 0.4.1, and many .safetensors, lack BatchNorm's counters; PyTorch then starts them at 0.
    missing = [name for name in wanted if name not in given and not name.endswith(".num_batches_tracked")]
    unknown = [name for name in given if name not in wanted]
    reshaped = [
        f"{name} {tuple(given[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in wanted
        if name in given and name not in skipped and given[name].shape != wanted[name].shape
    ]
    faults = [
        f"{what} {_some(names)}"
        for what, names in (("missing", missing), ("unknown", unknown), ("of another shape", reshaped))
        if names
    ]
    if faults:
        raise InvalidInput(f"{path} does not fit the network: {'; '.join(faults)}. Build the network it was made for")
    network.load_state_dict({name: value for name, value in given.items() if name not in skipped}, strict=False)
    return skipped


def _other_classes(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> bool:
    """Whether the two last layers differ in their number of classes and in nothing else."""
    if "fc.weight" not in given:
        return False
    theirs, ours = given["fc.weight"].shape, wanted["fc.weight"].shape
    return len(theirs) == 2 and theirs[1] == ours[1] and theirs[0] != ours[0]


def _some(names: list[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, by name; never runs code from it."""
    if path.suffix not in (".safetensors", ".pt", ".pth"):
        raise InvalidInput(f"weights come from a .safetensors, .pt or .pth file, given {path}")
    if not path.is_file():
        raise InvalidInput(f"no file of weights at {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: object = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged and hostile files fail in a dozen ways, all of which mean the same
        raise InvalidInput(f"{path} cannot be read as a file of weights: {error}") from error
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InvalidInput(f"{path} must hold a state dict, tensors by name: save network.state_dict() alone")
    return dict(content)
