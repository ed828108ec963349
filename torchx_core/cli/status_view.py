"""An app's status as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from torchx_core.cli.styles import BAD, BOLD, DIM, STATE_STYLES, Paint
from torchx_core.cli.tables import Cell, Column, lay_out, without_empty
from torchx_core.cli.widths import one_line
from torchx_core.display.usage import peak_text
from torchx_core.quantities import format_duration
from torchx_core.specs import NONE, AppHandle, AppState, AppStatus, ReplicaStatus

__all__ = ["ending_of", "status_lines"]

_COLUMNS = (
    Column("REPLICA"),
    Column("STATE"),
    Column("ATTEMPT", right=True),
    Column("EXIT", right=True),
    Column("STARTED"),
    Column("TIME", right=True),
    Column("CPU", right=True),
    Column("MEMORY", right=True),
    Column("HOST", shrinks=True),
    Column("MESSAGE", shrinks=True),
)


def status_lines(
    app_handle: AppHandle,
    status: AppStatus,
    *,
    roles: Sequence[str] | None,
    now: float,
    width: int | None,
    paint: Paint,
) -> list[str]:
    """Return the app, what is to say about all of it, and a line for each replica.

    Args:
        app_handle: The app.
        status: Its status.
        roles: Only the replicas of these; None for all.
        now: Seconds since the epoch.
        width: Columns of the terminal; None for no bound.
        paint: Gives colours.
    """
    state = paint(str(status.state), STATE_STYLES[status.state])
    replicas = [r for role in status.roles if roles is None or role.role in roles for r in role.replicas]
    every = [_row(replica, now) for replica in sorted(replicas, key=lambda r: (r.role, r.id))]
    columns, rows = without_empty(_COLUMNS, every, "CPU", "MEMORY")
    return [
        f"{paint(app_handle, BOLD)}  {state}",
        *_facts(status, paint),
        *(["", *lay_out(columns, rows, width=width, paint=paint)] if rows else []),
    ]


def _facts(status: AppStatus, paint: Paint) -> Iterator[str]:
    if status.state is AppState.FAILED:
        yield from (paint(line, BAD) for line in status.failure_summary().splitlines())
    elif status.msg.strip() and status.msg != NONE:
        yield f"message: {one_line(status.msg)}"
        if status.state is AppState.CANCELLED:
            from torchx_core.specs.failure_summary import stops  # here: most apps need no such thing

            yield from stops(status)
    if status.num_restarts > 0:
        yield f"restarts: {status.num_restarts}"
    if status.result is not None:
        yield f"result: {json.dumps(status.result)}"
    if status.ui_url:
        yield f"see: {status.ui_url}"


def _row(replica: ReplicaStatus, now: float) -> list[Cell]:
    return [
        Cell(f"{replica.role}/{replica.id}"),
        Cell(str(replica.state), STATE_STYLES[replica.state]),
        Cell(str(replica.attempt + 1)),
        Cell(ending_of(replica)),
        Cell(_clock(replica.started_at)),
        Cell(_run_time(replica, now)),
        Cell("" if replica.usage.cpu_s is None else format_duration(replica.usage.cpu_s)),
        Cell(peak_text(replica.usage)),
        Cell(replica.hostname, DIM),
        Cell(replica.msg),
    ]


def ending_of(replica: ReplicaStatus) -> str:
    """Return the replica's exit code, or the signal that killed it, or nothing while it runs."""
    if replica.signal is not None:
        return replica.signal
    return "" if replica.exit_code is None else str(replica.exit_code)


def _clock(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _run_time(replica: ReplicaStatus, now: float) -> str:
    if replica.started_at is None:
        return ""
    return format_duration((replica.ended_at or now) - replica.started_at)
