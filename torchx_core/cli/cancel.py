"""``torchx-core cancel``."""

from __future__ import annotations

import os
import pwd

import click

from torchx_core import get_runner
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.options import DURATION, cli_command, handles_argument
from torchx_core.cli.output import Output
from torchx_core.errors import UnknownAppException
from torchx_core.schedulers import CancelOutcome

__all__ = ["command", "human_reason"]


@cli_command("cancel")
@handles_argument
@click.option(
    "--grace",
    "grace_s",
    type=DURATION,
    metavar="DURATION",
    help="Time between SIGTERM and SIGKILL; default: the app's own.",
)
@click.option("--reason", metavar="TEXT", help="Shown in the app's status; default: who cancelled it.")
def command(output: Output, app_handles: tuple[str, ...], grace_s: float | None, reason: str | None) -> None:
    """Ask for the end of apps and return at once; ``wait`` waits for it.

    Every replica gets SIGTERM, and after the grace period SIGKILL. Cancelling an app that has ended does
    nothing.
    """
    with get_runner() as runner:
        for app_handle in app_handles:
            outcome = runner.cancel(app_handle, grace_s=grace_s, reason=reason or human_reason())
            if outcome is CancelOutcome.UNKNOWN_APP:
                raise UnknownAppException(app_handle)
            if output.json:
                output.documents([{**handle_fields(app_handle), "outcome": outcome.value}])
            else:
                output.lines([f"{app_handle} {_said(outcome)}"])


def human_reason() -> str:
    """Return who cancels, for an app's status.

    Example:
        >>> human_reason().startswith("cancelled on the command line by ")
        True
    """
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container with a user that has no name
        user = f"user {uid}"
    return f"cancelled on the command line by {user}"


def _said(outcome: CancelOutcome) -> str:
    return "is being cancelled" if outcome is CancelOutcome.REQUESTED else f"is {outcome.value}"
