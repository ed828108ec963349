"""``torchx-core list``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypedDict, Unpack

import click

from torchx_core import Runner, get_runner
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.listing import Listing, apps_of
from torchx_core.cli.live_view import QUIT, live_area
from torchx_core.cli.options import cli_command, scheduler_option, session_option
from torchx_core.cli.output import Output
from torchx_core.cli.styles import DIM, STATE_STYLES
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.cli.widths import cell_width, fit_painted, one_line
from torchx_core.errors import SchedulerError
from torchx_core.quantities import format_duration
from torchx_core.schedulers import ListAppResponse
from torchx_core.specs import AppState, is_terminal

__all__ = ["command"]

_COLUMNS = (Column("HANDLE"), Column("STATE"), Column("AGE", right=True), Column("NAME", shrinks=True))


_LOOK_S: Final = 2.0
_HINT: Final = "q: quit"


class _Which(TypedDict):
    scheduler: str | None
    states: tuple[str, ...]
    all_sessions: bool
    limit: int | None


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
@click.option("--all-sessions", is_flag=True, help="The apps of every session.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest.")
@click.option("-w", "--watch", is_flag=True, help="On a terminal, look again every two seconds, until q.")
def command(output: Output, session: str | None, *, watch: bool, **which: Unpack[_Which]) -> None:
    """List the apps of a session, the newest last.

    Of all schedulers, unless [cli:list] of .torchxconfig names one. One that cannot be asked is then left
    out, and named on stderr; one that is not there at all, as Docker where there is no engine, has no apps.
    """
    if session and which["all_sessions"]:
        raise click.UsageError("--session excludes --all-sessions")
    with get_runner(session) as runner:
        listing = _look(runner, which)
        if watch and not output.json and output.both_terminals:
            _show_live(output, listing, lambda: _look(runner, which))
        else:
            _show(output, listing)


def _look(runner: Runner, which: _Which) -> Listing:
    states, limit = [AppState[name] for name in which["states"]], which["limit"]
    listing = apps_of(
        runner,
        which["scheduler"],
        all_sessions=which["all_sessions"],
        newest=None if states else limit,
        live=bool(states) and not any(map(is_terminal, states)),
    )
    apps = [app for app in listing.apps if not states or app.state in states]
    return listing._replace(apps=apps[-limit:] if limit else apps)


def _show(output: Output, listing: Listing) -> None:
    if output.json:
        apps = list(map(_document, listing.apps))
        output.document({"apps": apps, "unreachable": listing.unreachable})
        return
    for remark in _remarks(listing):
        output.remark(output.paint_remark(remark, DIM))
    if listing.apps:
        output.lines(_table(output, listing.apps))
    else:
        output.remark("no apps")


def _show_live(output: Output, listing: Listing, look: Callable[[], Listing]) -> None:
    """Draw and look again until somebody presses ``q``; the last of it stays on the screen."""
    with live_area(output) as (area, keys):
        key: bytes | None = None
        while key not in QUIT:
            area.draw([output.shown(line) for line in _screen(output, listing)])
            key = keys.read(_LOOK_S)
            if key is None:
                with suppress(SchedulerError):  # while it cannot be asked, what was seen last stays
                    listing = look()
    _show(output, listing)


def _screen(output: Output, listing: Listing) -> list[str]:
    """Return the lines that have room: the newest apps."""
    width, room = output.size.columns - 1, output.size.lines - 1
    head, *rows = _table(output, listing.apps) if listing.apps else ["no apps"]
    remarks = _remarks(listing)
    rows = rows[-max(1, room - len(remarks) - 2) :]
    lines = [*remarks, head, *rows, output.paint(_HINT, DIM)]
    return [fit_painted(line, width) for line in lines]


def _remarks(listing: Listing) -> list[str]:
    damaged = [f"{app.app_handle}: {app.error}" for app in listing.apps if app.error]
    return [*damaged, *(f"{name} was not asked: {why}" for name, why in listing.unreachable.items())]


def _table(output: Output, apps: Sequence[ListAppResponse]) -> list[str]:
    """Return the head and a line for each app; the name is left out where there is no room for it.

    A handle is never cut: it is there to be copied.
    """
    now, width = time.time(), output.width
    rows = [_row(app, now) for app in apps]
    lines = lay_out(_COLUMNS, rows, width=width, paint=output.paint)
    if width is None or all(cell_width(one_line(line)) <= width for line in lines):
        return lines
    return lay_out(_COLUMNS[:-1], [row[:-1] for row in rows], width=width, paint=output.paint)


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
