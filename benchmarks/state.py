"""How what a method remembers grows with the number of instances, on the CPU, beside the `aum` package's dicts.

Each size is measured in a process of its own, whose memory begins at nothing:

    python -m benchmarks.state marvel 1000000
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from benchmarks.criterion import METHODS, SIZE
from benchmarks.rows import Row, missing
from benchmarks.timing import processor

CLASSES = 10
ROOM = 80
"""Bytes of free memory an instance that a measurement is allowed to take."""

Found = dict[str, float]


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    sizes = (20_000, 30_000) if quick else (1_000_000, 10_000_000, 100_000_000)
    ask = here if quick else apart
    peer = ask("aum", sizes[0])
    theirs = peer.get("bytes")
    for name in ("marvel", "marvel+"):
        first: Found = {}
        for n in sizes:
            what = f"{name}, n={n:,}"
            free = memory("MemAvailable", "/proc/meminfo")
            if free is not None and free < ROOM * n:
                reason = f"needs {ROOM * n / 2**30:.0f} GiB free, {free / 2**30:.0f} are"
                yield missing(f"{what}: all of it", "", reason)
                continue
            found = ask(name, n)
            if not first:
                first = found
                yield Row(
                    f"{name}: state an instance",
                    found["bytes"],
                    "bytes",
                    peer=f"aum, n={sizes[0]:,}" if theirs else "",
                    peer_value=theirs,
                    ratio=found["bytes"] / theirs if theirs else None,
                    target="24 bytes at most",
                    met=found["bytes"] <= 24,
                    note="" if theirs else "peer aum is not installed",
                )
            if "peak" in found:
                yield Row(f"{what}: peak memory beyond torch's", found["peak"] / 2**30, "GiB", note=of_state(found, n))
            yield Row(f"{what}: step()", found["step"], "s")
            yield Row(
                f"{what}: forward",
                found["forward"],
                "µs",
                low=found["low"],
                high=found["high"],
                peer="" if found is first else f"n={sizes[0]:,}",
                peer_value=None if found is first else first["forward"],
                ratio=None if found is first else found["forward"] / first["forward"],
            )


def of_state(found: Found, n: int) -> str:
    return f"{found['peak'] / (n * found['bytes']):.1f} times the state"


def here(name: str, n: int) -> Found:
    """Measure in this process."""
    return aum(n) if name == "aum" else method(name, n)


def apart(name: str, n: int) -> Found:
    """Measure in a new process."""
    asked = [sys.executable, "-m", "benchmarks.state", name, str(n)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    found: Found = json.loads(done.stdout)
    return found


def method(name: str, n: int) -> Found:
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(SIZE, CLASSES, generator=g)
    y = torch.randint(CLASSES, (SIZE,), generator=g)
    draws = torch.randint(n, (400, SIZE), generator=g)
    METHODS[name](SIZE, CLASSES)(logits, y, torch.arange(SIZE))  # what torch loads at the first call is not ours
    forget_peak()
    before = memory("VmRSS")
    criterion = METHODS[name](n, CLASSES)
    for tensor in criterion.remembered().values():
        tensor.mul_(1)  # memory counts once it was written
    for index in draws[:200]:
        criterion(logits, y, index)
    criterion.step()
    calls = [1e6 * processor(partial(criterion, logits, y, index), 1) for index in draws[200:]]
    steps = [processor(criterion.step, 1) for _ in range(3)]
    low, middle, high = statistics.quantiles(calls, n=4)
    held = sum(tensor.nbytes for tensor in criterion.remembered().values() if tensor.shape[:1] == (n,))
    found = {"bytes": held / n, "step": statistics.median(steps), "forward": middle, "low": low, "high": high}
    peak = memory("VmHWM")
    return found if peak is None or before is None else found | {"peak": max(0, peak - before)}


def aum(n: int) -> Found:
    """Bytes an instance of the peer after its first epoch, by the memory of the process."""
    try:
        from aum import AUMCalculator
    except ImportError:
        return {}
    logits, y = torch.randn(SIZE, CLASSES), torch.zeros(SIZE, dtype=torch.int64)
    AUMCalculator(save_dir="").update(logits, y, list(range(SIZE)))
    before = memory("VmRSS")
    calculator = AUMCalculator(save_dir="")
    for start in range(0, n, SIZE):
        ids = list(range(start, min(start + SIZE, n)))
        calculator.update(logits[: len(ids)], y[: len(ids)], ids)
    after = memory("VmRSS")
    return {} if before is None or after is None else {"bytes": (after - before) / n}


def memory(name: str, file: str = "/proc/self/status") -> int | None:
    """Bytes, as Linux tells them; None elsewhere. VmHWM is the most so far, VmRSS what is held now."""
    if not Path(file).exists():
        return None
    line = next(line for line in Path(file).read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(here(sys.argv[1], int(sys.argv[2]))))
