"""Shows an app's events in the task's log, each line with the replica that it comes from."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, assert_never, final

from airflow_torchx._engine import Level
from torchx_core.schedulers import (
    AppEvent,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.specs import AppState, AppStatus, ReplicaStatus

__all__ = ["AppLog", "Emit", "records"]

Emit: TypeAlias = Callable[[Level, str, float | None], None]
"""Writes one record: level, message (perhaps of many lines), seconds since the epoch or None for now."""

LINES_PER_RECORD = 100
TAIL_LINES = 50
TAIL_LINE_CHARS = 1000
RESULT_CHARS = 1000


class LogRecord(NamedTuple):
    """One record of the task's log."""

    level: Level
    message: str
    time: float


def records(event: AppEvent) -> Iterator[LogRecord]:
    """Yield what the task's log shows for the event.

    Lines that were written together share a record; what is written slowly gets one record a line.
    """
    match event:
        case LogLines():
            yield from _line_records(event)
        case StateChanged():
            yield LogRecord("info", _with_reason(f"app is {event.state}", event.msg), event.time)
        case ReplicaChanged():
            yield LogRecord("info", f"{_prefix(event)} {_change(event)}", event.time)
        case Progress():
            text = _with_reason(f"progress {event.fraction:.0%}", event.message)
            yield LogRecord("info", f"{_prefix(event)} {text}", event.time)
        case Metric():
            step = "" if event.step is None else f" at step {event.step}"
            yield LogRecord(
                "info", f"{_prefix(event)} metric {event.name} = {event.value:g}{step}", event.time
            )
        case Result():
            text = _cut(json.dumps(event.value), RESULT_CHARS)
            yield LogRecord("info", f"{_prefix(event)} result {text}", event.time)
        case LogsLost():
            size = "some" if event.size_bytes is None else f"{event.size_bytes} bytes of"
            yield LogRecord("warning", f"{_prefix(event)} {size} output lost: {event.reason}", event.time)
        case _:
            assert_never(event)


def _line_records(run: LogLines) -> Iterator[LogRecord]:
    prefix = _prefix(run)
    for start in range(0, len(run.lines), LINES_PER_RECORD):
        lines = run.lines[start : start + LINES_PER_RECORD]
        yield LogRecord("info", "\n".join(f"{prefix} {_as_shown(line)}" for line in lines), run.time)


def _prefix(event: LogLines | ReplicaChanged | Progress | Metric | Result | LogsLost) -> str:
    return f"[{event.role}/{event.replica}]"


def _as_shown(line: str) -> str:
    r"""Return what a terminal would show: of a progress bar, redrawn after each ``\r``, its last state."""
    return line.rstrip("\r").rpartition("\r")[2]


def _change(event: ReplicaChanged) -> str:
    again = f" (attempt {event.attempt + 1})" if event.attempt else ""
    if event.signal is not None:
        how = f", killed by {event.signal}"
    elif event.exit_code:
        how = f", exit code {event.exit_code}"
    else:
        how = ""
    return _with_reason(f"is {event.state}{how}{again}", event.msg)


def _with_reason(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[:size]}…"


@final
class AppLog:
    """Writes events to the task's log and remembers each replica's last lines."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._tails: dict[tuple[str, int], deque[str]] = {}

    def write(self, event: AppEvent) -> None:
        """Show one event."""
        for level, message, time in records(event):
            self._emit(level, message, time)
        if isinstance(event, LogLines):
            tail = self._tails.setdefault((event.role, event.replica), deque(maxlen=TAIL_LINES))
            tail.extend(_cut(_as_shown(line), TAIL_LINE_CHARS) for line in event.lines[-TAIL_LINES:])

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._emit("info", message, None)

    def show_failure(self, status: AppStatus) -> None:
        """Show the last lines of the replica that failed first; others may have written since."""
        replica = _first_failed(status)
        tail = self._tails.get((replica.role, replica.id)) if replica else None
        if replica and tail:
            head = f"the last {len(tail)} lines of {replica.role}/{replica.id}:"
            self._emit("error", "\n".join([head, *tail]), None)


def _first_failed(status: AppStatus) -> ReplicaStatus | None:
    failed = [r for role in status.roles for r in role.replicas if r.state is AppState.FAILED]
    return min(failed, key=lambda r: float("inf") if r.ended_at is None else r.ended_at, default=None)
