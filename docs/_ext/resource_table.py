"""A table made from the code: what each named resource stands for."""

from __future__ import annotations

from docutils import nodes
from scheduler_tables import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from torchx_core.specs import Resource, named_resources, named_resources_aws, named_resources_generic

TABLES = {
    "generic": named_resources_generic.NAMED_RESOURCES,
    "aws": named_resources_aws.NAMED_RESOURCES,
}


class NamedResourceTable(SphinxDirective):
    """``named-resource-table:: generic``, or ``aws``: one row per name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [_row(name, named_resources[name]) for name in TABLES[self.arguments[0]]]
        return [table(["name", "cpu", "gpu", "memMB", "devices"], rows)]


def _row(name: str, resource: Resource) -> list[str]:
    devices = ", ".join(f"{count} {device}" for device, count in resource.devices.items())
    return [name, str(resource.cpu), str(resource.gpu), str(resource.memMB), devices]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; Sphinx calls this once per build."""
    app.add_directive("named-resource-table", NamedResourceTable)
    return {"parallel_read_safe": True}
