"""Shows an app's events in the task's log, each line with the replica that it comes from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeAlias, final

from airflow_torchx._engine import Level
from torchx_core.schedulers import AppEvent, LogLines, LogsLost, StateChanged
from torchx_core.schedulers.levels import by_level
from torchx_core.schedulers.text import as_shown, cut, describe, prefix
from torchx_core.specs import AppStatus

__all__ = ["AppLog", "Emit", "records"]

Emit: TypeAlias = Callable[[Level, str, float | None], None]
"""Writes one record: level, message (perhaps of many lines), seconds since the epoch or None for now."""

LINES_PER_RECORD = 100
TAIL_LINES = 50
TAIL_LINE_CHARS = 1000
_FOLD = "group::"


class LogRecord(NamedTuple):
    """One record of the task's log."""

    level: Level
    message: str
    time: float


def records(event: AppEvent, lines_per_record: int = LINES_PER_RECORD) -> Iterator[LogRecord]:
    """Yield what the task's log shows for the event.

    Lines that were written together, at one level, share a record; what is written slowly gets one record a
    line.
    """
    match event:
        case LogLines():
            yield from _line_records(event, lines_per_record)
        case StateChanged():
            yield LogRecord("info", f"app {describe(event)}", event.time)
        case LogsLost():
            yield LogRecord("warning", f"{prefix(event)} {describe(event)}", event.time)
        case _:
            yield LogRecord("info", f"{prefix(event)} {describe(event)}", event.time)


def _line_records(run: LogLines, lines_per_record: int) -> Iterator[LogRecord]:
    head = prefix(run)
    for start in range(0, len(run.lines), lines_per_record):
        shown = [as_shown(line) for line in run.lines[start : start + lines_per_record]]
        for level, lines in by_level(shown):
            for together in _apart_from_folds(lines):
                yield LogRecord(level, "\n".join(f"{head} {line}" for line in together), run.time)


def _apart_from_folds(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines in pieces; those by which the web UI folds alone, for it hides their whole record."""
    if not any(_FOLD in line for line in lines):
        yield lines
        return
    for folds, run in groupby(lines, lambda line: _FOLD in line):
        piece = list(run)
        yield from ([line] for line in piece) if folds else [piece]


@final
class AppLog:
    """Writes events to the task's log and remembers each replica's last lines.

    A log has a limit: beyond it lines are counted, not shown, because an Airflow that has to serve a log of
    gigabytes serves nobody. The last lines of each replica come at the end, whatever was left out.
    """

    def __init__(
        self,
        emit: Emit,
        *,
        lines_per_record: int = LINES_PER_RECORD,
        limit_bytes: int | None = None,
        shown_bytes: int = 0,
    ) -> None:
        """Write nothing yet.

        Args:
            emit: Writes a record.
            lines_per_record: How many lines may share one.
            limit_bytes: How much of the app's output is shown; None for all.
            shown_bytes: How much of it was shown before.
        """
        self._emit = emit
        self._lines_per_record = lines_per_record
        self._limit_bytes = limit_bytes
        self.shown_bytes = shown_bytes
        self._tails: dict[tuple[str, int], deque[str]] = {}
        self._left_out: dict[tuple[str, int], int] = {}

    def write(self, event: AppEvent) -> None:
        """Show one event."""
        if isinstance(event, LogLines):
            self._remember(event)
            if not self._has_room(event):
                return
        for level, message, time in records(event, self._lines_per_record):
            self._emit(level, message, time)

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._emit("info", message, None)

    def show_end(self, status: AppStatus) -> None:
        """Say what was left out and where it is; of a failure show the last lines of whoever failed first."""
        if self._left_out:
            self._show_left_out(status)
        if failed := next(iter(status.failed_replicas()), None):
            self._show_tail("error", failed.role, failed.id)

    def _has_room(self, run: LogLines) -> bool:
        """Return whether the lines may be shown, and count them."""
        if self._limit_bytes is None or self.shown_bytes < self._limit_bytes:
            self.shown_bytes += sum(map(len, run.lines)) + len(run.lines)
            return True
        if not self._left_out:
            limit = f"{self._limit_bytes / 1e6:g} MB"
            self._emit(
                "warning", f"the log has reached its limit of {limit}; further lines are left out", None
            )
        replica = (run.role, run.replica)
        self._left_out[replica] = self._left_out.get(replica, 0) + len(run.lines)
        return False

    def _remember(self, run: LogLines) -> None:
        tail = self._tails.setdefault((run.role, run.replica), deque(maxlen=TAIL_LINES))
        tail.extend(cut(as_shown(line), TAIL_LINE_CHARS) for line in run.lines[-TAIL_LINES:])

    def _show_left_out(self, status: AppStatus) -> None:
        count = sum(self._left_out.values())
        places = [replica.log_dir for role in status.roles for replica in role.replicas if replica.log_dir]
        where = f"; the whole log is in {', '.join(places[:4])}" if places else ""
        self._emit("warning", f"{count} lines were left out{where}", None)
        failed = {(replica.role, replica.id) for replica in status.failed_replicas()[:1]}
        for role, replica in self._left_out.keys() - failed:
            self._emit("info", f"::group::The end of {role}/{replica}", None)
            self._show_tail("info", role, replica)
            self._emit("info", "::endgroup::", None)

    def _show_tail(self, level: Level, role: str, replica: int) -> None:
        tail = self._tails.get((role, replica))
        if tail:
            self._emit(level, "\n".join([f"the last {len(tail)} lines of {role}/{replica}:", *tail]), None)
