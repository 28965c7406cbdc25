"""The documentation site, as far as it is ours: made pages, contents, the reference, links. `make docs` builds it."""

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from PIL import Image

import marvel
from browser import LAPTOP, PHONE, Tab, chromium
from marvel import METHODS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILT = DOCS / "_build" / "html"
sys.path.insert(0, str(DOCS))

from extension import links, pages, texts  # noqa: E402
from extension.described import described  # noqa: E402
from extension.methods import TABLES, page_of  # noqa: E402


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages.all_pages()


def page(made: dict[str, str], key: str) -> str:
    return made[f"method/{page_of(key)}.md"]


# ---------------------------------------------------------------- methods


def test_every_method_has_a_page_of_its_own(made: dict[str, str]) -> None:
    assert {name for name in made if name.startswith("method/")} == {f"method/{page_of(key)}.md" for key in METHODS}
    assert len({page_of(key) for key in METHODS}) == len(METHODS)
    for key, kind in METHODS.items():
        said = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "")
        for paragraph in [*said.split("\n\n")[1:], inspect.cleandoc(kind.__doc__ or "")]:
            assert paragraph in page(made, key), key


def records() -> list[dict[str, Any]]:
    files = [path for path in (ROOT / "results").glob("*.jsonl") if not path.name.endswith(".failed.jsonl")]
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def test_pages_hold_what_we_measured(made: dict[str, str]) -> None:
    """Read off the records without the code that makes the tables: the mean over the seeds of each setting. A default
    that is spelled out is the same setting as one that is not."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for record in records():
        names = ("data", "network", "noise", "rate", "rates", "method", "epochs", "lr", "drops", "schedule", "batch")
        config = {key: record["config"][key] for key in names}
        parameters = inspect.signature(METHODS[config["method"]]).parameters.values()
        usual = {one.name: one.default for one in parameters if one.default is not one.empty}
        key = (config["method"], json.dumps(config), str(sorted((usual | record["config"]["options"]).items())))
        groups.setdefault(key, []).append(100 * record["final"]["test_accuracy"])
    assert groups
    for (method, *_), accuracies in groups.items():
        assert f"{fmean(accuracies):.1f} (" in page(made, method), (method, accuracies)


def test_pages_hold_what_the_paper_has(made: dict[str, str]) -> None:
    content = json.loads((ROOT / "src" / "marvel" / "paper.json").read_text(encoding="utf-8"))
    rows = [dict(zip(content["fields"], row, strict=True)) for row in content["rows"]]
    shown = [row for row in rows if row["table"].replace("-", "_") in TABLES and row["mean"] is not None]
    assert len(shown) > 200
    for row in shown:
        assert re.search(rf"\| {row['mean']:.1f} \(", page(made, row["method"])), row


def test_a_method_without_numbers_says_so(made: dict[str, str]) -> None:
    measured = {record["config"]["method"] for record in records()}
    content = json.loads((ROOT / "src" / "marvel" / "paper.json").read_text(encoding="utf-8"))
    in_the_paper = {row[content["fields"].index("method")] for row in content["rows"]}
    for key in set(METHODS) - measured - in_the_paper:
        assert "have numbers of this method" in page(made, key), key


# ---------------------------------------------------------------- contents


def test_the_sidebar_has_every_page_once(made: dict[str, str]) -> None:
    trees = []
    for name in ("index", "methods", "api"):
        text = texts.adapted(name, (DOCS / f"{name}.md").read_text(encoding="utf-8"))
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            trees += [line for line in tree.splitlines() if line and not line.startswith(":")]
    written = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert sorted(trees) == sorted({*written, *(name.removesuffix(".md") for name in made)})


def test_nothing_stray_is_built() -> None:
    """What is a page is in the sidebar; what is no page lies where the build does not look."""
    settings: dict[str, Any] = {"__file__": str(DOCS / "conf.py")}
    exec((DOCS / "conf.py").read_text(encoding="utf-8"), settings)
    assert settings["exclude_patterns"] == ["_build"]
    folders = {path.parent.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    assert folders - {"."} <= set(pages.FOLDERS)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {f"docs/{folder}/" for folder in (*pages.FOLDERS, "_build")} <= set(ignored)


def test_pages_read_on_their_own_are_plain_markdown() -> None:
    """Of the site's own markup there is none in what GitHub shows, but for the cells of the tutorial."""
    for path in [ROOT / "README.md", *DOCS.glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"^(?:```+|:::+)\{([\w:-]+)\}|\{(?:ref|doc|py:\w+)\}`", text, re.MULTILINE)
        assert set(found) <= ({"code-cell"} if path.name == "tutorial.md" else set()), path


