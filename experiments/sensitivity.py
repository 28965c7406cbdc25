"""The four settings on which the paper varies MARVEL's warm-up and its wait, and the values used there elsewhere."""

from dataclasses import dataclass

from marvel.config import Config
from marvel.experiment import Cell

SEEDS = tuple(range(5))


@dataclass(frozen=True)
class Setting:
    """A problem with its noise, and what Tables 3 and 4 use on it."""

    name: str  # as the paper has it
    problem: Config
    warmup: int
    wait: int

    def cell(self, table: str, value: int) -> Cell:
        """MARVEL with another warm-up or wait: `table` is named after what varies."""
        options = {"warmup": self.warmup, "wait": self.wait} | {table: value}
        place = (table, self.name, str(value), "marvel")
        return Cell(self.name, str(value), "MARVEL", self.problem.but(method="marvel", options=options), place)


SETTINGS = (
    Setting("CIFAR-10 40% Symmetric", Config(data="cifar10", noise="symmetric", rate=0.4), 30, 8),
    Setting("CIFAR-10 40% Asymmetric", Config(data="cifar10", noise="circular", rate=0.4), 30, 6),
    Setting("CIFAR-100 60% Symmetric", Config(data="cifar100", noise="symmetric", rate=0.6), 40, 16),
    Setting("CIFAR-100 20% Asymmetric", Config(data="cifar100", noise="circular", rate=0.2), 40, 16),
)
