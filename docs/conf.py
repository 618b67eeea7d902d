"""Sphinx configuration. The pages need no network, and the build treats warnings as errors."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "privrec"
author = "the privrec developers"
project_copyright = "the privrec developers"
release = version = importlib.metadata.version("privrec")

extensions = [
    "myst_parser",
    "builtin_names",
    "mechanism_figures",
    "plain_docstrings",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "_ext", "template", "api/*/modules.rst"]

html_theme = "furo"
html_title = f"privrec {release}"

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

# One page for each module, written to docs/api when the pages are built.
apidoc_modules = [
    {
        "path": f"../{package}",
        "destination": f"api/{package}",
        "separate_modules": True,
        "module_first": True,
        "automodule_options": {"members", "show-inheritance"},
    }
    for package in ("mpc", "ldp", "secagg", "recsys")
]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
