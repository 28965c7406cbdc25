"""What is installed is what was tested: the lock has the pins of constraints.txt, each with the hashes of its files."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def named(text: str) -> dict[str, str]:
    """Package -> version, of every line that pins one."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_lock_is_of_the_constraints_and_every_file_has_a_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins, tested = named(lock), named((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert len(pins) > 50 and "torch" not in pins
    assert {name: version for name, version in pins.items() if tested.get(name, version) != version} == {}
    parts = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", part) for part in parts)


def test_the_lock_has_all_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"]]
    wanted += [one for name in ("lightning", "hf", "tune", "cleanlab") for one in extras[name]]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", one)[0]).lower() for one in wanted}
    pins = named((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert names - {"torch", "marvel-learn"} <= set(pins), "make lock"
