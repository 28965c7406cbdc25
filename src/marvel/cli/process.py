"""Which of the processes that torchrun started this is."""

import os


def process() -> int:
    """The first alone reports. Torch need not be there to ask."""
    return int(os.environ.get("RANK", 0)) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else 0
