"""Two tables made from the code: what each scheduler can do, and the options it takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from torchx_core.compat import PREFIX
from torchx_core.registry import scheduler_factories
from torchx_core.schedulers import Capabilities, Scheduler


class CapabilityTable(SphinxDirective):
    """``capability-table``: one row per capability, one column per scheduler."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        schedulers = _schedulers()
        rows = [
            [f.name, *("yes" if getattr(s.capabilities, f.name) else "no" for s in schedulers.values())]
            for f in fields(Capabilities)
        ]
        return [table(["capability", *schedulers], rows)]


class RunoptTable(SphinxDirective):
    """``runopt-table:: local_cwd``: one row per option of the scheduler."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        options = _schedulers()[self.arguments[0]].run_opts()
        rows = [
            [key, str(option.kind), "required" if option.is_required else str(option.default), option.help]
            for key, option in options
        ]
        return [table(["option", "type", "default", "meaning"], rows)]


def _schedulers() -> dict[str, Scheduler[object]]:
    # TorchX's are known where TorchX is installed; torchx-compat.md has them
    factories = scheduler_factories()
    return {name: factories[name]("docs") for name in factories if not name.startswith(PREFIX)}


def table(head: list[str], rows: Iterable[list[str]]) -> nodes.table:
    """Return a table whose first column is code."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group)


def _row(cells: list[str]) -> nodes.row:
    first, *rest = cells
    entries = [nodes.entry("", nodes.paragraph("", "", nodes.literal(text=first)))]
    return nodes.row("", *entries, *(nodes.entry("", nodes.paragraph(text=text)) for text in rest))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives; Sphinx calls this once per build."""
    app.add_directive("capability-table", CapabilityTable)
    app.add_directive("runopt-table", RunoptTable)
    return {"parallel_read_safe": True}
