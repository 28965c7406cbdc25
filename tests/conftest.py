"""What all tests share: one thread, hypothesis without a stop-watch, and where the real datasets are."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("MPLBACKEND", "Agg")
torch.set_num_threads(1)

# deadline=None: a shared machine makes any one example slow. print_blob: a failure can be replayed anywhere.
settings.register_profile("ci", deadline=None, max_examples=50, print_blob=True)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real datasets, beside the repository; tests that ask for it are skipped where it is not."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real datasets are not here")
    return folder
