"""Every reader under atheris (`make soak`)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nursery import ROOT, environment
from soaking import NOTES, note
from test_hostile import PROMISE, READERS

SECONDS = int(os.environ.get("MARVEL_FUZZ_SECONDS", 30))


@pytest.mark.skipif(NOTES is None, reason="takes minutes: make soak")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", READERS)
def test_inputs_that_atheris_finds(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    words = [sys.executable, str(ROOT / "tests" / "fuzzing.py"), kind, str(tmp_path), f"-max_total_time={SECONDS}"]
    done = subprocess.run(
        [*words, "-verbosity=0", "-print_final_stats=1"],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert runs, done.stderr[-2000:]
    note(PROMISE, inputs_of_atheris=int(runs[1]))
