"""The oldest and the newest versions Marvel works with, each tried in a virtual environment of its own.

python -m benchmarks.versions                    lowest and newest; results/versions.json, docs/integrations.md
python -m benchmarks.versions newest-torch       the newest torch too, whatever build the index has of it (5 GB)
python -m benchmarks.versions --table            try nothing: put the figures into the document

lowest        the lower bounds of pyproject.toml
newest        what the index has, without constraints.txt; the CPU build of torch, where UV_FIND_LINKS has one
newest-torch  the same, and torch from the index

The tests of the adapters and of the core run in each. Warnings of other packages about one another do not fail them.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS, DOCUMENT = ROOT / "results" / "versions.json", ROOT / "docs" / "integrations.md"
MARK = re.compile(r"(<!-- versions: results/versions.json -->\n).*?(<!-- end of versions -->)", re.DOTALL)

SETS = ("lowest", "newest", "newest-torch")
TESTS = (
    *("sklearn", "lightning", "huggingface", "accelerate", "tracking", "interoperability", "loop"),
    *("contract", "method", "marvel"),
)
SHOWN = (
    *("torch", "numpy", "scikit-learn", "lightning", "pytorch-lightning", "transformers", "accelerate", "datasets"),
    *("cleanlab", "pandas", "polars", "duckdb", "tensorboard", "pyarrow", "safetensors", "pillow", "typer", "fastapi"),
)
VERSIONS = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"

Facts = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("versions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--table", action="store_true", help="only write the table into the document")
    parser.add_argument("--workers", default="2", help="processes that test")
    parser.add_argument(
        "--folder", type=Path, help="where the environments are made, and stay; default: nowhere for long"
    )
    parser.add_argument("--tests", nargs="*", default=TESTS, help="names of test files; default: adapters and core")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.sets) - set(SETS))
    if unknown:
        parser.error(f"no set {unknown[0]}: {', '.join(SETS)}")
    found: Facts = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in () if given.table else given.sets or SETS[:2]:
        folder = given.folder or Path(tempfile.mkdtemp(prefix="marvel-versions-"))
        try:
            found[name] = tried(name, folder / name, given.workers, given.tests)
        finally:
            if given.folder is None:
                shutil.rmtree(folder, ignore_errors=True)
        RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        print(said(name, found[name]), flush=True)
    rewrite(found)
    if any(facts["failed"] for name, facts in found.items() if name in (given.sets or SETS[:2])):
        sys.exit(1)


def tried(name: str, folder: Path, workers: str, tests: list[str]) -> Facts:
    """Build the environment, run the tests in it, and say what there was and what came of it."""
    python = folder / "bin" / "python"
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if uv is None:
        sys.exit("versions: uv is not here: make setup installs it")
    if not python.exists():
        run([uv, "venv", "-q", "--python", sys.executable, str(folder)])
    run([uv, "pip", "install", "-q", "--python", str(python), *asked(name), "-e", f"{ROOT}[dev]"])
    report = folder / "tests.xml"
    files = [str(ROOT / "tests" / f"test_{test}.py") for test in tests]
    options = ["-q", "-W", "default", "-p", "no:cacheprovider", "-n", workers, f"--junitxml={report}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [str(python), "-m", "pytest", *options, "-m", "not slow and not gpu and not browser", *files]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if not report.exists():
        sys.exit(f"versions: the tests of {name} did not run (pytest ended with {code})")
    asked_for = subprocess.run([str(python), "-c", VERSIONS, *SHOWN], capture_output=True, text=True, check=True)
    return {
        "on": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "platform": platform.system() + " " + platform.machine(),
        "versions": json.loads(asked_for.stdout),
        **counts(report),
    }


def asked(name: str) -> list[str]:
    """What uv is told besides."""
    if name == "lowest":
        return ["--resolution", "lowest-direct"]
    wheel = offered() if name == "newest" else None
    return ["--upgrade"] if wheel is None else ["--upgrade", f"torch=={wheel}"]


def offered() -> str | None:
    """The newest CPU build of torch in the folders of wheels, where there is one."""
    folders = [Path(folder) for folder in re.split(r"[,\s]+", os.environ.get("UV_FIND_LINKS", "")) if folder]
    named = [re.match(r"torch-([\d.]+\+cpu)-", path.name) for folder in folders for path in folder.glob("torch-*.whl")]
    versions = [match[1] for match in named if match]
    return max(versions, key=lambda text: [int(part) for part in text.partition("+")[0].split(".")], default=None)


def counts(report: Path) -> Facts:
    suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    of = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = of["failures"] + of["errors"]
    return {"passed": of["tests"] - failed - of["skipped"], "failed": failed, "skipped": of["skipped"]}


def run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"versions: {' '.join(command)} ended with {done.returncode}")


# ------------------------------------------------------------ what is said of it


def said(name: str, facts: Facts) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in facts["versions"].items())
    outcome = f"{facts['passed']} passed, {facts['failed']} failed, {facts['skipped']} skipped"
    return f"{name}: {outcome}; Python {facts['python']}, {versions}"


def markdown(found: Facts) -> str:
    names = [name for name in SETS if name in found]
    rows = [["", *names], ["---"] * (len(names) + 1)]
    rows += [[package, *(found[name]["versions"][package] for name in names)] for package in SHOWN]
    rows += [[key, *(str(found[name][key]) for name in names)] for key in ("passed", "failed", "skipped")]
    rows += [["Python", *(found[name]["python"] for name in names)], ["on", *(found[name]["on"] for name in names)]]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def rewrite(found: Facts) -> None:
    """Put the table between the marks of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(MARK.sub(lambda mark: f"{mark[1]}\n{markdown(found)}\n{mark[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
