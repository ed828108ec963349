"""``torchx-core status``."""

from __future__ import annotations

import time

import click

from torchx_core import AppStatus, get_runner
from torchx_core.cli.json_output import status_document
from torchx_core.cli.options import NAMES, cli_command, handle_argument
from torchx_core.cli.output import Output
from torchx_core.cli.status_view import status_lines
from torchx_core.errors import UnknownAppException, UnknownReplicaError

__all__ = ["check_roles", "command", "show_status"]


@cli_command("status")
@handle_argument()
@click.option("--roles", type=NAMES, metavar="ROLE,…", help="Only the replicas of these roles.")
def command(output: Output, app_handle: str, roles: list[str] | None) -> None:
    """Show how an app and its replicas are doing."""
    with get_runner() as runner:
        status = runner.status(app_handle)
    if status is None:
        raise UnknownAppException(app_handle)
    check_roles(app_handle, status, roles)
    show_status(output, app_handle, status, roles)


def check_roles(app_handle: str, status: AppStatus, roles: list[str] | None) -> None:
    """Refuse a role that the app does not have.

    Raises:
        UnknownReplicaError: With the roles that it has.
    """
    known = [role.role for role in status.roles]
    for role in roles or ():
        if role not in known:
            raise UnknownReplicaError(app_handle, role, None, known)


def show_status(output: Output, app_handle: str, status: AppStatus, roles: list[str] | None) -> None:
    """Print the status to stdout."""
    if output.json:
        output.document(status_document(app_handle, status, roles))
        return
    output.lines(
        status_lines(app_handle, status, roles=roles, now=time.time(), width=output.width, paint=output.paint)
    )
