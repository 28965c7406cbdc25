"""What README and docs say can be done can be done: snippets run, commands parse, links and named tests exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from marvel import METHODS
from marvel.cli import main
from marvel.config import Config
from marvel.data import DATASETS
from marvel.networks import NETWORKS
from marvel.noise import NOISE
from marvel.run import Run, train

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
OTHERS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CONTRIBUTING.md")}

RUN = re.compile(r"^<!-- run -->\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```(?:sh|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """Every command line that is shown in a block, or begins with `marvel` between back-quotes, as words."""
    for block in SHELL.findall(text):
        yield from (words for line in block.splitlines() if (words := shlex.split(line, comments=True)))
    yield from (shlex.split(line) for line in re.findall(r"`(marvel \w+ --[^`]*)`", text))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with the files that the documents speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARVEL_DATA", str(tmp_path / "no-datasets"))
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    rng = np.random.default_rng(0)
    kind = np.arange(90) % 3
    x = 2 * rng.standard_normal((3, 8))[kind] + rng.standard_normal((90, 8))
    names = np.array(["ash", "birch", "cedar"])[kind]
    np.savez("mine.npz", x=x, y=names)
    for species in ("cat", "dog"):
        Path("photos", species).mkdir(parents=True)
        for k in range(4):
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(f"photos/{species}/{k}.png")
    images = [f"photos/{species}/{k}.png,{species}" for species in ("cat", "dog") for k in range(4)]
    Path("photos.csv").write_text("\n".join(["file,species", *images]))
    flowers = [f"f{k},{x[k, 0]:.3f},{['red', 'blue'][k % 2]},{names[k]}" for k in range(90)]
    Path("flowers.csv").write_text("\n".join(["name,height,colour,species", *flowers]))
    np.save("vectors.npy", x)
    Path("labels.csv").write_text("species,height\n" + "".join(f"{name},1\n" for name in names))
    return tmp_path


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if RUN.search(text)])
def test_snippets_run(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "trimmed", METHODS["ce"])  # so that what a snippet adds is gone afterwards
    if "runs/mine" in TEXTS[name]:
        train(Config(data="mine.npz", epochs=3), "runs/mine")
    known: dict[str, Any] = {"__name__": "__main__"}
    for snippet in RUN.findall(TEXTS[name]):
        exec(compile(snippet, name, "exec"), known)


def test_the_short_method_is_that_of_the_examples() -> None:
    lines = RUN.findall(TEXTS["docs/adding-a-method.md"])[0].splitlines()
    body = lines[next(i for i, line in enumerate(lines) if line.startswith("class ")) :]
    assert len(body) <= 10
    example = (ROOT / "examples" / "own_method.py").read_text(encoding="utf-8")
    assert body[-1] in example and body[-2] in example


@pytest.mark.parametrize("name", TEXTS)
def test_commands_parse(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trainings run for an epoch; where they need real data, all but the data is found in order."""
    for file, content in re.findall(r"^# (\w+\.toml)\n(.*?)^```", TEXTS[name], re.MULTILINE | re.DOTALL):
        (place / file).write_text(content)
    for words in commands(TEXTS[name]):
        if words[0] == "make":
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        elif words[0] == "python":
            program = words[2].replace(".", "/") if words[1] == "-m" else words[1]
            places = (f"src/{program}.py", f"src/{program}/__main__.py", program)
            assert any((ROOT / place).is_file() for place in places), words
        elif words[0] == "marvel":
            check(words[1:], capsys)


def check(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "..." in words or any(word.isupper() and len(word) > 1 for word in words):
        return  # a form, not a command
    # They take too long for a test, or are of a run that is not here.
    if words[0] in ("clean", "demo", "export", "review", "tune") or " ".join(words).startswith("report runs/"):
        flags = [word for word in words if word.startswith("--")]
        words, expected = [words[0], "--help"], flags
    else:
        expected = []
    if words[0] == "train" and "--help" not in words:
        words = [*words, "--epochs", "1", "--device", "cpu", "--workers", "0", "--quiet"]
        words += ["--resume"] if "--out" in words and Path(words[words.index("--out") + 1]).exists() else []
        words += ["--out", f"runs/{len(list(Path().glob('runs/*')))}"] if "--out" not in words else []
    if words[0] == "bench" and not {"--help", "--list"} & set(words):
        words = [*words, "--dry-run"]
    if words[0] == "noise" and "--out" in words:
        words = [*words, "--force"]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    said = capsys.readouterr()
    assert not stopped.value.code or "not found: looked for" in said.err, (words, said.err)
    assert all(flag in said.out for flag in expected), words


def test_some_commands_are_found() -> None:
    found = [words for text in TEXTS.values() for words in commands(text)]
    assert sum(words[0] == "marvel" for words in found) >= 12
    assert ["make", "demo"] in [words[:2] for words in found]


@pytest.mark.parametrize("name", [*TEXTS, *OTHERS])
def test_links_lead_somewhere(name: str) -> None:
    text = (TEXTS | OTHERS)[name]
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://")):
            path, _, anchor = target.partition("#")
            there = (ROOT / name).parent / path
            assert there.exists(), f"{name}: {target}"
            assert not anchor or anchor in anchors(there.read_text(encoding="utf-8")), f"{name}: {target}"


def anchors(text: str) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_named_tests_exist() -> None:
    named = re.findall(r"`tests/(\w+\.py)::(\w+)`", TEXTS["docs/fidelity.md"])
    assert len(named) >= 20
    for file, test in named:
        assert re.search(rf"^def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_nothing_there_is_goes_unsaid() -> None:
    said = {
        "README.md": [*METHODS, *DATASETS, *(name for name in NOISE if name != "none")],
        "docs/methods.md": [*METHODS],
        "docs/noise.md": [*NOISE],
        "docs/data.md": [*DATASETS, *NETWORKS],
    }
    missing = {page: [name for name in names if f"`{name}`" not in TEXTS[page]] for page, names in said.items()}
    assert missing == {page: [] for page in said}
    assert set(re.findall(r"\]\((\w[\w-]+\.md)\)", TEXTS["docs/index.md"])) >= {
        path.name for path in DOCUMENTS if path.parent.name == "docs" and path.name != "index.md"
    }


def test_the_readme_is_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 155


def test_an_interrupted_run_goes_on_bit_for_bit(place: Path) -> None:
    """README: "after an interruption: the result is the same, bit for bit"."""
    config = Config(data="digits", noise="symmetric", rate=0.4, method="marvel+", epochs=6, options={"wait": 2})
    whole = train(config, "runs/whole")
    interrupted = Run(config, "runs/cut").steps()
    for shown in interrupted:
        if shown is not None and shown.epoch == 3:
            break
    interrupted.close()  # type: ignore[attr-defined]
    resumed = train(config, "runs/cut", resume=True)
    assert resumed.record is not None and whole.record is not None
    for key in ("final", "chosen", "curves", "histograms"):
        assert resumed.record[key] == whole.record[key], key
    for name, column in whole.instances().items():
        assert np.array_equal(resumed.instances()[name], column), name
