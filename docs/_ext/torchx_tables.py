"""Tables made from two packages: the names of the installed TorchX, and where they are here."""

from __future__ import annotations

from importlib.util import find_spec

import torchx_names
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata


class TorchXNames(SphinxDirective):
    """``torchx-names:: torchx.specs torchx.specs.api``: one table of the names of these modules."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the table; a sentence where TorchX is not installed."""
        if find_spec("torchx") is None:
            return self.parse_text_to_nodes("*Left out: TorchX is not installed where this page was built.*")
        self.env.note_dependency(str(torchx_names.DATA))
        return self.parse_text_to_nodes(torchx_names.table(self.arguments[0].split()))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; Sphinx calls this once per build."""
    app.add_directive("torchx-names", TorchXNames)
    return {"parallel_read_safe": True}
