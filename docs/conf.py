"""How Sphinx builds these documents; warnings are errors (`make docs`)."""

import os
import sys
from pathlib import Path

import torchx_core

# autodoc imports Airflow, which makes itself a home and talks about it.
os.environ.setdefault("AIRFLOW_HOME", str(Path(__file__).parent / "_build" / "airflow"))
os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "torchx-core"
author = "The torchx-core authors"
project_copyright = f"2026, {author}"
release = version = torchx_core.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "component_usage",
    "cli_reference",
    "references",
    "resource_table",
    "scheduler_tables",
    "torchx_tables",
    "versions_table",
]
default_role = "code"  # docstrings put names into single backticks
exclude_patterns = ["_build"]
html_theme = "furo"
copybutton_prompt_text = "$ "
html_title = f"torchx-core {release}"

myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
