"""The cells of Tables 1 and 2, and those of 3 and 4, together; and cells that are read in several ways."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from marvel.experiment import Cell

from . import binary_asymmetric, binary_symmetric, cifar_asymmetric, cifar_symmetric

BINARY = (*binary_symmetric.EXPERIMENT.cells, *binary_asymmetric.EXPERIMENT.cells)
CIFAR = tuple(
    replace(cell, column=f"{noise} {cell.column}")
    for noise, table in (("symmetric", cifar_symmetric), ("asymmetric", cifar_asymmetric))
    for cell in table.EXPERIMENT.cells
)


def of(cells: Iterable[Cell], *methods: str) -> list[Cell]:
    return [cell for cell in cells if cell.config.method in methods]


def read_as(cells: Iterable[Cell], readings: Mapping[str, Mapping[str, Any]]) -> tuple[Cell, ...]:
    """The cells once for each reading, {what it is called: the settings it changes}."""
    cells = list(cells)
    return tuple(
        replace(cell, group=f"{cell.group}, {name}", config=cell.config.but(**changes))
        for name, changes in readings.items()
        for cell in cells
    )
