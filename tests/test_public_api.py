"""`marvel.__all__` is the public interface: sorted, complete, and nothing that is there by accident."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import marvel

ROOT = Path(__file__).resolve().parent.parent
LISTED = re.findall(r"^\| (`marvel\..*?) \|", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)


def order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions: the order `ruff check` asks for."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_all_is_sorted_and_unique() -> None:
    assert list(marvel.__all__) == sorted(set(marvel.__all__), key=order)


def test_all_is_what_can_be_imported() -> None:
    """Sub-modules become attributes as soon as somebody imports them: they count only where `__all__` names them."""
    importable = {name for name in dir(marvel) if not name.startswith("_")}
    modules = {name for name in importable if isinstance(getattr(marvel, name), ModuleType)}
    exported = set(marvel.__all__) - {"__version__"}
    assert exported - importable == set(), "in __all__, but not there"
    assert importable - modules - exported == set(), "public, but not in __all__"
    assert all(getattr(marvel, name).__name__ == f"marvel.{name}" for name in modules & exported)


def test_star_import() -> None:
    names: dict[str, object] = {}
    exec("from marvel import *", names)
    assert set(marvel.__all__) <= set(names)


@pytest.mark.parametrize("name", re.findall(r"`marvel\.(\w+)`", " ".join(LISTED)))
def test_modules_that_the_api_lists_are_there_after_import_marvel(name: str) -> None:
    """`marvel.data.load(...)`, as the pages write it, needs no further import. (Another test may have made one.)"""
    found = marvel.__getattr__(name)
    assert isinstance(found, ModuleType) and found.__name__ == f"marvel.{name}"


def test_import_marvel_alone_is_enough() -> None:
    program = "import marvel; print(marvel.data.load, 'torch' in __import__('sys').modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("<function load"), done.stderr
    done = subprocess.run(
        [sys.executable, "-c", "import sys, marvel; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "False"  # nothing is imported before it is used
