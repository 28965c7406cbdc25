"""Where experiments are found: by name, or in a file."""

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from marvel.errors import InvalidInput, UnknownName
from marvel.experiment import Experiment
from marvel.experiment.grid import read_grid

HERE = Path("experiments")


def find(name: str, besides: str = "") -> Experiment:
    """The experiment of that name or in that file; `besides` as of `UnknownName`."""
    path = Path(name)
    if path.suffix in (".py", ".toml"):
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}")
        return load(path)
    known = available()
    if name not in known:
        if not known:
            raise InvalidInput(f"no experiment '{name}': there is no folder {HERE} here; name a .py or .toml file")
        raise UnknownName("experiment", name, known, besides)
    return load(known[name])


def available() -> dict[str, Path]:
    """Where the experiments are that can be named here, those of ./experiments before Marvel's own."""
    found: dict[str, Path] = {}
    for folder in (*_ours(), HERE):
        found |= inside(folder)
    return dict(sorted(found.items()))


def inside(folder: Path) -> dict[str, Path]:
    """The experiments of a folder, by name; files that define none are what they share."""
    return {
        path.stem.replace("_", "-"): path
        for path in sorted((*folder.glob("*.toml"), *folder.glob("*.py")))
        if path.suffix == ".toml" or re.search(r"^EXPERIMENT\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _ours() -> Iterator[Path]:
    """In a wheel they lie beside this file, in a checkout at its root."""
    here = Path(__file__).resolve()
    yield here.with_name("paper")
    if (here.parents[3] / "pyproject.toml").is_file():
        yield here.parents[3] / "experiments"


def load(path: Path) -> Experiment:
    """The experiment in a file."""
    if path.suffix == ".toml":
        return read_grid(path)
    found = getattr(_module(path), "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        raise InvalidInput(f"{path} defines no EXPERIMENT: see docs/experiments.md for what one looks like")
    return replace(found, file=path)


def _module(path: Path) -> ModuleType:
    """The file as part of its folder, so that experiments may share: `from .binary import cells`."""
    folder = path.resolve().parent
    package = f"_experiments_{abs(hash(folder)):x}"
    if package not in sys.modules:
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(folder)]
    return importlib.import_module(f"{package}.{path.stem}")
