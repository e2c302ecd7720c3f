"""The book's configuration for Sphinx alone, read off ``_config.yml``: ``make sphinx``.

Jupyter Book 1 is frozen, and 2 is another program. This is the way out: whatever Sphinx comes next
compiles the same staged sources.
"""

import sys
from pathlib import Path

import yaml

_root = Path(__file__).resolve().parent
_config = yaml.safe_load((_root / "_config.yml").read_text(encoding="utf-8"))
_html, _sphinx = _config["html"], _config["sphinx"]
sys.path[:0] = [str(_root / folder) for folder in {*_sphinx["local_extensions"].values()}]
globals().update(_sphinx["config"])

# Jupyter Book's own; comments are not used
extensions = [
    name
    for name in _sphinx["config"]["extensions"]
    if name not in ("jupyter_book", "sphinx_comments")
]
# words like "shape" of a type are looked up since Sphinx 8, among the attributes of all classes
suppress_warnings = [*_sphinx["config"]["suppress_warnings"], "ref.python"]
project = html_title = _config["title"]
author, copyright = _config["author"], _config["copyright"]
exclude_patterns = _config["exclude_patterns"]
external_toc_exclude_missing = _config["only_build_toc_files"]
use_multitoc_numbering = _html["use_multitoc_numbering"]
myst_enable_extensions = _config["parse"]["myst_enable_extensions"]
nb_execution_mode = _config["execute"]["execute_notebooks"]
bibtex_bibfiles = _config["bibtex_bibfiles"]
html_logo, html_favicon, html_theme = _config["logo"], _html["favicon"], "sphinx_book_theme"
html_theme_options = {
    "repository_url": _config["repository"]["url"],
    "repository_branch": _config["repository"]["branch"],
    "path_to_docs": ".",
    "launch_buttons": {name: value for name, value in _config["launch_buttons"].items() if value},
    "home_page_in_toc": _html["home_page_in_navbar"],
    "navbar_persistent": [],
    **{name: _html[name] for name in _html if name.endswith(("_button", "_footer"))},
}
