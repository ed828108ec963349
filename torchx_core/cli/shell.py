"""``torchx-core shell``."""

from __future__ import annotations

from typing import Final

import click

from torchx_core import get_runner
from torchx_core.cli.inside import parse_replica, run_inside, running_replicas
from torchx_core.cli.options import cli_command, handle_argument
from torchx_core.cli.output import Output

__all__ = ["command"]

_SHELL: Final = ("/bin/sh", "-c", 'exec "$(command -v bash || echo sh)"')


@cli_command("shell")
@handle_argument()
@click.argument("replica", metavar="[ROLE/K]", required=False)
def command(output: Output, app_handle: str, replica: str | None) -> int:
    """Open a shell inside a replica: bash where it is there, else sh.

    Without ROLE/K in the first replica that runs.
    """
    with get_runner() as runner:
        chosen = parse_replica(replica) if replica else running_replicas(runner, app_handle)[0]
        output.hint(f"inside {chosen[0]}/{chosen[1]} of {app_handle}; exit leaves it running")
        return run_inside(runner, app_handle, chosen, _SHELL)
