"""Which of the processes that torchrun started this is."""

import os

import typer

from marvel.errors import InvalidInput


def process() -> int:
    """The first alone reports. Torch need not be there to ask."""
    return int(os.environ.get("RANK", 0)) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else 0


def refuse_torchrun(verb: str) -> None:
    """For verbs that do many runs: processes that each did all of them would write over one another."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        if process() > 0:
            raise typer.Exit(2)
        raise InvalidInput(
            f"marvel {verb} is not for torchrun, which shares one run among processes: call it without, or use "
            "`torchrun -m marvel train`"
        )
