"""How what a method remembers grows with the number of instances, on the CPU, beside the `aum` package's dicts.

Each size is measured in a process of its own, whose memory begins at nothing. A forward call takes turns with one of
the smallest size in the same process.

    python -m benchmarks.state marvel 10000000 1000000
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.criterion import METHODS, SIZE
from benchmarks.rows import Row, compared, measured, missing
from benchmarks.timing import in_turns, processor

CLASSES = 10
ROOM = 80
"""Bytes of free memory an instance that a measurement is allowed to take."""

Found = dict[str, Any]


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    smallest, *larger = (20_000, 30_000) if quick else (1_000_000, 10_000_000, 100_000_000)
    ask = here if quick else apart
    theirs = ask("aum", smallest, smallest).get("bytes")
    for name in ("marvel", "marvel+"):
        for n in (smallest, *larger):
            what = f"{name}, n={n:,}"
            free = memory("MemAvailable", "/proc/meminfo")
            if free is not None and free < ROOM * n:
                reason = f"needs {ROOM * n / 2**30:.0f} GiB free, {free / 2**30:.0f} are"
                yield missing(f"{what}: all of it", "", reason)
                continue
            found = ask(name, n, smallest)
            if n == smallest:
                yield an_instance(name, found["bytes"], theirs, smallest)
            if "peak" in found:
                times = f"{found['peak'] / (n * found['bytes']):.1f} times the state"
                yield Row(f"{what}: peak memory beyond torch's", found["peak"] / 2**30, "GiB", note=times)
            yield measured(f"{what}: step()", found["step"], "s")
            if n > smallest:
                forward = f"{what}: forward"
                yield compared(
                    forward, found["forward"], f"n={smallest:,}", found["forward of the smallest"], "µs", 1e6
                )


def an_instance(name: str, ours: float, theirs: float | None, n: int) -> Row:
    what = f"{name}: state an instance"
    target, met = ("at most 24 bytes", ours <= 24) if name == "marvel" else ("", None)
    if theirs is None:
        return Row(what, ours, "bytes", target=target, met=met, note="peer aum is not installed")
    peer = f"aum, n={n:,}"
    return Row(what, ours, "bytes", peer=peer, peer_value=theirs, ratio=ours / theirs, target=target, met=met)


def here(name: str, n: int, smallest: int) -> Found:
    """Measure in this process."""
    return aum(n) if name == "aum" else method(name, n, smallest)


def apart(name: str, n: int, smallest: int) -> Found:
    """Measure in a new process."""
    asked = [sys.executable, "-m", "benchmarks.state", name, str(n), str(smallest)]
    found: Found = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def method(name: str, n: int, smallest: int) -> Found:
    g = torch.Generator().manual_seed(0)
    logits, y = torch.randn(SIZE, CLASSES, generator=g), torch.randint(CLASSES, (SIZE,), generator=g)
    METHODS[name](SIZE, CLASSES)(logits, y, torch.arange(SIZE))  # what torch loads at the first call is not ours
    forget_peak()
    before = memory("VmRSS")
    criterion = METHODS[name](n, CLASSES)
    for tensor in criterion.remembered().values():
        tensor.mul_(1)  # memory counts once it was written
    steps = [processor(criterion.step, 1) for _ in range(3)]
    peak = memory("VmHWM")
    held = sum(tensor.nbytes for tensor in criterion.remembered().values() if tensor.shape[:1] == (n,))
    found: Found = {"bytes": held / n, "step": steps}
    if peak is not None and before is not None:
        found["peak"] = max(0, peak - before)
    if n > smallest:
        calls = {
            "forward": one_call(criterion, logits, y, g),
            "forward of the smallest": one_call(METHODS[name](smallest, CLASSES), logits, y, g),
        }
        in_turns(calls, 20)
        found |= in_turns(calls, 100)
    return found


def one_call(criterion: Any, logits: Tensor, y: Tensor, g: torch.Generator) -> Any:
    """Seconds of a forward call on instances from everywhere, others each time."""
    draws = cycle(torch.randint(criterion.n, (120, SIZE), generator=g))
    return lambda: processor(partial(criterion, logits, y, next(draws)), 1)


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
    print(json.dumps(here(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