def test_cells_of_the_tutorial_are_python() -> None:
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert text.startswith("---\nfile_format: mystnb\n")
    cells = re.findall(r"^```\{code-cell\} python\n(?::tags:[^\n]*\n)?(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(cells) >= 8
    for cell in cells:
        compile(cell, "tutorial.md", "exec")


@pytest.mark.parametrize("name", ["report", "review", "review-grid"])
def test_screenshots_have_twins_for_the_dark(name: str) -> None:
    light, dark = (Image.open(DOCS / "figures" / f"{name}{added}.png") for added in ("", "-dark"))
    assert light.size == dark.size
    lightness = [fmean(picture.convert("L").resize((64, 64)).tobytes()) for picture in (light, dark)]
    assert lightness[0] > 180 > 100 > lightness[1]
    assert all((DOCS / "figures" / f"{name}{added}.png").stat().st_size < 150_000 for added in ("", "-dark"))


# ---------------------------------------------------------------- the reference


def test_everything_public_is_described(made: dict[str, str]) -> None:
    whole = "\n".join(made.values())
    described_names = set(re.findall(r"^`+\{py:(?:class|function)\} marvel(?:\.errors)?\.(\w+)", whole, re.MULTILINE))
    assert described_names >= set(marvel.__all__) - {"METHODS"}


@pytest.mark.parametrize("name", sorted(set(marvel.__all__) - {"METHODS"}))
def test_signatures_are_those_python_sees(name: str) -> None:
    thing = getattr(marvel, name)
    if isinstance(thing, type) and issubclass(thing, Exception):
        return  # Exception takes anything
    shown = re.match(rf"`+\{{py:\w+\}} marvel\.{name}\((.*?)\)(?: ->.*)?$", described("marvel", name), re.MULTILINE)
    assert shown is not None
    (stub,) = ast.parse(f"def stub({shown[1]}): ...").body
    assert isinstance(stub, ast.FunctionDef)
    given = stub.args
    alone = [one for one in (given.vararg, given.kwarg) if one is not None]
    names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *alone)}
    assert names == set(inspect.signature(thing).parameters)


def test_docstrings_are_all_there(made: dict[str, str]) -> None:
    for name in ("step", "forward", "issues", "remove"):
        said = inspect.cleandoc(getattr(marvel.Method, name).__doc__)
        assert said in made["api/criterion.md"]


# ---------------------------------------------------------------- links


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<h1 id="top">b</h1><a href="../a.html#here">a</a><img src="c%20d.png">')
    (tmp_path / "sub" / "c d.png").write_bytes(b"")
    good = '<p id="here"><a href="sub/b.html#top">b</a><a href="https://example.org">out</a><a href="#here">up</a>'
    (tmp_path / "a.html").write_text(good)
    assert links.broken(tmp_path) == []
    bad = '<a href="none.html">x</a><a href="sub/b.html#no">y</a><a href="#no">z</a><script src="https://cdn.org/x.js">'
    (tmp_path / "a.html").write_text(good + bad)
    assert links.broken(tmp_path) == [
        "a.html fetches https://cdn.org/x.js",
        "a.html: #no (no such anchor)",
        "a.html: none.html",
        "a.html: sub/b.html#no (no such anchor)",
    ]


def test_links_out_of_docs_lead_to_made_pages(made: dict[str, str]) -> None:
    text = texts.adapted("x", "[a](../CHANGELOG.md) [b](../examples/plain_loop.py) [data.md](data.md) [c](data.md)")
    assert text == "[a](about/changelog.md) [b](about/examples.md#plain_looppy) [](data.md) [c](data.md)"
    assert texts.adapted("x", "| 88.4 (0.2, 5) | 9 % of |\n7 % 4") == "| 88.4\u00a0(0.2,\u00a05) | 9\u00a0% of |\n7 % 4"
    assert "## plain_loop.py" in made["about/examples.md"]
    assert "](../quickstart.md)" in pages.led("see [q](docs/quickstart.md)")
    assert pages.led("[x](CONTRIBUTING.md) [y](LICENSE)") == "[x](contributing.md) [y](../../LICENSE)"


# ---------------------------------------------------------------- what it looks like


@pytest.mark.browser
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_no_page_sticks_out_or_asks_for_anything(size: tuple[int, int]) -> None:
    if not (BUILT / "index.html").is_file():
        pytest.skip("the site is not built here: make docs")
    with chromium() as browser:
        tab = Tab(browser, size, "dark", offline=True)
        for path in sorted(BUILT.rglob("*.html")):
            tab.page.goto(path.as_uri())
            assert tab.fits(), path
        assert tab.errors == []
        assert all(address.startswith(("file:", "data:")) for address in tab.requests)
