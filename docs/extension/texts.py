"""What is read well on its own gets what a site has besides: a sidebar, links to made pages."""

import re

from sphinx.application import Sphinx

from extension.methods import page_of

PARTS = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\((?!https?:)([^)#\s]+)\.md\)")
METHOD_PAGES = re.compile(r"^<!-- made: method-pages -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def adapt(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = adapted(page, source[0])


def adapted(page: str, text: str) -> str:
    """The text of a page as the site has it."""
    text = re.sub(r"\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md\)", lambda link: f"](about/{link[1].lower()}.md)", text)
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](about/examples.md#\1py)", text)
    text = text.replace("](../examples)", "](about/examples.md)")
    if page == "index":
        return text + contents(text)
    if page == "methods":
        text = METHOD_PAGES.sub(toctree(sorted_methods(), glob=False), text)
        return re.sub(
            r"^\| `([^`]+)` \|", lambda row: f"| [`{row[1]}`](method/{page_of(row[1])}.md) |", text, flags=re.M
        )
    if page == "api":
        return text + toctree(["api/*"], glob=True)
    return text


def contents(index: str) -> str:
    """The sidebar: what each part of the index links to, in its order."""
    trees = []
    for heading, part in PARTS.findall(index):
        pages = list(dict.fromkeys(PAGE.findall(part)))
        if pages:
            trees.append(toctree(pages, glob=False, caption=heading))
    return "".join(trees)


def sorted_methods() -> list[str]:
    from marvel import METHODS

    first = ["marvel", "marvel+"]
    return [f"method/{page_of(key)}" for key in [*first, *(key for key in METHODS if key not in first)]]


def toctree(pages: list[str], glob: bool, caption: str | None = None) -> str:
    options = [":hidden:", *([":glob:"] if glob else []), *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])
