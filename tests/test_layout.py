"""The tree keeps its promises: imports go one way, no drawers for odds and ends, no pickle, a light `import marvel`."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import marvel

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "marvel"
FILES = sorted(PACKAGE.rglob("*.py"))

# A room is a module or a folder of src/marvel. It may import from itself and from the rooms listed here, no others:
#   method <- methods;  method <- trainer <- run <- bench <- cli;  runs <- report, review;  method <- integrations.
# In words: a method knows no trainer, the trainer knows no method by name, and reports read files, not running things.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "distributed": {"errors"},
    "memory": {"errors"},
    "metrics": {"errors"},
    "noise": {"errors"},
    "networks": {"errors"},
    "presets": {"errors"},
    "paper": {"errors", "presets"},
    "draws": set(),
    "handed": {"errors"},
    "issues": {"errors", "handed"},
    "method": {"errors", "distributed", "memory", "draws", "handed", "issues"},
    "methods": {"errors", "draws", "handed", "method", "metrics"},
    "data": {"errors", "distributed", "method"},
    "compiled": set(),
    "half": {"compiled"},
    "stopping": set(),
    "ledger": {"errors", "method", "metrics"},
    "plan": {"errors", "distributed", "method", "data"},
    "held": {"errors"},
    "runs": {"errors", "distributed", "held", "metrics"},
    "fast": {"errors", "distributed", "method", "data", "plan"},
    "config": {"errors", "method", "methods", "noise", "data", "networks", "presets"},
}
ALLOWED["prepare"] = {"errors", "data", "runs"}
ALLOWED["trainer"] = ALLOWED["fast"] | {"compiled", "config", "fast", "half", "ledger", "metrics", "networks", "runs"}
ALLOWED["run"] = ALLOWED["trainer"] | {"trainer", "held", "methods", "noise", "presets", "stopping"}
ALLOWED["results"] = {"errors", "config", "methods", "presets", "runs"}
ALLOWED["engines"] = ALLOWED["run"] | {"run", "experiment", "results"}
ALLOWED["bench"] = ALLOWED["engines"] | {"engines", "results"}
ALLOWED["cost"] = {"config", "presets"}
ALLOWED["experiment"] = {"errors", "config", "data", "paper", "presets"}
ALLOWED["tune"] = ALLOWED["bench"] | {"bench", "paper", "warmup"}
ALLOWED["clean"] = ALLOWED["run"] | {"run", "report"}
ALLOWED["warmup"] = {"errors", "methods"}
ALLOWED["report"] = {"errors", "config", "data", "metrics", "runs", "paper", "presets", "catalogue", "methods"}
ALLOWED["report"] |= {"cost", "experiment", "results", "warmup"}
ALLOWED["review"] = {"errors", "runs", "data", "report"}
ALLOWED["export"] = {"errors", "held", "runs", "data", "review", "prepare"}
ALLOWED["catalogue"] = {"config", "method", "methods"}
ALLOWED["demo"] = ALLOWED["run"] | {"run", "report"}
ALLOWED["labels"] = {"errors", "data", "runs"}
ALLOWED["loop"] = ALLOWED["clean"] | {"clean", "issues"}
ALLOWED["integrations"] = ALLOWED["trainer"] | {"trainer", "methods", "loop", "issues"}
ALLOWED["__init__"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}


def parts(path: Path) -> tuple[str, ...]:
    """src/marvel/data/batches.py -> ("marvel", "data", "batches")"""
    return path.relative_to(SRC).with_suffix("").parts


def room(path: Path) -> str:
    return parts(path)[1]


def name(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(node: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import, wherever it stands, those for type checkers only excepted."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield from imports(ast.Module([other], []), path)
        elif isinstance(child, ast.Import):
            yield from ((child.lineno, alias.name) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            package = parts(path)[: len(parts(path)) - child.level] if child.level else ()
            base = ".".join((*package, *(child.module or "").split("."))).strip(".")
            yield from ((child.lineno, f"{base}.{alias.name}") for alias in child.names)
        else:
            yield from imports(child, path)


def imported_room(dotted: str) -> str | None:
    """marvel.data.batches.Resident -> data; marvel.Marvel -> __init__; torch.nn -> None. The version is everybody's."""
    first, *rest = dotted.split(".")
    if first != "marvel" or rest[:1] == ["__version__"]:
        return None
    is_room = bool(rest) and ((PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").is_file())
    return rest[0] if is_room else "__init__"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    assert here in ALLOWED, f"{name(path)} is a new room: say in ALLOWED what it may import"
    wrong = [
        f"{name(path)}:{line}: {here} may not import {there} ({dotted})"
        for line, dotted in imports(tree(path), path)
        if (there := imported_room(dotted)) not in {None, here, *ALLOWED[here]}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycle_and_no_unknown_room() -> None:
    TopologicalSorter(ALLOWED).prepare()  # raises CycleError
    assert set().union(*ALLOWED.values()) <= set(ALLOWED)


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    source = """
        import torch.nn as nn
        from . import core
        from ..method import Batch
        from marvel import run as r, Marvel, __version__
        if TYPE_CHECKING:
            from marvel.trainer import Trainer
        else:
            import json
        def f():
            try:
                from marvel.cli import main
            except ImportError:
                import marvel
    """
    found = {dotted for _, dotted in imports(ast.parse(f"if True:{source}"), PACKAGE / "data" / "batches.py")}
    assert found == {
        *("torch.nn", "marvel.data.core", "marvel.method.Batch", "marvel.run", "marvel.Marvel"),
        *("marvel.__version__", "json", "marvel.cli.main", "marvel"),
    }


def test_no_drawer_for_odds_and_ends() -> None:
    drawers = {"util", "utils", "helper", "helpers", "common", "misc"}
    assert [name(path) for path in FILES if drawers & {part.strip("_") for part in parts(path)}] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_pickle(path: Path) -> None:
    """A pickle runs code when it is read. Two modules read other people's without that: CIFAR's files by `pickletools`,
    which only parses, and published weights by `weights_only=True`."""
    forbidden = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    if name(path) != "marvel/data/cifar_pickle.py":
        forbidden.add("pickletools")
    wrong = [
        f"{name(path)}:{line}: import of {dotted}"
        for line, dotted in imports(tree(path), path)
        if dotted.split(".")[0] in forbidden or dotted in ("torch.load", "torch.save")
    ]
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        careful = name(path) == "marvel/networks/weights.py" and given.get("weights_only") == "True"
        if called == "torch.save" or (called == "torch.load" and not careful):
            wrong.append(f"{name(path)}:{node.lineno}: {called} is pickle; use safetensors")
        if given.get("allow_pickle", "False") != "False":
            wrong.append(f"{name(path)}:{node.lineno}: allow_pickle={given['allow_pickle']}")
    assert not wrong, "\n".join(wrong)


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.split(r"[^\w.-]", requirement)[0] for requirement in project["dependencies"]]


def test_import_marvel_needs_torch_and_numpy_only() -> None:
    import_names = {"pillow": "PIL", "scikit-learn": "sklearn"}
    blocked = {import_names.get(package, package) for package in requirements()} - {"torch", "numpy"}
    assert {"PIL", "sklearn", "typer", "safetensors"} <= blocked
    blocked |= {"accelerate", "cleanlab", "datasets", "lightning", "optuna", "pandas", "pytorch_lightning"}
    blocked |= {"ray", "scipy", "timm", "torchvision", "transformers"}
    program = f"""
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)

sys.meta_path.insert(0, Block())
try:
    import typer
except ModuleNotFoundError:
    import marvel
    from marvel import *
    print(marvel.__version__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == marvel.__version__


def test_changelog_is_of_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d[^\]]*)\]", changelog, flags=re.MULTILINE)
    assert versions[:1] == [marvel.__version__]
