"""A reference to a name of the API that a page writes by hand must lead somewhere: else it is a warning."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

_logger = logging.getLogger(__name__)


def warn_of_missing(
    _app: Sphinx, env: BuildEnvironment, node: pending_xref, _content: nodes.TextElement
) -> None:
    """Warn of it, if the page itself has it: what autodoc writes names types of other projects as well."""
    page = Path(env.doc2path(node["refdoc"])).read_text(encoding="utf-8")
    written = rf"{{py:\w+}}`(~|[^`]*<)?{re.escape(node['reftarget'])}>?`"
    if node["refdomain"] == "py" and re.search(written, page):
        _logger.warning("the reference has no %r", node["reftarget"], location=node)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add it to Sphinx."""
    app.connect("missing-reference", warn_of_missing)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
