"""What MARVEL-semi reads off margins on both sides of 0, beside what was true: from histograms in records."""

import math
from collections.abc import Sequence

import numpy as np

from marvel.report.cells import Record, set_by_hand
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING

AT = (1.0, 2.0, 3.0)
NEAR = 0.25
"""How far from these margins count."""
ENOUGH = 100
"""So few say nothing of how many there should be on the other side."""


def doubted(records: Sequence[Record]) -> str:
    """A row for each setting with nothing set by hand, of its first seed, as removal begins: how many of the labels at
    -u are wrong, as read and in truth. Of the last histogram before it."""
    rows: list[list[str]] = []
    for record in sorted(records, key=lambda one: one["config"]["seed"]):
        config, began = record["config"], record["chosen"].get("removal_from", 0)
        before = [epoch for epoch in map(int, record["histograms"]) if epoch <= began]
        if config["method"] != "marvel-semi" or set_by_hand(config) or not before:
            continue
        noise = f", {config['noise']} {config['rate']:.0%}" if config["rate"] else ""
        place = f"{config['data']}{noise}, {config['network']}, {config['epochs']} epochs"
        if any(row[0] == place for row in rows):
            continue
        kept = record["histograms"][str(max(before))]
        read = (said(kept, u) for u in AT)
        rows.append([place, str(began), str(max(before)), zero_of(record), *read])
    read_at = (f"u = {u:g} (e^-u = {math.exp(-u):.2f})" for u in AT)
    return markdown_table(["labels", "removal from", "epoch shown", "z at the end", *read_at], rows)


def zero_of(record: Record) -> str:
    zero = record["chosen"].get("zero")
    return NOTHING if zero is None else f"{round(zero, 1) + 0.0:.1f}"  # not -0.0


def said(kept: Record, u: float) -> str:
    share, read, true = beside(kept, u)
    if share is None:
        return NOTHING
    return f"{share:.2f}: {100 * read:.0f} % ({NOTHING if true is None else f'{100 * true:.0f} %'})"


def beside(kept: Record, u: float) -> tuple[float | None, float, float | None]:
    """Margins at -u for one at u, where there are enough of those; the share of wrong labels at -u that follows, and
    the true one, where it is known."""
    names = [name for name in ("clean", "noisy") if name in kept] or ["all"]
    at, mirrored = ({name: near(kept, name, place) for name in names} for place in (-u, u))
    here, there, e = sum(at.values()), sum(mirrored.values()), math.exp(-u)
    wrong = (here - e * there) / (1 - e * e)
    true = at["noisy"] / max(here, 1) if "noisy" in at else None
    return here / there if there >= ENOUGH else None, min(1.0, max(0.0, wrong / max(here, 1))), true


def near(kept: Record, name: str, place: float) -> float:
    """How many margins lie there, as if those of a bin were spread over it evenly."""
    counts = np.asarray(kept[name], dtype=float)
    low, high = kept["range"]
    edges = np.linspace(low, high, len(counts) + 1)
    below = np.interp([place - NEAR, place + NEAR], edges, np.concatenate([[0.0], counts.cumsum()]))
    return float(below[1] - below[0])
