"""Which records belong to a cell of the paper: its problem, noise and method, run as the paper ran it.

Figures and claims name the cells they are about; `Runs` finds their records among all there are, one a seed. A record
belongs to a cell only with the paper's network, batch, epochs, learning rate, warm-up and wait (`marvel.paper`), and
MARVEL's other options at their defaults; of a method that is ours, with those options that the cell names, whatever the
protocol. Where a baseline was run with several settings, those run most often count.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from marvel.config import HOW, options_of
from marvel.errors import DataError, InvalidInput
from marvel.methods import METHODS
from marvel.paper import PaperNumber, beside, paper_cell, paper_number
from marvel.presets import PRESETS

Record: TypeAlias = Mapping[str, Any]
"""What `record.json` holds."""

NAMES = {
    "ce": "Cross entropy",
    "oracle": "Oracle",
    "gce": "GCE",
    "sce": "SCE",
    "npcl": "NPCL",
    "aum": "AUM",
    "incv": "INCV",
    "marvel": "MARVEL",
    "marvel+": "MARVEL+",
    "marvel-semi": "MARVEL-semi",
}
"""Methods as a reader names them."""
OURS = ("marvel-semi",)
"""Methods of which the paper has no number."""

ASYMMETRIC_40 = (0.4, 0.0)
"""How "40% asymmetric" of a binary problem is read: the paper writes "(30%, 10%)" where both classes are noisy."""


@dataclass(frozen=True)
class Cell:
    """One kind of run: a problem, a noise with its rate (or both rates of a pair, or none), a method; the network,
    where there are two for the problem; the epochs, where the paper does not say them; and what is set by hand of a
    method that is ours."""

    data: str
    noise: str
    rates: tuple[float, ...]
    method: str
    network: str | None = None
    epochs: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def by(self, method: str) -> "Cell":
        """The same by another method."""
        return replace(self, method=method)

    @property
    def setting(self) -> str:
        """`cat-dog, (40 %, 0 %)`"""
        rates = ", ".join(f"{100 * rate:g} %" for rate in self.rates)
        kind = {"circular": " asymmetric", "pair": ""}.get(self.noise, f" {self.noise}")
        noise = f", {f'({rates})' if len(self.rates) > 1 else rates}{kind}" if self.rates else ""
        options = "".join(f", {name} {value}".lower() for name, value in self.options)
        return f"{self.data}{noise}{f', {self.network}' if self.network else ''}{options}"

    def __str__(self) -> str:
        return f"{name_of(self.method)} on {self.setting}"

    def config(self) -> dict[str, Any]:
        """The part of a record's settings that says which cell it is of."""
        pair = self.noise == "pair"
        return {
            "data": self.data,
            "noise": self.noise,
            "rate": 0.0 if pair or not self.rates else self.rates[0],
            "rates": list(self.rates) if pair else [],
            "method": self.method,
        }

    @property
    def paper(self) -> float | None:
        """The paper's test accuracy in percent."""
        number = self._number()
        return None if number is None else number.mean

    @property
    def paper_sd(self) -> float | None:
        """Its standard deviation over the runs."""
        number = self._number()
        return None if number is None else number.sd

    def _number(self) -> PaperNumber | None:
        place = paper_cell({**self.config(), "network": self.network})
        return None if place is None else paper_number(*place, self.method)


class Runs:
    """Records by cell."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._by_place: dict[str, list[Record]] = {}
        for record in self.records:
            self._by_place.setdefault(_place(record["config"]), []).append(record)

    def of(self, cell: Cell) -> list[Record]:
        """The records of a cell, in the order of their seeds."""
        return _most_seeds([r for r in self._near(cell) if _belongs(r["config"], cell)])

    def by_option(self, cell: Cell, option: str) -> dict[int, list[Record]]:
        """The records of a cell by their value of a MARVEL option, of which the paper's is only one."""
        found: dict[int, list[Record]] = {}
        for record in self._near(cell):
            config = record["config"]
            value = config["options"].get(option)
            usual = config | {"options": config["options"] | {option: self._usual(cell, option)}}
            if isinstance(value, int) and beside(usual) is not None and _plain(config):
                found.setdefault(value, []).append(record)
        return {value: _most_seeds(found[value]) for value in sorted(found)}

    def _near(self, cell: Cell) -> list[Record]:
        near = self._by_place.get(_place(cell.config()), [])
        # The same problem may be that of another table, with another network.
        preset = PRESETS.get(cell.data)
        asked = {"network": cell.network or (preset.network if preset else None), "epochs": cell.epochs}
        return [r for r in near if all(value in (None, r["config"][key]) for key, value in asked.items())]

    def _usual(self, cell: Cell, option: str) -> int | None:
        """The paper's choice."""
        if option == "warmup":
            usual = 40 if cell.network == "resnet34" else PRESETS[cell.data].warmup
            return usual if isinstance(usual, int) else None
        place = paper_cell({**cell.config(), "network": cell.network})
        number = None if place is None else paper_number(f"{place[0]}-waits", *place[1:], cell.method)
        return None if number is None or number.mean is None else int(number.mean)

    def lacking(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells of which there is no record."""
        return [cell for cell in cells if not self.of(cell)]

    def mean(self, cell: Cell, key: str) -> float | None:
        """The mean over the seeds of a final number; None where there is no record, or one that lacks it."""
        values = [record["final"].get(key) for record in self.of(cell)]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None


def name_of(method: str) -> str:
    return NAMES.get(method, method)


def read_results(paths: Sequence[Path]) -> list[Record]:
    """The records of files of results, or of all in a folder and below it; runs that failed are no records."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    found: list[Record] = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{file}, line {number}, is not JSON: {error}") from None
            if isinstance(record, dict) and "final" in record and "config" in record:
                found.append(record)
    if not files:
        raise InvalidInput("no files of results: name some, for example results/*.jsonl")
    return found


def set_by_hand(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the method that are not at their defaults."""
    known = {name: parameter.default for name, parameter in options_of(METHODS[config["method"]]).items()}
    return {name: value for name, value in config["options"].items() if name not in known or bool(known[name] != value)}


def _place(config: Mapping[str, Any]) -> str:
    return json.dumps([config["data"], config["noise"], config["rate"], list(config["rates"]), config["method"]])


def _belongs(config: Mapping[str, Any], cell: Cell) -> bool:
    """Whether it was run as the paper did it; what is ours, as the cell says."""
    if config["method"] in OURS:
        return set_by_hand(config) == dict(cell.options)
    return beside(config) is not None and _plain(config)


def _plain(config: Mapping[str, Any]) -> bool:
    """Whether MARVEL ran by its defaults, but for the two periods."""
    if not config["method"].startswith("marvel"):
        return True
    return set(set_by_hand(config)) <= {"warmup", "wait"}


def _most_seeds(records: Sequence[Record]) -> list[Record]:
    """The records of the settings that were run most often, one a seed; the later ones where that is undecided."""
    groups: dict[str, dict[int, Record]] = {}
    for record in records:
        told = {key: value for key, value in record["config"].items() if key not in HOW | {"seed", "options"}}
        key = json.dumps([told, set_by_hand(record["config"])], sort_keys=True)
        groups.setdefault(key, {})[record["config"]["seed"]] = record
    largest: dict[int, Record] = {}
    for group in groups.values():
        if len(group) >= len(largest):
            largest = group
    return [largest[seed] for seed in sorted(largest)]
