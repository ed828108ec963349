"""The reference of the command line, made from its code: each command's usage, help text and options."""

from __future__ import annotations

import click
from docutils import nodes
from scheduler_tables import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from torchx_core.cli.program import NAME, program


class CliCommand(SphinxDirective):
    """``cli-command:: status``: one command, or without an argument the program itself."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return usage, text and a table of the options."""
        name = self.arguments[0] if self.arguments else ""
        command = program.get_command(click.Context(program), name) if name else program
        assert command is not None, name
        context = click.Context(command, info_name=f"{NAME} {name}".strip())
        usage = nodes.literal_block(text=command.get_usage(context).removeprefix("Usage: "))
        text = [self._paragraph(each) for each in (command.help or "").split("\n\n")]
        return [usage, *text, table(["option", "meaning"], _options(command, context))]

    def _paragraph(self, text: str) -> nodes.Node:
        return nodes.paragraph("", "", *self.parse_inline(" ".join(text.split()))[0])


def _options(command: click.Command, context: click.Context) -> list[list[str]]:
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return [list(record) for record in records if record]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; Sphinx calls this once per build."""
    app.add_directive("cli-command", CliCommand)
    return {"parallel_read_safe": True}
