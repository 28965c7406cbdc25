"""The warm-up that recorded curves of cross entropy give, by each way of reading them."""

from collections.abc import Sequence
from statistics import fmean

from marvel.presets import PRESETS
from marvel.report.cells import Cell, Record
from marvel.report.figures.curves import drops
from marvel.report.words import NOTHING
from marvel.warmup import automatic, knee, peak


def row(records: Sequence[Record]) -> list[str]:
    """Of the seeds of one setting: problem, noise, how many, automatic, knee, peak, and the paper's."""
    config = records[0]["config"]
    cell = Cell(config["data"], config["noise"], tuple(config["rates"] or [config["rate"]]), "ce")
    until = drops(records[0])[0] if drops(records[0]) else None
    auto = [automatic(r["curves"]["train_accuracy"], config["epochs"], r["data"]["n"]) for r in records]
    found = [epoch for epoch in auto if epoch is not None]
    return [
        *cell.setting.split(", ", 1),
        str(len(records)),
        f"{fmean(found):.0f}" if found else NOTHING,
        f"{fmean(knee(r['curves']['train_accuracy'], until) for r in records):.0f}",
        f"{fmean(peak(r['curves']['test_accuracy'], until) for r in records):.0f}",
        str(PRESETS[cell.data].warmup),
    ]
