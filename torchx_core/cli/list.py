"""``torchx-core list``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.options import cli_command, scheduler_option, session_option
from torchx_core.cli.output import Output
from torchx_core.cli.quantities import format_duration
from torchx_core.cli.styles import DIM, STATE_STYLES
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.errors import TorchXError
from torchx_core.registry import is_not_installed
from torchx_core.schedulers import ListAppResponse
from torchx_core.specs import AppState

__all__ = ["command"]

_COLUMNS = (Column("HANDLE"), Column("STATE"), Column("AGE", right=True), Column("NAME", shrinks=True))


class Listing(NamedTuple):
    """The apps of all schedulers asked, and why some could not be asked."""

    apps: list[ListAppResponse]
    unreachable: dict[str, str]


@cli_command("list")
@scheduler_option("Only the apps of this scheduler.")
@session_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.name for state in AppState], case_sensitive=False),
    help="Only apps in this state; may be given several times.",
)
def command(output: Output, scheduler: str | None, session: str | None, states: tuple[str, ...]) -> None:
    """List the apps of a session, the newest last.

    Of all schedulers, unless [cli:list] of .torchxconfig names one; a scheduler that cannot be asked is then
    left out, and named on stderr, but for a built-in one whose extra is not installed.
    """
    only = scheduler or _configured_scheduler()
    with get_runner(session) as runner:
        listing = Listing(runner.list(only), {}) if only else _ask_all(runner)
    apps = [app for app in listing.apps if not states or app.state.name in states]
    if output.json:
        output.document({"apps": list(map(_document, apps)), "unreachable": listing.unreachable})
        return
    for app in apps:
        if app.error:
            output.remark(output.paint_remark(f"{app.app_handle}: {app.error}", DIM))
    for name, why in listing.unreachable.items():
        output.remark(output.paint_remark(f"{name} was not asked: {why}", DIM))
    if apps:
        now = time.time()
        rows = [_row(app, now) for app in apps]
        output.lines(lay_out(_COLUMNS, rows, width=output.width, paint=output.paint))
    else:
        output.remark("no apps")


def _configured_scheduler() -> str | None:
    from torchx_core.config import read_config

    setting = read_config().settings("cli:list").get("scheduler")
    return setting.text if setting else None


def _ask_all(runner: Runner) -> Listing:
    listing = Listing([], {})
    for name in runner.scheduler_backends():
        try:
            listing.apps.extend(runner.list(name))
        except TorchXError as err:
            if not is_not_installed(name, err):
                listing.unreachable[name] = str(err)
    return Listing(_oldest_first(listing.apps), listing.unreachable)


def _oldest_first(apps: Iterable[ListAppResponse]) -> list[ListAppResponse]:
    return sorted(apps, key=lambda app: (app.submitted_at or 0.0, app.app_handle))


def _row(app: ListAppResponse, now: float) -> list[Cell]:
    age = "" if app.submitted_at is None else format_duration(now - app.submitted_at)
    return [Cell(app.app_handle), Cell(str(app.state), STATE_STYLES[app.state]), Cell(age), Cell(app.name)]


def _document(app: ListAppResponse) -> dict[str, object]:
    return {
        **handle_fields(app.app_handle),
        "state": app.state.name,
        "name": app.name,
        "submitted_at": app.submitted_at,
        **({"error": app.error} if app.error else {}),
    }
