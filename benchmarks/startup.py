"""How long one waits for `import marvel` and for `marvel --help`, in fresh processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

import torch

from benchmarks.rows import Row, compared, measured, missing
from benchmarks.timing import in_turns

# Beyond torch, told from inside one process: torch's own seconds vary by more than ours are.
BEYOND = "import time, torch; t = time.perf_counter(); from marvel import Marvel; print(time.perf_counter() - t)"
TORCH = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    jobs = {"bare": lambda: wall("-c", "import marvel")}
    if find_spec("typer"):
        jobs["help"] = lambda: wall("-m", "marvel", "--help")
    if not quick:
        jobs |= {"beyond": lambda: told(BEYOND), "torch": lambda: told(TORCH)}
    samples = in_turns(jobs, 1 if quick else 5)
    if "help" in samples:
        yield measured("marvel --help", samples["help"], "s", most=0.5)
    else:
        yield missing("marvel --help", "s", "typer is not installed")
    yield measured("python -c 'import marvel'", samples["bare"], "s")
    if not quick:
        target = "0.2 s at most"
        row = compared(
            "from marvel import Marvel, after torch", samples["beyond"], "import torch", samples["torch"], "s"
        )
        yield Row(**row.__dict__ | {"target": target, "met": row.value is not None and row.value <= 0.2})


def wall(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def told(program: str) -> float:
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(done.stdout)
