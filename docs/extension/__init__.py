"""What the site adds to the pages that are read on their own: contents, pages made from code and records, checks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: "Sphinx") -> dict[str, Any]:
    from jupyter_client.connect import ConnectionFileMixin

    from extension import links, pages, pictures, texts

    # The tutorial is run over a socket file: a port would be open to everybody on the machine, and is warned of.
    ConnectionFileMixin.transport.default_value = "ipc"
    app.connect("builder-inited", pages.write)
    app.connect("source-read", texts.adapt)
    app.connect("doctree-read", pictures.add_twins)
    app.connect("build-finished", links.check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
