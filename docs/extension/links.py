"""After the build: every link inside the site leads somewhere, and opening a page fetches nothing from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FETCHED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            if value and (tag, name) in FETCHED | {("a", "href")}:
                self.links.add(value)
            if value and (tag, name) in FETCHED and urlsplit(value).netloc:
                self.fetched.add(value)


def check(app: "Sphinx", failure: Exception | None) -> None:
    from sphinx.util import logging

    if failure is None and app.builder.name == "html":
        for wrong in broken(Path(app.outdir)):
            logging.getLogger(__name__).warning(wrong)


def broken(site: Path) -> list[str]:
    """What is wrong with the links of a built site, a line each."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        here = path.relative_to(site)
        wrong += [f"{here} fetches {address}" for address in sorted(page.fetched)]
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{here}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{here}: {link} (no such anchor)")
    return wrong
