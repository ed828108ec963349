"""What the help of each built-in component says, made from the code."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from torchx_core.components import find_component


class ComponentUsage(SphinxDirective):
    """``component-usage:: utils.echo``: what its ``--help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the text."""
        text = find_component(self.arguments[0]).usage()
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; Sphinx calls this once per build."""
    app.add_directive("component-usage", ComponentUsage)
    return {"parallel_read_safe": True}
