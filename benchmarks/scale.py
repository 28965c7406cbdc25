"""How far one machine goes, computed from what `state` measured: nothing here is measured itself."""

from typing import Any

SIZES = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)
MACHINE = 64
"""GiB of memory that a process may take, for the last column."""


def markdown(found: dict[str, Any]) -> str:
    """State, peak memory and the seconds of `step()`, at the figures an instance of the largest size measured."""
    values = {row["what"]: row["value"] for row in found["state"]["rows"] if "value" in row}
    lines = [
        f"| method | n | state | peak in `step()` | `step()` | processes of {MACHINE} GiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in ("marvel", "marvel+"):
        at = max(n for n in SIZES if f"{name}, n={n:,}: step()" in values)
        a_byte = values[f"{name}: state an instance"] / 2**30
        a_peak = values[f"{name}, n={at:,}: peak memory beyond torch's"] / at
        a_second = values[f"{name}, n={at:,}: step()"] / at
        for n in SIZES:
            processes = max(1, -int(-n * a_peak // MACHINE))
            told = (f"{n:,}", gib(n * a_byte), gib(n * a_peak), f"{n * a_second / processes:.3g} s", str(processes))
            lines.append(f"| {name} | " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def gib(value: float) -> str:
    return f"{value:.3g} GiB"
