"""Configuration of Sphinx: `make docs`, then open build/docs/index.html."""

import os
import pathlib
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from doap_tf.version import __version__

project = "doap_tf"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"doap_tf {release}"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 3
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings give shapes, which say more than np.ndarray
napoleon_custom_sections = [("Call arguments", "params_style")]
napoleon_use_ivar = True
napoleon_use_rtype = False


def _as_rest(app, what, name, thing, options, lines):
    """Docstrings mark code as Markdown does, with single backticks; reST needs two."""
    for number, line in enumerate(lines):
        lines[number] = re.sub(r"(?<!`)`([^`]+)`(?!`)(\w?)", _doubled, line)


def _doubled(found):
    # A letter right after the code, as in `KeyPoint`s, would keep reST from seeing its end.
    return f"``{found[1]}``" + (f"\\ {found[2]}" if found[2] else "")


def _skip(app, what, name, thing, skip, options):
    """Leaves out the fields of named tuples, which their class describes."""
    return True if (thing.__doc__ or "").startswith("Alias for field") else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip)
    # Before napoleon, which turns sections into fields.
    app.connect("autodoc-process-docstring", _as_rest, priority=400)
