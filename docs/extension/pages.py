"""The pages that are not written but made, each time the site is built: methods, API, programs, changelog.

They are written beside the others, into folders that git ignores, and only where they changed, so that a second build
reads no more than it must.
"""

import re
from pathlib import Path

from extension.api import api_pages
from extension.methods import method_pages

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
FOLDERS = ("method", "api", "about")


def write(app: object) -> None:
    """Make them all, and remove what was made before and is no more."""
    made = all_pages()
    for name, text in made.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for folder in FOLDERS:
        for path in (DOCS / folder).glob("*.md"):
            if path.relative_to(DOCS).as_posix() not in made:
                path.unlink()


def all_pages() -> dict[str, str]:
    """Every made page by its place in docs/."""
    return {
        **method_pages(ROOT),
        **api_pages(),
        "about/examples.md": examples(),
        "about/changelog.md": moved("CHANGELOG.md"),
        "about/contributing.md": moved("CONTRIBUTING.md"),
    }


def examples() -> str:
    """The programs of examples/, with what they say of themselves above them."""
    parts = ["# Examples", "Whole programs to copy from, in the folder `examples`. The tests run every one of them."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts += [f"## {path.name}", f"```python\n{path.read_text(encoding='utf-8').strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def moved(name: str) -> str:
    """A page of the root of the repository."""
    return led((ROOT / name).read_text(encoding="utf-8"))


def led(text: str) -> str:
    """A text of the root, its links led right from docs/about."""
    return re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", lambda link: f"]({_from_about(link[1])})", text)


def _from_about(target: str) -> str:
    if target in ("CHANGELOG.md", "CONTRIBUTING.md"):
        return target.lower()
    return f"../{target.removeprefix('docs/')}" if target.startswith("docs/") else f"../../{target}"
