"""`make versions`: the table in the docs is that of its results, and the lowest versions are the lower bounds."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """It lies beside the package, not in it."""
    monkeypatch.syspath_prepend(str(ROOT))
    return pytest.importorskip("benchmarks.versions")


def test_the_table_is_that_of_the_results(versions: Any) -> None:
    found = json.loads(versions.RESULTS.read_text(encoding="utf-8"))
    assert versions.markdown(found) in versions.DOCUMENT.read_text(encoding="utf-8")
    assert all(facts["passed"] > 400 and not facts["failed"] for facts in found.values())


def test_the_lowest_are_the_lower_bounds(versions: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    bounds = {match[1]: match[2] for line in lines if (match := re.match(r"([\w-]+)>=([\d.]+)", line))}
    tried = json.loads(versions.RESULTS.read_text(encoding="utf-8"))["lowest"]["versions"]
    for package in ("torch", "numpy", "scikit-learn", "lightning", "pytorch-lightning", "transformers", "accelerate"):
        assert f"{tried[package]}.".startswith(f"{bounds[package]}."), package


def test_the_cpu_build_is_found_among_wheels(versions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch-2.9.1+cpu-cp311.whl", "torch-2.13.0+cpu-cp311.whl", "torch-2.15.0-cp311.whl", "torchx-9.whl"):
        (tmp_path / name).touch()
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path / 'none'},{tmp_path}")
    assert versions.asked("newest") == ["--upgrade", "torch==2.13.0+cpu"]
    monkeypatch.delenv("UV_FIND_LINKS")
    assert versions.asked("newest") == versions.asked("newest-torch") == ["--upgrade"]
    assert versions.asked("lowest") == ["--resolution", "lowest-direct"]


def test_tests_are_counted(versions: Any, tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>')
    assert versions.counts(report) == {"passed": 3, "failed": 3, "skipped": 3}
