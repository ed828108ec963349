"""Reads an app's timeline from a place on, and knows what has gone from it under the limit of its log."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import timeline
from torchx_core.supervisor.reading import DamagedFile, open_regular, read_object
from torchx_core.supervisor.records import DROPPED, TIMELINE
from torchx_core.supervisor.shape import Misshapen, build, is_time, rows
from torchx_core.supervisor.timeline import Dropped, Entry

__all__ = ["UNKNOWN", "Stretch", "TimelineFile"]

UNKNOWN: Final = -1
"""The size of a LOST entry of which nobody knows how much it is."""
_Announced: TypeAlias = dict[tuple[int, int], int]
"""Replica and attempt -> up to which place in the timeline a reader knows what of its lines has gone."""
_MOST_ENTRIES: Final = 4096
"""How many are read at a time, at most."""


class Stretch(NamedTuple):
    """Some records that follow a place."""

    entries: list[Entry]
    """Those to tell; one of kind LOST, with `timeline.OVER_LIMIT`, in place of lines that have gone."""
    end: int
    """The place after them."""
    data: bytes
    begin: int
    """The bytes that were read, and where."""
    announced: _Announced
    """What of the lines that have gone a reader knows with these entries."""


class TimelineFile:
    """The file, open for one reader.

    Without a limit it only grows. With one, records of lines become zeros, and then their text is freed: so
    whoever has read text asks `is_current` whether the records are still there, and reads again if not.
    """

    def __init__(self, record: AppRecord) -> None:
        """Open it.

        Raises:
            FileNotFoundError: There is none.
            DamagedFile: It is no regular file.
        """
        self._path = record.path(TIMELINE)
        self._fd = open_regular(self._path)
        self._replicas = len(record.plan.replicas)
        self._is_limited = record.plan.log_max_mb is not None
        self._dropped = _DroppedLines(record.path(DROPPED), self._replicas)
        self._announced: _Announced = {}

    def is_at(self, path_stat: os.stat_result) -> bool:
        """Return whether that is the file which is open."""
        return os.path.samestat(path_stat, os.fstat(self._fd))

    def read(self, begin: int, most_bytes: int | None) -> Stretch:
        """Return some whole records from the place on; none where nothing follows.

        Args:
            begin: The place.
            most_bytes: How much text they may speak of together, one record's excepted; None for any.

        Raises:
            DamagedFile: They make no sense.
        """
        data = self._pread(begin)
        while True:
            try:
                return self._stretch(begin, data, most_bytes)
            except DamagedFile:
                again = self._pread(begin)
                if not self._is_limited or again[: len(data)] == data:
                    raise
                data = again  # a record was read while it became zeros

    def is_current(self, stretch: Stretch) -> bool:
        """Return whether no record of it has gone since; then the reader knows what it says has gone."""
        if self._is_limited and self._pread(stretch.begin)[: len(stretch.data)] != stretch.data:
            return False
        self._announced = stretch.announced
        return True

    def close(self) -> None:
        """Let go."""
        os.close(self._fd)

    def _pread(self, at: int) -> bytes:
        data = os.pread(self._fd, _MOST_ENTRIES * timeline.SIZE, at)
        return data[: len(data) - len(data) % timeline.SIZE]

    def _stretch(self, begin: int, data: bytes, most_bytes: int | None) -> Stretch:
        if self._is_limited and data and not any(data):
            return self._hole(begin, data)
        entries: list[Entry] = []
        gap: _Gap | None = None
        at, size = begin, 0
        for fields in timeline.rows_of(data):
            entry = Entry(*fields[:7])
            if entry.kind == 0:
                gap = gap or self._gap(begin)
                if gap is None or gap.end_of(at) is None:
                    break  # it was never written
                gap.announce(at, at + timeline.SIZE, entries)
            else:
                if entry.replica >= self._replicas or not is_time(entry.time_us / 1e6):
                    raise DamagedFile(self._path, f"makes no sense at byte {at}")
                size += entry.size if entry.kind in timeline.TEXTS else 0
                if entries and most_bytes is not None and size > most_bytes:
                    break
                entries.append(entry)
            at += timeline.SIZE
        return Stretch(entries, at, data, begin, gap.announced if gap else self._announced)

    def _hole(self, begin: int, data: bytes) -> Stretch:
        """Skip what may be longer than anybody wants to read through."""
        gap = self._gap(begin)
        known = gap.end_of(begin) if gap else None
        if gap is None or known is None:
            return Stretch([], begin, data, begin, self._announced)
        try:
            hole_end = os.lseek(self._fd, begin, os.SEEK_DATA)
        except OSError:  # nothing follows it
            hole_end = known
        end = min(known, max(begin + len(data), hole_end - hole_end % timeline.SIZE))
        entries: list[Entry] = []
        gap.announce(begin, end, entries)
        return Stretch(entries, end, data, begin, gap.announced)

    def _gap(self, begin: int) -> _Gap | None:
        """Return what has gone, for one who reads on from a place; read only now: it was written before."""
        if not self._is_limited:
            return None
        self._dropped.refresh()
        across = {each for each in self._dropped.across(begin) if self._is_zero(each.last)}
        return _Gap(self._dropped, begin, across, dict(self._announced))

    def _is_zero(self, at: int) -> bool:
        return not any(os.pread(self._fd, timeline.SIZE, at))


class _Gap:
    """Announces what has gone where its first record was; to whoever had passed that by then, at once."""

    def __init__(
        self, dropped: _DroppedLines, begin: int, across: set[Dropped], announced: _Announced
    ) -> None:
        self._dropped = dropped
        self._begin = begin
        self._across: set[Dropped] = across
        self.announced: _Announced = announced

    def end_of(self, at: int) -> int | None:
        """Return where the stretch ends that has the place and has lost lines; None if it is in none."""
        return self._dropped.end_of(at)

    def announce(self, begin: int, end: int, entries: list[Entry]) -> None:
        """Add entries that say what has gone from here to there."""
        news = self._across | self._dropped.beginning_in(begin, end)
        self._across.clear()
        for each in sorted(news, key=attrgetter("first")):
            whose = (each.replica, each.attempt)
            if each.last <= self.announced.get(whose, -1):
                continue
            self.announced[whose] = each.last
            size = each.size if each.first >= self._begin else UNKNOWN  # nobody knows how much of it is left
            last = entries[-1] if entries else None
            if last and last.flags == timeline.OVER_LIMIT and (last.replica, last.attempt) == whose:
                size = UNKNOWN if UNKNOWN in (size, last.size) else last.size + size  # one gap is told once
                entries.pop()
            entries.append(Entry(each.time_us, 0, size, *whose, timeline.LOST, timeline.OVER_LIMIT))


class _DroppedLines:
    """What is written down of lines that have gone; read again when there is more of it."""

    def __init__(self, path: str, replicas: int) -> None:
        self._path = path
        self._replicas = replicas
        self._seen = (-1, -1)
        self._by_first: dict[int, set[Dropped]] = {}
        self._firsts: list[int] = []
        self._longest = 0
        self._covered: list[tuple[int, int]] = []
        """Begin and end of the stretches of the timeline that lines have gone from, in order."""

    def end_of(self, at: int) -> int | None:
        """Return where the stretch ends that has the place and has lost lines; None if it is in none."""
        index = bisect_right(self._covered, (at, sys.maxsize)) - 1
        return self._covered[index][1] if index >= 0 and at < self._covered[index][1] else None

    def beginning_in(self, begin: int, end: int) -> set[Dropped]:
        """Return those whose first record was from here to there."""
        low, high = bisect_left(self._firsts, begin), bisect_left(self._firsts, end)
        return {each for first in self._firsts[low:high] for each in self._by_first[first]}

    def across(self, at: int) -> set[Dropped]:
        """Return those that begin before the place, and end at it or after it."""
        return {each for each in self.beginning_in(at - self._longest, at) if each.last >= at}

    def refresh(self) -> None:
        """Read what is new.

        Raises:
            DamagedFile: It makes no sense.
        """
        try:
            found = os.stat(self._path)
            if (found.st_ino, found.st_size) == self._seen:
                return
            record = read_object(self._path)
        except FileNotFoundError:
            return
        self._seen = (found.st_ino, found.st_size)
        self._by_first.clear()
        for each in self._checked(record):
            self._by_first.setdefault(each.first, set()).add(each)
            self._longest = max(self._longest, each.last - each.first)
        self._firsts = sorted(self._by_first)
        self._covered.clear()
        for first in self._firsts:
            end = max(each.last for each in self._by_first[first]) + timeline.SIZE
            if self._covered and first <= self._covered[-1][1]:
                self._covered[-1] = (self._covered[-1][0], max(end, self._covered[-1][1]))
            else:
                self._covered.append((first, end))

    def _checked(self, record: object) -> list[Dropped]:
        try:
            dropped = [build(Dropped, row) for row in rows(record, "dropped")]
        except Misshapen as err:
            raise DamagedFile(self._path, str(err)) from err
        for each in dropped:
            in_order = 0 <= each.first <= each.last
            if not (in_order and 0 <= each.replica < self._replicas and is_time(each.time_us / 1e6)):
                raise DamagedFile(self._path, "makes no sense")
        return dropped
