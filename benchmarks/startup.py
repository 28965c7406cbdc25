"""How long one waits for `import marvel` and for `marvel --help`, in fresh processes.

Bytecode is kept in a folder of its own and made before anything is measured: some installations have none, and then
compiling torch's sources is all one would see.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import torch

from benchmarks.rows import Row, compared, measured, missing
from benchmarks.timing import in_turns

# Beyond torch, told from inside one process: torch's own seconds vary by more than ours are.
BEYOND = "import time, torch; t = time.perf_counter(); from marvel import Marvel; print(time.perf_counter() - t)"
TORCH = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"
MOST = 0.2


def rows(device: torch.device, quick: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        python = partial(run, {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""})
        jobs: dict[str, Callable[[], float]] = {"bare": lambda: python("-c", "import marvel")[0]}
        if find_spec("typer"):
            jobs["help"] = lambda: python("-m", "marvel", "--help")[0]
        if not quick:
            jobs["beyond"] = lambda: float(python("-c", BEYOND)[1])
            jobs["torch"] = lambda: float(python("-c", TORCH)[1])
            in_turns(jobs, 1)
        samples = in_turns(jobs, 1 if quick else 5)
    if "help" in samples:
        yield measured("marvel --help", samples["help"], "s", most=0.5)
    else:
        yield missing("marvel --help", "s", "typer is not installed")
    yield measured("python -c 'import marvel'", samples["bare"], "s")
    if not quick:
        what = "from marvel import Marvel, after torch"
        row = compared(what, samples["beyond"], "import torch", samples["torch"], "s")
        yield replace(row, target=f"at most {MOST} s", met=row.value is not None and row.value <= MOST)


def run(environment: dict[str, str], *arguments: str) -> tuple[float, str]:
    """Seconds by the clock on the wall, and what was printed."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment)
    return time.perf_counter() - began, done.stdout
