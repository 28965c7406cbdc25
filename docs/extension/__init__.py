"""What the site adds to the pages that are read on their own: contents, pages made from code and records, checks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: "Sphinx") -> dict[str, Any]:
    from extension import links, pages, pictures, texts

    app.connect("builder-inited", pages.write)
    app.connect("source-read", texts.adapt)
    app.connect("doctree-read", pictures.add_twins)
    app.connect("build-finished", links.check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
