"""Shows an app's events in the task's log, each line with the replica that it comes from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, final

from airflow_torchx._engine import Level
from torchx_core.schedulers import AppEvent, LogLines, LogsLost, StateChanged
from torchx_core.schedulers.text import as_shown, cut, describe, prefix
from torchx_core.specs import AppStatus

__all__ = ["AppLog", "Emit", "records"]

Emit: TypeAlias = Callable[[Level, str, float | None], None]
"""Writes one record: level, message (perhaps of many lines), seconds since the epoch or None for now."""

LINES_PER_RECORD = 100
TAIL_LINES = 50
TAIL_LINE_CHARS = 1000


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
            yield LogRecord("info", f"app {describe(event)}", event.time)
        case LogsLost():
            yield LogRecord("warning", f"{prefix(event)} {describe(event)}", event.time)
        case _:
            yield LogRecord("info", f"{prefix(event)} {describe(event)}", event.time)


def _line_records(run: LogLines) -> Iterator[LogRecord]:
    head = prefix(run)
    for start in range(0, len(run.lines), LINES_PER_RECORD):
        lines = run.lines[start : start + LINES_PER_RECORD]
        yield LogRecord("info", "\n".join(f"{head} {as_shown(line)}" for line in lines), run.time)


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
            tail.extend(cut(as_shown(line), TAIL_LINE_CHARS) for line in event.lines[-TAIL_LINES:])

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._emit("info", message, None)

    def show_failure(self, status: AppStatus) -> None:
        """Show the last lines of the replica that failed first; others may have written since."""
        replica = next(iter(status.failed_replicas()), None)
        tail = self._tails.get((replica.role, replica.id)) if replica else None
        if replica and tail:
            head = f"the last {len(tail)} lines of {replica.role}/{replica.id}:"
            self._emit("error", "\n".join([head, *tail]), None)
