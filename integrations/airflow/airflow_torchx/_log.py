"""Shows an app's events in the task's log, each line with the replica that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from time import monotonic
from typing import Final, NamedTuple, TypeAlias, final

from airflow_torchx._engine import Level
from airflow_torchx._shown import Shown
from torchx_core.display.levels import by_level, level_of_state
from torchx_core.display.limits import LatestReports, LogLimit
from torchx_core.display.tails import TAIL_LINE_CHARS, Tails
from torchx_core.display.text import as_shown, describe, prefix
from torchx_core.schedulers import (
    AppEvent,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    StateChanged,
)
from torchx_core.specs import AppHandle, AppStatus

__all__ = ["AppLog", "Emit", "records"]

Emit: TypeAlias = Callable[[Level, str, float | None], None]
"""Writes one record: level, message (perhaps of many lines), seconds since the epoch or None for now."""

LINES_PER_RECORD = 100
_FOLD = "group::"
NOTHING: Final[Mapping[str, int]] = {}


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
            yield LogRecord(level_of_state(event.state), f"app {describe(event)}", event.time)
        case ReplicaChanged():
            yield LogRecord(level_of_state(event.state), f"{prefix(event)} {describe(event)}", event.time)
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
    """Writes events to the task's log, up to its limit, and remembers each replica's last lines.

    The last lines of each replica come at the end, whatever was left out.
    """

    def __init__(
        self,
        emit: Emit,
        *,
        lines_per_record: int = LINES_PER_RECORD,
        limit_bytes: int | None = None,
        shown_bytes: int = 0,
        left_out: Mapping[str, int] = NOTHING,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = monotonic,
        before: Shown | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            emit: Writes a record.
            lines_per_record: How many lines may share one.
            limit_bytes: How much of the app's output is shown; None for all.
            shown_bytes: How much of it was shown before.
            left_out: How many lines were left out before, as the property of that name says it.
            mask: Hides secrets in a line that is to be cut; Airflow masks what is shown whole.
            clock: Tells when progress and metrics are shown again.
            before: What the logs of earlier tries show, not to be shown again.
        """
        self._emit = emit
        self._lines_per_record = lines_per_record
        self._limit = LogLimit(limit_bytes, shown_bytes)
        self._limit.left_out.update(_replicas(left_out))
        self._tails = Tails(lambda line: mask(line) if len(line) > TAIL_LINE_CHARS else line)
        self._reports = LatestReports(clock)
        self._before = before or Shown()

    @property
    def shown_bytes(self) -> int:
        """How much of the app's output was shown so far."""
        return self._limit.shown_bytes

    @property
    def left_out(self) -> dict[str, int]:
        """How many lines were left out so far, by replica (``role/0``): JSON."""
        return {f"{role}/{replica}": count for (role, replica), count in self._limit.left_out.items()}

    def write(self, event: AppEvent) -> None:
        """Show one event; of progress and metrics the latest, once a second."""
        if isinstance(event, Progress | Metric):
            self._reports.take(event)
            self.tick()
            return
        if isinstance(event, StateChanged):
            self.flush()
        if isinstance(event, LogLines):
            self._tails.remember(event)
            if not self._has_room(event):
                return
        self._show(event)

    def tick(self) -> None:
        """Show what was reported, if that is due; call it about once a second."""
        self._show(*self._reports.due())

    def flush(self) -> None:
        """Show what was reported last, before somebody else goes on with the log."""
        self._show(*self._reports.rest())

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._emit("info", message, None)

    def show_end(self, status: AppStatus, handle: AppHandle) -> None:
        """Say what was left out and how to see it; of a failure show the first one's last lines."""
        failed = {(replica.role, replica.id) for replica in status.failed_replicas()[:1]}
        if summary := self._limit.summary(handle):
            self._emit("warning", summary, None)
        for role, replica in self._limit.left_out.keys() - failed:
            if self._tails.of(role, replica):
                self._emit("info", f"::group::The end of {role}/{replica}", None)
                self._show_tail("info", role, replica)
                self._emit("info", "::endgroup::", None)
        for role, replica in failed:
            self._show_tail("error", role, replica)

    def _has_room(self, run: LogLines) -> bool:
        """Return whether the lines may be shown, and count them."""
        was_full = bool(self._limit.left_out)
        if self._limit.admits(run):
            return True
        if not was_full:
            self._emit("warning", self._limit.notice, None)
        return False

    def _show(self, *events: AppEvent) -> None:
        for event in events:
            for level, message, time in records(event, self._lines_per_record):
                if rest := self._before.left_of(message, time):
                    self._emit(level, rest, time)

    def _show_tail(self, level: Level, role: str, replica: int) -> None:
        if tail := self._tails.of(role, replica):
            self._emit(level, "\n".join([f"the last {len(tail)} lines of {role}/{replica}:", *tail]), None)


def _replicas(counts: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], int]]:
    for name, count in counts.items():
        role, _, replica = name.rpartition("/")
        yield (role, int(replica)), count
