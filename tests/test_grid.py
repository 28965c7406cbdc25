"""The grid of all methods on one budget: what it holds, and that each of its runs can be built."""

import pytest
import torch

from marvel.config import Config
from marvel.data.core import Data
from marvel.experiment.finding import find
from marvel.methods import METHODS
from marvel.paper import beside, paper_number
from marvel.run import Run

GRID = find("baselines")


def stand_in(n: int = 40) -> Data:
    """A few images of noise with CIFAR-10's shape and classes."""
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), generator=g, dtype=torch.uint8)
    y = torch.arange(n) % 10
    return Data("cifar10", x, y, tuple("0123456789"), x[:10], y[:10], augment="crop-flip")


DATA = stand_in()


def runs(noise: str) -> list[Config]:
    return [cell.config for cell in GRID.cells if cell.column == noise]


@pytest.mark.parametrize("noise", ["symmetric", "circular"])
def test_every_method_is_there_and_every_run_can_be_built(noise: str) -> None:
    configs = runs(noise)
    assert {config.method for config in configs} == set(METHODS)
    for config in configs:
        run = Run(config.but(device="cpu"), data=DATA)
        found = run.config
        lr = 0.06 if found.method == "marvel-semi" else 0.1
        assert (found.network, found.lr, found.weight_decay, found.rate) == ("resnet32", lr, 2e-4, 0.4)
        if found.method == "l_dmi":
            assert (found.epochs, found.batch) == (40, 256)
            o = found.options
            assert (o["pretrain"], o["pretrain_drops"], o["pretrain_batch"]) == (120, (40, 80), 128)
        else:
            longer = found.method.startswith("marvel") or config.drops is not None
            assert (found.epochs, found.batch, found.drops) == (120, 128, (80, 100) if longer else (40, 80))


def test_runs_stand_beside_the_papers_numbers() -> None:
    """All but those of another learning rate than the paper's."""
    for config in runs("symmetric"):
        number = paper_number("cifar-symmetric", "CIFAR-10", "40%", config.method)
        found = beside(Run(config.but(device="cpu"), data=DATA).config.facts())
        assert found == (None if config.method == "ce" and config.drops else number)


def test_marvel_waits_as_long_as_in_the_paper() -> None:
    for noise, table in (("symmetric", "cifar-symmetric-waits"), ("circular", "cifar-asymmetric-waits")):
        for config in runs(noise):
            if config.method in ("marvel", "marvel+"):
                wait = paper_number(table, "CIFAR-10", "40%", config.method)
                assert wait is not None and config.options["wait"] == wait.mean


def test_each_form_has_a_row_of_its_own() -> None:
    places = [(cell.column, cell.row) for cell in GRID.cells]
    assert len(set(places)) == len(places)
    settings = [str(cell.config.facts()) for cell in GRID.cells]
    assert len(set(settings)) == len(settings)
