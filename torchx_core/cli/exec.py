"""``torchx-core exec``."""

from __future__ import annotations

import click

from torchx_core import get_runner
from torchx_core.cli.inside import parse_replica, run_inside
from torchx_core.cli.options import cli_command, handle_argument
from torchx_core.cli.output import Output
from torchx_core.errors import InvalidInputError

__all__ = ["command"]


@cli_command("exec", takes_rest=True)
@handle_argument()
@click.argument("replica", metavar="ROLE/K")
@click.argument("argv", metavar="[--] COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def command(output: Output, app_handle: str, replica: str, argv: tuple[str, ...]) -> int:  # noqa: ARG001  # the command writes
    """Run a command inside a replica; its exit code is ours.

    It has the replica's environment, working directory and limits, and our stdin, stdout and stderr: a
    terminal, where these are one. A role without a number means its first replica.
    """
    words = argv[1:] if argv[:1] == ("--",) else argv
    if not words:
        raise InvalidInputError("no command; expected for example: exec HANDLE trainer/0 -- nvidia-smi")
    with get_runner() as runner:
        return run_inside(runner, app_handle, parse_replica(replica), words)
