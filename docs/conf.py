"""The documentation site: `make docs` writes it into docs/_build/html, and fetches nothing."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from marvel import __version__  # noqa: E402

project = "Marvel"
author = "the Marvel maintainers"
copyright = "the Marvel maintainers"
version = release = __version__
extensions = ["myst_nb", "sphinx_copybutton", "extension"]
exclude_patterns = ["_build"]
highlight_language = "none"
nitpick_ignore_regex = [("py:.*", r"(?!marvel\.).*")]  # others' types: looking them up would need the network

myst_heading_anchors = 3
myst_enable_extensions = ["smartquotes"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "Marvel"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/marvel.svg"
html_logo = "_static/marvel.svg"
html_copy_source = False
html_show_sphinx = False
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8f", "color-brand-content": "#0b5c8f"},
    "dark_css_variables": {"color-brand-primary": "#7cc4f0", "color-brand-content": "#7cc4f0"},
}
