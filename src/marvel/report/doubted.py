"""What MARVEL-semi reads off margins on both sides of 0, beside what was true: from histograms in records."""

import math
from collections.abc import Sequence

import numpy as np

from marvel.report.cells import Record, set_by_hand
from marvel.report.sheet import markdown_table
from marvel.report.words import NOTHING

EPOCH = "50"
AT = (1.0, 2.0, 3.0)
WHEN = {"warmup", "late"}
NEAR = 0.25
"""How far from these margins count."""


def doubted(records: Sequence[Record]) -> str:
    """A row for each setting, of its first seed: how many of the labels at -u are wrong, as read and in truth. Of a run
    with nothing set by hand, or where there is none with only the time set when labels are doubted; not where the
    warm-up was going on, in which none is doubted yet."""
    rows: list[list[str]] = []
    for record in sorted(records, key=lambda one: (bool(set_by_hand(one["config"])), one["config"]["seed"])):
        config = record["config"]
        ours = config["method"] == "marvel-semi" and set(set_by_hand(config)) <= WHEN
        if not ours or EPOCH not in record["histograms"]:
            continue
        if record["chosen"].get("warmup", 0) >= int(EPOCH):
            continue
        noise = f", {config['noise']} {config['rate']:.0%}" if config["rate"] else ""
        place = f"{config['data']}{noise}, {config['network']}, {config['epochs']} epochs"
        if any(row[0] == place for row in rows):
            continue
        zero = record["chosen"].get("zero")
        z = NOTHING if zero is None else f"{round(zero, 1) + 0.0:.1f}"  # not -0.0
        rows.append([place, z, *(said(*beside(record["histograms"][EPOCH], u)) for u in AT)])
    return markdown_table(["labels", "z at the end", *(f"u = {u:g} (e^-u = {math.exp(-u):.2f})" for u in AT)], rows)


def said(share: float, read: float, true: float | None) -> str:
    return f"{share:.2f}: {100 * read:.0f} % ({NOTHING if true is None else f'{100 * true:.0f} %'})"


def beside(kept: Record, u: float) -> tuple[float, float, float | None]:
    """Margins at -u for one at u, the share of wrong labels at -u that follows, and the true one, where it is known."""
    names = [name for name in ("clean", "noisy") if name in kept] or ["all"]
    at, mirrored = ({name: near(kept, name, place) for name in names} for place in (-u, u))
    here, there, e = sum(at.values()), sum(mirrored.values()), math.exp(-u)
    wrong = (here - e * there) / (1 - e * e)
    true = at["noisy"] / max(here, 1) if "noisy" in at else None
    return here / max(there, 1), min(1.0, max(0.0, wrong / max(here, 1))), true


def near(kept: Record, name: str, place: float) -> float:
    """How many margins lie there, as if those of a bin were spread over it evenly."""
    counts = np.asarray(kept[name], dtype=float)
    low, high = kept["range"]
    edges = np.linspace(low, high, len(counts) + 1)
    below = np.interp([place - NEAR, place + NEAR], edges, np.concatenate([[0.0], counts.cumsum()]))
    return float(below[1] - below[0])
