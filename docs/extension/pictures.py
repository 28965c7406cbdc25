"""A picture with a twin for the dark, `review-dark.png` beside `review.png`: the page shows the one that suits it."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def add_twins(app: Sphinx, doctree: nodes.document) -> None:
    for image in list(doctree.findall(nodes.image)):
        name = Path(image["uri"])
        twin = name.with_stem(f"{name.stem}-dark")
        if (Path(app.srcdir) / twin).is_file():
            dark = image.deepcopy()
            image["classes"].append("only-light")
            dark["classes"].append("only-dark")
            dark["uri"] = twin.as_posix()
            dark["candidates"] = {"*": twin.as_posix()}
            app.env.images.add_file(app.env.docname, twin.as_posix())
            image.parent.insert(image.parent.index(image) + 1, dark)
