"""A figure, its spread, its peer and its target: a line of the table."""

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.timing import quartiles, ratios


@dataclass(frozen=True)
class Row:
    """`value` is a median, `low` and `high` are quartiles; `ratio` is to the peer, from the same rounds.

    It lies between `ratio_low` and `ratio_high` with 95% confidence; a target between them is neither met nor missed.
    """

    what: str
    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""

    def facts(self) -> dict[str, Any]:
        """For JSON; what there is nothing to say of is left out."""
        return {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in asdict(self).items()
            if value is not None and value != ""
        }


def measured(what: str, samples: list[float], unit: str, scale: float = 1, *, most: float | None = None) -> Row:
    """A figure on its own; `most` is the largest that is good."""
    samples = [scale * sample for sample in samples]
    value = statistics.median(samples)
    target = "" if most is None else f"at most {most:g} {unit}"
    return Row(what, value, unit, *quartiles(samples), target=target, met=None if most is None else value <= most)


def compared(
    what: str,
    mine: list[float],
    peer: str,
    theirs: list[float],
    unit: str,
    scale: float = 1,
    *,
    most: float | None = None,
    target: str = "",
    note: str = "",
) -> Row:
    """A figure beside its peer; `most` is the largest ratio that is good, `target` the same in words."""
    ratio, low, high = ratios(mine, theirs)
    if most is not None and low <= most < high:
        note = "; ".join(filter(None, ["too close to tell", note]))
    mine, theirs = ([scale * sample for sample in samples] for samples in (mine, theirs))
    return Row(
        what,
        statistics.median(mine),
        unit,
        *quartiles(mine),
        peer,
        statistics.median(theirs),
        ratio,
        low,
        high,
        target,
        None if most is None or low <= most < high else ratio <= most,
        note,
    )


def missing(what: str, unit: str, reason: str) -> Row:
    """A figure this machine cannot give."""
    return Row(what, None, unit, note=reason)
