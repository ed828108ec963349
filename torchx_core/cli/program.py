"""The group of all commands, and what surrounds every one of them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from importlib import import_module
from typing import Final, cast

import click

from torchx_core import __version__
from torchx_core.cli.exit_codes import code_of_signal
from torchx_core.cli.options import CONTEXT_SETTINGS
from torchx_core.cli.output import Output
from torchx_core.errors import did_you_mean

__all__ = ["COMMANDS", "NAME", "program", "run_program"]

NAME: Final = "torchx-core"

COMMANDS: Final = (
    "run",
    "status",
    "top",
    "log",
    "page",
    "exec",
    "shell",
    "stacks",
    "wait",
    "cancel",
    "delete",
    "list",
    "describe",
    "runopts",
    "components",
    "configure",
    "prune",
    "doctor",
)
"""In the order of their use; each is the ``command`` of the module of its name."""

_ALIASES: Final = {"builtins": "components", "logs": "log", "ps": "list"}
"""TorchX's name of one, and what other programs' users type."""

_ELSEWHERE: Final = {
    "attach": "log",
    "inspect": "describe",
    "kill": "cancel",
    "ls": "list",
    "rm": "delete",
    "start": "run",
    "stop": "cancel",
    "submit": "run",
}
"""What other programs call our commands: understood as a question, not as a command."""


class _Commands(click.Group):
    """Imports a command when it is used: `status` does not pay for `doctor`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the same
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"torchx_core.cli.{name}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not ctx.resilient_parsing and not word.startswith("-") and self.get_command(ctx, word) is None:
            close = did_you_mean(word, (*COMMANDS, *_ALIASES), _ELSEWHERE)
            ctx.fail(f"no such command: {word!r}{close}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `torchx-core log … | head`: nobody reads on, and that is no error
            ctx.ensure_object(Output).silence()
            ctx.exit(code_of_signal(signal.SIGPIPE))


@click.group(cls=_Commands, context_settings=CONTEXT_SETTINGS)
@click.version_option(__version__, prog_name=NAME, message="%(prog)s %(version)s")
@click.option(
    "--log_level", metavar="LEVEL", help="Show the library's own log records from this level on, on stderr."
)
def program(log_level: str | None) -> None:
    """Describe a job once, run it anywhere, and never lose it.

    An app goes on whatever happens to the shell that started it; any other shell can use its handle.
    """
    if log_level is not None:
        _show_log_records(log_level)


def run_program(args: Sequence[str]) -> int:
    """Carry out a command line and return the exit code."""
    output = Output.of_process()
    try:
        answer: object = program.main(args, prog_name=NAME, standalone_mode=False, obj=output)
    except Exception as err:  # noqa: BLE001  # the outermost frame: whatever it is, say it in a line
        from torchx_core.cli.errors import explain

        output.json = output.json or "--json" in args  # the line may have been refused before it was read
        return explain(err, output)
    return answer if isinstance(answer, int) else 0


def _show_log_records(level: str) -> None:
    import logging

    if level.upper() not in logging.getLevelNamesMapping():
        known = ", ".join(name.lower() for name in logging.getLevelNamesMapping())
        raise click.BadParameter(f"{level!r} is none of {known}", param_hint="'--log_level'")
    logging.basicConfig(level=level.upper())
