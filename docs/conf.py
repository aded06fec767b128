"""How Sphinx builds these pages; `make docs`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import reference  # noqa: E402

import numbawave  # noqa: E402

project = "numbawave"
version = release = numbawave.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["examples"]
html_theme = "alabaster"
html_theme_options = {"description": "Waves, their gradients and inversion in pure Python", "page_width": "1100px"}
smartquotes = False
html_show_copyright = False
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


def setup(app):
    """Fill the page of the reference from the package when it is read, and read its docstrings as they are meant."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape, priority=1)  # before napoleon


def fill(app, name, source):
    """Replace the marks of the reference's page."""
    if name == "reference":
        source[0] = reference.filled(source[0])


def escape(app, what, name, value, options, lines):
    """In shapes such as [shot, *grid] a star is a star."""
    lines[:] = [re.sub(r"(?<![*\w])\*(?=grid\b)", r"\\*", line) for line in lines]
