"""``torchx-core cancel``."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from typing import TypedDict, Unpack

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.delete import may_ask
from torchx_core.cli.exit_codes import ExitCode
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.listing import apps_of
from torchx_core.cli.options import (
    DURATION,
    cli_command,
    handles_argument,
    scheduler_option,
    session_option,
)
from torchx_core.cli.output import Output
from torchx_core.errors import TorchXError, UnknownAppException
from torchx_core.schedulers import CancelOutcome

__all__ = ["command", "human_reason"]


class _Options(TypedDict):
    everything: bool
    scheduler: str | None
    session: str | None
    yes: bool
    grace_s: float | None
    reason: str | None


@cli_command("cancel")
@handles_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Every app of the session that has not ended.")
@scheduler_option("With --all: only the apps of this scheduler.")
@session_option
@click.option("-y", "--yes", is_flag=True, help="With --all: do not ask.")
@click.option(
    "--grace",
    "grace_s",
    type=DURATION,
    metavar="DURATION",
    help="Time between SIGTERM and SIGKILL; default: the app's own.",
)
@click.option("--reason", metavar="TEXT", help="Shown in the app's status; default: who cancelled it.")
def command(output: Output, app_handles: tuple[str, ...], **options: Unpack[_Options]) -> int:
    """Ask for the end of apps and return at once; the command ``wait`` waits for it.

    Every replica gets SIGTERM, and after the grace period SIGKILL. Cancelling an app that has ended does
    nothing. On a terminal, ``--all`` shows the apps and asks first.
    """
    if bool(app_handles) == options["everything"]:
        raise click.UsageError("name the apps to cancel, or give --all")
    reason = options["reason"] or human_reason()
    with get_runner(options["session"]) as runner:
        if options["everything"]:
            return _cancel_all(output, runner, reason, options)
        for app_handle in app_handles:
            _cancel(output, runner, app_handle, options["grace_s"], reason)
    return ExitCode.SUCCESS


def _cancel_all(output: Output, runner: Runner, reason: str, options: _Options) -> int:
    """Cancel what can be, and say of the rest why it cannot be."""
    listing = apps_of(runner, options["scheduler"], live=True)
    going_on = [app.app_handle for app in listing.apps]
    _confirm(output, going_on, yes=options["yes"])
    unasked = "was not asked, and what runs there goes on"
    problems = {f"{name} {unasked}": why for name, why in listing.unreachable.items()}
    for app_handle in going_on:
        try:
            _cancel(output, runner, app_handle, options["grace_s"], reason)
        except UnknownAppException:
            continue  # deleted since it was listed
        except TorchXError as err:
            problems[f"{app_handle} was not cancelled"] = str(err)
    for what, why in problems.items():
        output.remark(f"{what}: {why}")
    return ExitCode.SCHEDULER_FAILED if problems else ExitCode.SUCCESS


def _confirm(output: Output, app_handles: Sequence[str], *, yes: bool) -> None:
    """Show which apps it would be, and let who sits at a terminal say no."""
    if not app_handles:
        output.remark("no app to cancel")
    elif not yes and may_ask(output):
        for app_handle in app_handles:
            output.remark(f"  {app_handle}")
        noun = "this app" if len(app_handles) == 1 else f"these {len(app_handles)} apps"
        click.confirm(f"cancel {noun}?", abort=True, err=True)


def _cancel(output: Output, runner: Runner, app_handle: str, grace_s: float | None, reason: str) -> None:
    outcome = runner.cancel(app_handle, grace_s=grace_s, reason=reason)
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
