"""What every process of tests/test_together_steps.py does: `torchrun ... tests/together_steps.py FOLDER`."""

import sys
from itertools import count
from pathlib import Path

import torch

from marvel import METHODS
from marvel.config import Config
from marvel.distributed import processes, rank, together
from marvel.errors import Interrupted
from marvel.networks import NETWORKS
from marvel.run import Run
from together import BATCH, Staged, images, settings, smooth, state

STOPS = {"marvel+": 10, "staged": 9, "staged with BatchNorm": 22}
"""By what is trained: how many steps are taken before one is to stop, of seven an epoch: in mid-epoch, each. With
BatchNorm it is that of the second training, whose epochs have six: the last, of two instances, is joined to another."""
EVERY, EPOCHS = 3, 3


def asked(way: str) -> Config:
    return settings(way, epochs=EPOCHS, batch=BATCH)


def stopped(run: Run, after: int) -> None:
    """Only the last process is asked to stop; all do, after the same step."""
    asked = count(1)
    run.trainer.stop = lambda: rank() == processes() - 1 and next(asked) >= after
    try:
        for _ in run.steps():
            pass
    except Interrupted:
        return
    raise AssertionError("it was not stopped")


def go_through(folder: Path) -> None:
    METHODS["staged"], NETWORKS["smooth"] = Staged, smooth
    # A folder that only the first process may touch, as on machines without a common disk.
    home = folder if rank() == 0 else folder / f"elsewhere {rank()}"
    for way, after in STOPS.items():
        config, found = asked(way).but(checkpoint_every_steps=EVERY), {}
        stopped(Run(config, home / way, data=images()), after)
        for name, out in (("resumed", home / way), ("undisturbed", None)):
            run = Run(config, out, resume=True, data=images())
            for _ in run.steps():
                pass
            found[name] = state(run)
        for key, tensor in found["undisturbed"].items():
            same = found["resumed"][key].numpy().tobytes() == tensor.numpy().tobytes()
            assert same, f"{way}: {key} differs"
        stopped(Run(config, home / f"{way}, left", data=images()), after)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with together():
        go_through(Path(sys.argv[1]))
