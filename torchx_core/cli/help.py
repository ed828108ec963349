"""Help texts as a terminal shows them: whole, and without the markup that the documents need."""

from __future__ import annotations

from inspect import cleandoc

import click

__all__ = ["HelpedCommand"]


class HelpedCommand(click.Command):
    """A command whose help text is the docstring that the reference is made from."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002  # click's signature
        """Return the first paragraph, all of it: in the list of commands it goes on over several lines."""
        return " ".join(self._text().partition("\n\n")[0].split())

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # the same
        """Write all paragraphs."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self._text())

    def _text(self) -> str:
        return cleandoc(self.help or "").replace("``", "")
