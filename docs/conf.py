"""How Sphinx makes the site: `make docs`.

The source is the whole repository, not this folder: so README.md, CONTRIBUTING.md and results/README.md are pages too,
and a relative link works the same on the site and where the files are shown as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mfec

sys.path.insert(0, str(Path(__file__).parent))  # for `notebook_pages`

project = "mfec"
author = copyright = "The mfec maintainers"
release = mfec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "notebook_pages"]
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "results/README.md"]
exclude_patterns = [".*", "docs/_build"]

# -- Pages ------------------------------------------------------------------------------------------------------------

myst_heading_anchors = 4
smartquotes = False  # `--vae` is an option, not a dash
pygments_style = "friendly"
pygments_dark_style = "monokai"

# -- The reference ----------------------------------------------------------------------------------------------------

default_role = "py:obj"  # `name` in a docstring, a link where the reference has it
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# These are shown as they stand in the code; evaluated, they would be lines of numpy's insides.
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Identities", "NDArray")}
napoleon_numpy_docstring = False
maximum_signature_line_length = 100

# -- Other sites ------------------------------------------------------------------------------------------------------

linkcheck_ignore = [r"http://127\.0\.0\.1.*"]

# -- HTML -------------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"mfec {release}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "to_front_page.html"}  # the front page is docs/index.html
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def _keep_sentences(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Begin an attribute's docstring with an empty comment: napoleon takes the first line up to a colon for a type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _keep_sentences, priority=400)  # napoleon comes at 500
