"""Turns a stretch of the timeline into events."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final, Literal

from torchx_core.schedulers import (
    AppEvent,
    FollowOptions,
    LogLines,
    LogsLost,
    StateChanged,
    Stream,
)
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.timeline_file import UNKNOWN
from torchx_core.schedulers.local.view import changes
from torchx_core.schedulers.reports import read_reports
from torchx_core.supervisor import machine, timeline
from torchx_core.supervisor.journal import decode_event
from torchx_core.supervisor.plan import fresh_state
from torchx_core.supervisor.reading import DamagedFile, read_part
from torchx_core.supervisor.records import JOURNAL, REPORTS
from torchx_core.supervisor.timeline import Entry

__all__ = ["Texts", "TimelineReader"]

_LARGEST_GAP: Final = 1 << 16
"""Lines that nobody wants are read with their neighbours; a hole that a limit has made is not."""
_KINDS = {
    Stream.STDOUT: (timeline.STDOUT,),
    Stream.STDERR: (timeline.STDERR,),
    Stream.COMBINED: (timeline.STDOUT, timeline.STDERR),
}
_NAMES: dict[int, Literal["stdout", "stderr"]] = {timeline.STDOUT: "stdout", timeline.STDERR: "stderr"}


class TimelineReader:
    """Reads what the timeline's records point at; holds no file open between calls."""

    def __init__(self, record: AppRecord, options: FollowOptions) -> None:
        """Read nothing yet."""
        self._record = record
        self._options = options
        self._plan = record.plan.replicas
        self._kinds = _KINDS[options.streams] if options.logs else ()
        self._state: machine.State | None = None

    def texts(self, entries: Sequence[Entry]) -> Texts:
        """Read the text of those records that are wanted."""
        return Texts(self._record, [e for e in entries if self._wants_text(e)])

    def events(self, entries: Sequence[Entry], texts: Texts) -> Iterator[AppEvent]:
        """Yield the events of consecutive records, in order, with their texts."""
        for entry in entries:
            if entry.kind in _NAMES:
                if self._wants_text(entry):
                    text = texts.of(entry)
                    yield (
                        self._lines(entry, text)
                        if len(text) == entry.size
                        else self._lost(entry, "its log file was removed or damaged")
                    )
            elif entry.kind == timeline.EVENT:
                yield from self._changes(entry)
            elif entry.kind == timeline.REPORT:
                yield from self._reports(entry)
            elif entry.kind == timeline.LOST and self._wants(entry.replica):
                over_limit = entry.flags & timeline.OVER_LIMIT
                yield self._lost(entry, "over log_max_mb" if over_limit else "disk full")

    def _wants(self, replica: int) -> bool:
        return self._options.wants_role(self._plan[replica].role)

    def _wants_text(self, entry: Entry) -> bool:
        return entry.kind in self._kinds and self._wants(entry.replica)

    def _whose(self, entry: Entry) -> tuple[str, int, int, float]:
        replica = self._plan[entry.replica]
        return replica.role, replica.replica_id, entry.attempt, entry.time_us / 1e6

    def _lines(self, entry: Entry, data: bytes) -> LogLines:
        role, index, attempt, at = self._whose(entry)
        text = data.decode("utf-8", "replace")
        eol = bool(entry.flags & timeline.EOL)
        lines = text[:-1].split("\n") if eol else text.split("\n")
        return LogLines(role, index, attempt, _NAMES[entry.kind], tuple(lines), at, eol)

    def _lost(self, entry: Entry, reason: str) -> LogsLost:
        role, index, attempt, at = self._whose(entry)
        size = None if entry.size == UNKNOWN else entry.size
        return LogsLost(role=role, replica=index, attempt=attempt, size_bytes=size, reason=reason, time=at)

    def _changes(self, entry: Entry) -> Iterator[AppEvent]:
        event = decode_event(read_part(self._record.path(JOURNAL), entry.offset, entry.size))
        if event is None:
            return
        before = self._state or machine.replay(
            fresh_state(self._record.plan), self._events_before(entry.offset)
        )
        self._state = machine.fold(before, event)
        if not machine.fits(before, event):
            return
        for change in changes(event, before, self._state):
            if isinstance(change, StateChanged) or self._options.wants_role(change.role):
                yield change

    def _events_before(self, offset: int) -> Iterator[machine.Event]:
        for line in read_part(self._record.path(JOURNAL), 0, offset).splitlines():
            event = decode_event(line)
            if event is not None:
                yield event

    def _reports(self, entry: Entry) -> Iterator[AppEvent]:
        if self._wants(entry.replica):
            line = read_part(self._record.path(REPORTS), entry.offset, entry.size)
            yield from read_reports([line], *self._whose(entry))


class Texts:
    """The text of several records: what lies together in a log file is read at once."""

    def __init__(self, record: AppRecord, entries: Sequence[Entry]) -> None:
        """Read them."""
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for e in entries:
            found = spans.setdefault((e.replica, e.attempt), [])
            if found and e.offset - found[-1][1] <= _LARGEST_GAP:
                found[-1] = (found[-1][0], e.offset + e.size)
            else:
                found.append((e.offset, e.offset + e.size))
        self._pieces = {
            key: [(first, _read_log(_combined(record, *key), first, last - first)) for first, last in found]
            for key, found in spans.items()
        }

    def of(self, entry: Entry) -> bytes:
        """Return the record's text, or less if there is less."""
        pieces = self._pieces[entry.replica, entry.attempt]
        first, data = pieces[bisect_right(pieces, entry.offset, key=itemgetter(0)) - 1]
        return data[entry.offset - first :][: entry.size]


def _combined(record: AppRecord, replica: int, attempt: int) -> str:
    return os.path.join(record.plan.replicas[replica].log_dir, str(attempt), "combined.log")


def _read_log(path: str, offset: int, size: int) -> bytes:
    """Return that part of a log, or less when it is no file: it is then told as lost."""
    try:
        return read_part(path, offset, size)
    except DamagedFile:
        return b""
