"""``torchx-core components``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torchx_core.cli.completion import complete_components
from torchx_core.cli.options import cli_command
from torchx_core.cli.output import Output
from torchx_core.cli.styles import DIM
from torchx_core.cli.tables import Cell, Column, lay_out

if TYPE_CHECKING:
    from torchx_core.components import Component, Parameter

__all__ = ["command"]

_COLUMNS = (Column("COMPONENT"), Column("WHAT IT DOES", shrinks=True), Column("FROM", shrinks=True))


@cli_command("components")
@click.argument("component", required=False, shell_complete=complete_components)
def command(output: Output, component: str | None) -> None:
    """List the components that can be run by name, or explain one and its arguments.

    Explaining one imports the file that defines it.
    """
    from torchx_core.components import find_component, list_components

    if component is None:
        _list(output, list_components())
        return
    found = find_component(component)
    if output.json:
        output.document({**_document(found), "parameters": [_parameter(p) for p in found.parameters]})
    else:
        output.write(found.usage())
        output.lines(["", f"defined in {found.file}:{found.line}"])


def _list(output: Output, components: list[Component]) -> None:
    if output.json:
        output.document({"components": [_document(each) for each in components]})
        return
    rows = [[Cell(each.name), Cell(each.summary), Cell(each.source, DIM)] for each in components]
    output.lines(lay_out(_COLUMNS, rows, width=output.width, paint=output.paint))


def _document(component: Component) -> dict[str, object]:
    return {
        "name": component.name,
        "summary": component.summary,
        "description": component.description,
        "source": component.source,
        "file": component.file,
        "line": component.line,
    }


def _parameter(parameter: Parameter) -> dict[str, object]:
    from torchx_core.cli.json_output import plain
    from torchx_core.components import REQUIRED

    required = parameter.default is REQUIRED
    return {
        "name": parameter.name,
        "type": str(parameter.type),
        "kind": parameter.kind,
        "required": required and parameter.kind != "varargs",
        "default": None if required else plain(parameter.default),
        "flags": list(parameter.flags),
        "help": parameter.help,
    }
