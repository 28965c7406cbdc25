"""What is read well on its own gets what a site has besides: a sidebar, links to made pages."""

import re

from extension.api import PAGES
from extension.methods import in_order, overview, page_of

PARTS = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\((?!https?:)([^)#\s]+)\.md\)")
NUMBER = re.compile(r"\d+\.\d \((?:–|\d+\.\d), (?:–|\d+)\)(?: †)?|(?:agrees|differs) \(bound \d+\.\d\)|\d %")
"""What must not be broken in two in a narrow column of a table: `88.4 (0.2, 5)`."""
MADE = r"^<!-- made: {} -->$.*?^<!-- end -->$"


def adapt(app: object, page: str, source: list[str]) -> None:
    source[0] = adapted(page, source[0])


def adapted(page: str, text: str) -> str:
    """The text of a page as the site has it."""
    text = re.sub(r"\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md\)", lambda link: f"](about/{link[1].lower()}.md)", text)
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](about/examples.md#\1py)", text)
    text = text.replace("](../examples)", "](about/examples.md)")
    text = re.sub(r"^\|.*$", lambda row: NUMBER.sub(_unbroken, row[0]), text, flags=re.MULTILINE)
    text = re.sub(r"\[([\w-]+\.md)\]\(\1\)", r"[](\1)", text)  # a file's name becomes the page's title
    if page == "index":
        return text + contents(text)
    if page == "methods":
        text = _made_anew("methods", overview(), text)
        return _made_anew("method-pages", toctree([f"method/{page_of(key)}" for key in in_order()]), text)
    if page == "api":
        return text + toctree([f"api/{name}" for name in PAGES])
    return text


def _unbroken(number: re.Match[str]) -> str:
    return number[0].replace(" ", "\u00a0")


def _made_anew(what: str, made: str, text: str) -> str:
    return re.sub(MADE.format(what), lambda _: made, text, flags=re.MULTILINE | re.DOTALL)


def contents(index: str) -> str:
    """The sidebar: what each part of the index links to, in its order."""
    trees = []
    for heading, part in PARTS.findall(index):
        pages = list(dict.fromkeys(PAGE.findall(part)))
        if pages:
            trees.append(toctree(pages, heading))
    return "".join(trees)


def toctree(pages: list[str], caption: str | None = None) -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])
