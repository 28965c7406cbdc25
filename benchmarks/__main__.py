"""Measure what this machine can, print one table, and write the figures down.

python -m benchmarks                                  everything; results/benchmarks-<cpu|gpu>.json
python -m benchmarks --only criterion --only step     some of it; the rest of the file stays
python -m benchmarks --table docs/performance.md      measure nothing: put the figures into the document
"""

import argparse
import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    arithmetic,
    criterion,
    full_run,
    input,
    million,
    startup,
    state,
    step,
    streaming,
    table,
    throughput,
)
from benchmarks.rows import Row
from benchmarks.state import memory
from marvel.run import environment

PIECES: dict[str, Callable[..., Iterable[Row]]] = {
    "criterion": criterion.rows,
    "step": step.rows,
    "throughput": throughput.rows,
    "streaming": streaming.rows,
    "state": state.rows,
    "startup": startup.rows,
    "input": input.rows,
    "full-run": full_run.rows,
    "arithmetic": arithmetic.rows,
    "million": million.rows,
}
OF_THE_CPU = ("state", "startup", "input", "arithmetic", "million")
"""Pieces that a GPU has no part in."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", choices=PIECES, help="measure this piece; may be repeated")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="default: the GPU where there is one")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that it works, not to measure")
    parser.add_argument("--instances", type=int, help="of the piece `million`; default: a million")
    parser.add_argument("--full", action="store_true", help="train the full run to its end")
    parser.add_argument("--out", type=Path, help="where to write; default: results/benchmarks-<cpu|gpu>.json")
    parser.add_argument("--table", type=Path, help="rewrite the marked tables of this document, and measure nothing")
    args = parser.parse_args(arguments)
    if args.table:
        print("put into", args.table, "the figures of", *table.rewrite(args.table))
        return
    kind = args.device or ("gpu" if torch.cuda.is_available() else "cpu")
    device = torch.device("cuda" if kind == "gpu" else "cpu")
    out: Path = args.out or Path(f"results/benchmarks-{kind}.json")
    if args.quick and args.out is None:
        parser.error("--quick measures nothing worth keeping: say where with --out")
    torch.set_num_threads(1)
    before = json.loads(out.read_text()) if out.exists() else {}
    found: dict[str, Any] = {}
    for name in args.only or [name for name in PIECES if kind == "cpu" or name not in OF_THE_CPU]:
        facts = {"on": f"{datetime.date.today()}", "load": load(), "environment": surroundings(device, args)}
        began, rows = time.perf_counter(), []
        options = {"full-run": {"full": args.full}, "million": {"instances": args.instances}}.get(name, {})
        for row in PIECES[name](device, args.quick, **options):
            print(*filter(None, table.cells(name, row.facts())), sep="  ", flush=True)
            rows.append(row.facts())
        found[name] = {**facts, "seconds": round(time.perf_counter() - began, 1), "rows": rows}
        known = before | found
        out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({name: known[name] for name in PIECES if name in known}, indent=1, ensure_ascii=False)
        out.write_text(text + "\n", encoding="utf-8")
    table.show(found)
    print("written to", out)


def surroundings(device: torch.device, args: argparse.Namespace) -> dict[str, Any]:
    """Versions and hardware, and the command that measures the same again."""
    said = [f"--only {name}" for name in args.only or ()] + [f"--{f}" for f in ("quick", "full") if getattr(args, f)]
    said += [] if args.instances is None else [f"--instances {args.instances}"]
    found: dict[str, Any] = environment(device)
    total = memory("MemTotal", "/proc/meminfo")
    return found | {
        "device": found["device"] if device.type == "cuda" else processor(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": None if total is None else round(total / 2**30),
        "threads": torch.get_num_threads(),
        "command": " ".join(["python -m benchmarks", *said]),
    }


def processor() -> str:
    """The processor's name, as Linux or Python tell it."""
    cpuinfo = Path("/proc/cpuinfo")
    named = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    return named[0].split(":")[1].strip() if named else platform.processor() or platform.machine()


def load() -> list[float]:
    """How many processes wanted the processor over the last 1, 5 and 15 minutes."""
    return [round(value, 1) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


if __name__ == "__main__":
    main()
