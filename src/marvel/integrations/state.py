"""What a criterion remembers, as a file among those of another framework's checkpoint."""

from pathlib import Path

from marvel.errors import FolderError
from marvel.method import Method

FILE = "marvel.safetensors"


def write_criterion(criterion: Method, folder: str | Path) -> None:
    """Put the file into the folder."""
    from safetensors.torch import save_file

    state = {name: tensor.cpu().contiguous() for name, tensor in criterion.state_dict().items()}
    save_file(state, Path(folder) / FILE)


def read_criterion(criterion: Method, folder: str | Path) -> None:
    """Bring the criterion back to what the file in the folder says."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder) / FILE
    if not path.exists():
        raise FolderError(f"{path} is missing: the checkpoint was written without the criterion")
    try:
        criterion.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        raise FolderError(f"{path} does not fit the criterion: {error}") from None
