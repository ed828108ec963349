"""``torchx-core delete``."""

from __future__ import annotations

import sys

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.options import cli_command, handles_argument
from torchx_core.cli.output import Output
from torchx_core.errors import AppNotTerminalError, StoredStateError, UnknownAppException
from torchx_core.specs import is_terminal

__all__ = ["command", "may_ask"]


@cli_command("delete")
@handles_argument()
@click.option("-y", "--yes", is_flag=True, help="Do not ask, also for several apps.")
@click.option("--force", is_flag=True, help="Of an app whose record is damaged, end what may still run.")
def command(output: Output, app_handles: tuple[str, ...], *, yes: bool, force: bool) -> None:
    """Forget apps that have ended: their records and their logs.

    All are looked at first: when one is unknown or still runs, none is deleted. On a terminal, several are
    deleted only after a question.
    """
    with get_runner() as runner:
        for app_handle in app_handles:
            _check_deletable(runner, app_handle)
        if len(app_handles) > 1 and not yes and may_ask(output):
            click.confirm(f"delete {len(app_handles)} apps and their logs?", abort=True, err=True)
        for app_handle in app_handles:
            runner.delete(app_handle, force=force)
            if output.json:
                output.documents([{**handle_fields(app_handle), "deleted": True}])
            else:
                output.lines([f"{app_handle} deleted"])


def may_ask(output: Output) -> bool:
    """Return whether somebody is there to answer a question: a script that says `delete` means it."""
    return sys.stdin is not None and sys.stdin.isatty() and not output.json


def _check_deletable(runner: Runner, app_handle: str) -> None:
    try:
        status = runner.status(app_handle)
    except StoredStateError:
        return  # a record that cannot be read can still be deleted
    if status is None:
        raise UnknownAppException(app_handle)
    if not is_terminal(status.state):
        raise AppNotTerminalError(app_handle, str(status.state), "delete")
