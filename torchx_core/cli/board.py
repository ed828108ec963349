"""What is known of an app that is followed: its events, folded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from torchx_core.display.text import as_shown
from torchx_core.schedulers import (
    AppEvent,
    Link,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
    UsageSample,
)
from torchx_core.specs import AppState, AppStatus, Usage

__all__ = ["Board", "ReplicaRow"]


@dataclass(slots=True)
class ReplicaRow:
    """One replica's latest attempt."""

    role: str
    replica: int
    state: AppState = AppState.PENDING
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    fraction: float | None = None
    """How far it is, as it said itself."""
    message: str = ""
    metric: Metric | None = None
    """The last one."""
    line: str = ""
    """The last line that it printed."""
    usage: Usage = Usage()  # noqa: RUF009  # it is frozen
    """The last sample of what it uses; once it has ended, what it has used."""


@dataclass(slots=True)
class Board:
    """The app and its replicas."""

    state: AppState
    message: str
    since: float
    """When following began, or the first replica started; seconds since the epoch."""
    rows: dict[tuple[str, int], ReplicaRow] = field(default_factory=dict[tuple[str, int], ReplicaRow])

    @staticmethod
    def of(status: AppStatus, now: float) -> Board:
        """Return the board for a status."""
        board = Board(status.state, status.msg, now)
        for role in status.roles:
            for r in role.replicas:
                board.rows[r.role, r.id] = ReplicaRow(
                    r.role, r.id, r.state, r.attempt, r.started_at, r.ended_at, r.exit_code, r.signal
                )
                if r.ended_at is not None:
                    board.rows[r.role, r.id].usage = r.usage
        started = [row.started_at for row in board.rows.values() if row.started_at is not None]
        board.since = min(started, default=now)
        return board

    def apply(self, event: AppEvent) -> None:
        """Take in what happened next."""
        if isinstance(event, StateChanged):
            self.state, self.message = event.state, event.msg
            return
        row = self.rows.setdefault((event.role, event.replica), ReplicaRow(event.role, event.replica))
        match event:
            case LogLines():
                row.line = as_shown(event.lines[-1]) or row.line
            case ReplicaChanged():
                _change(row, event)
            case Progress():
                row.fraction, row.message = event.fraction, event.message
            case Metric():
                row.metric = event
            case UsageSample():
                row.usage = event.usage
            case Result() | Link() | LogsLost():
                pass
            case _:
                assert_never(event)


def _change(row: ReplicaRow, event: ReplicaChanged) -> None:
    row.state, row.attempt = event.state, event.attempt
    row.exit_code, row.signal = event.exit_code, event.signal
    if event.state is AppState.RUNNING:
        row.started_at, row.ended_at = event.time, None
        row.fraction, row.message, row.metric = None, "", None
    else:
        row.ended_at, row.usage = event.time, Usage()
