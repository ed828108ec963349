"""Lines of one replica's log: which attempt printed them, and where in the log each place lies."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchx_core.schedulers.docker.frames import Record
from torchx_core.schedulers.docker.shim import MARKER_PREFIX, parse_marker

__all__ = ["MAX_LINE", "LogPlace", "Run", "Seek", "StreamLines", "StreamPlace"]

MAX_LINE = 1 << 20
"""A longer line is cut into pieces of about this many bytes, each but the last marked as unfinished."""

_RECORD_SIZE = 1 << 14
"""Bytes that the engine gathers of a line before it stores them as a record of its own."""
_LONGEST_OPEN = 3
_MILLISECOND = 23
"""Lines that were printed within one millisecond make a run: so many characters of their stamps are the same.

Runs must not depend on how the bytes arrived, or reading later would not give what was seen live.
"""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far one stream of one replica was read: up to the end of a line, or of a piece of one."""

    stamp: bytes = b""
    """Of the last record."""
    seen: int = 0
    """How many records in a row had that very stamp: the engine gives one to all records of a line."""
    attempt: int = 0
    carry: bytes = b""
    """The first bytes of a character that a piece of a line ended in."""
    inside: bool = False
    """Whether it lies within a line, after a piece of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """How far a replica's log was read."""

    since: bytes = b""
    """The stamp of the last record; of the first one of a line that is not complete."""
    streams: dict[int, StreamPlace] = field(default_factory=dict[int, StreamPlace])
    gone: bool = False
    """It was said that there is nothing more to read."""


class Seek:
    """Lets the records of one stream through that follow its place, in a log that is read again.

    The place is a record, told by its stamp, and the order is the log's, not the clock's: a clock that was
    set back makes stamps that decrease, and nothing is lost or repeated by it.
    """

    def __init__(self, place: StreamPlace, since: bytes) -> None:
        """Look for the place among records with stamps from `since` on.

        A place before that needs no looking for: everything that comes follows it.
        """
        self._place = place
        self._seen = 0
        self._skipped: list[Record] = []
        self.expected: bool = bool(place.stamp) and place.stamp >= since
        """Whether the place's record should be there."""
        self.found: bool = False

    def take(self, records: Iterable[Record]) -> list[Record]:
        """Return those of the records that follow the place."""
        if not self.expected or self.found:
            return list(records)
        through: list[Record] = []
        for record in records:
            if self.found:
                through.append(record)
                continue
            self._skipped.append(record)
            self._seen += record.stamp == self._place.stamp
            self.found = self._seen == self._place.seen
        if self.found:
            self._skipped = []
        return through

    def give_up(self) -> list[Record]:
        """Return what was skipped: the place's record is gone, so all that is there was written after it."""
        skipped, self._skipped = self._skipped, []
        return skipped


class Run:
    """Consecutive lines of one stream."""

    __slots__ = ("attempt", "eol", "lines", "stamp", "stream")

    def __init__(self, stream: int, attempt: int, stamp: bytes, lines: list[bytes], *, eol: bool) -> None:
        """Take the lines over, without their newlines."""
        self.stream: int = stream
        self.attempt: int = attempt
        self.stamp: bytes = stamp
        self.lines: list[bytes] = lines
        self.eol: bool = eol

    def goes_on(self, stream: int, attempt: int, stamp: bytes) -> bool:
        """Return whether a line of this kind belongs to the run."""
        return self.eol and self.stamp == stamp and self.stream == stream and self.attempt == attempt


class StreamLines:
    """Makes lines of the records of one stream."""

    def __init__(self, stream: int, key: str | None, place: StreamPlace) -> None:
        """Begin after the place.

        Args:
            stream: Which one.
            key: What the markers of attempts carry; None where there are none.
            place: Where the last reading ended.
        """
        self._stream = stream
        self._key = key
        self._stamp, self._seen = place.stamp, place.seen
        self._done = (place.stamp, place.seen)
        self._carry = place.carry
        self._inside = place.inside
        self._parts: list[bytes] = []
        self._size = 0
        self.attempt: int = place.attempt
        self.opened: bytes = b""
        """The stamp of the first record of the line that is not complete yet."""
        self.drops_newlines: bool = False
        """Whether the log has no newline at the end of lines of several records."""

    @property
    def place(self) -> StreamPlace:
        """Right after the last line that was complete."""
        return StreamPlace(*self._done, self.attempt, self._carry, self._inside)

    def rewind(self) -> None:
        """Forget the incomplete line: its records will be read again."""
        self._stamp, self._seen = self._done
        self._parts, self._size, self.opened = [], 0, b""

    def next_attempt(self, record: Record) -> int | None:
        """Return which attempt the record begins, if it is a marker."""
        if self._key is None or not record.data.startswith(MARKER_PREFIX):
            return None
        return parse_marker(record.data, self._key)

    def begin(self, attempt: int, record: Record, runs: list[Run]) -> None:
        """Take a marker, which ends the line before it if nothing else has."""
        self.finish(runs)
        self.attempt = attempt
        self._count(record.stamp)
        self._done = (self._stamp, self._seen)

    def take(self, record: Record, runs: list[Run]) -> None:
        """Take the next record, and add the lines that it completes to the runs."""
        _, stamp, data = record
        self._count(stamp)
        if self._parts or self._inside or data[-1:] != b"\n":
            self._take_part(record, runs)
            return
        self._done = (stamp, self._seen)
        moment, last = stamp[:_MILLISECOND], runs[-1] if runs else None
        if last and last.goes_on(self._stream, self.attempt, moment):
            last.lines.append(data[:-1])
        else:
            runs.append(Run(self._stream, self.attempt, moment, [data[:-1]], eol=True))

    def _take_part(self, record: Record, runs: list[Run]) -> None:
        self.opened = self.opened or record.stamp
        self._parts.append(record.data)
        self._size += len(record.data)
        if record.data.endswith(b"\n"):
            self._complete(runs, eol=True)
        elif len(record.data) < _RECORD_SIZE:  # the end of a line, or of what an attempt printed
            several = len(self._parts) > 1 or self._inside
            self._complete(runs, eol=several and self.drops_newlines)
        elif self._size >= MAX_LINE:
            self._complete(runs, eol=False, goes_on=True)

    def finish(self, runs: list[Run]) -> None:
        """Hand on an incomplete line: nothing more will come of it."""
        if self._parts or self._inside:
            self._complete(runs, eol=False)

    def _complete(self, runs: list[Run], *, eol: bool, goes_on: bool = False) -> None:
        text = self._carry + b"".join(self._parts)
        cut = len(text) - (_open_character(text) if goes_on else 0)
        line = text[:cut].removesuffix(b"\n")
        moment = (self.opened or self._stamp)[:_MILLISECOND]
        runs.append(Run(self._stream, self.attempt, moment, [line], eol=eol))
        self._carry, self._inside = text[cut:], goes_on
        self._done = (self._stamp, self._seen)
        self._parts, self._size, self.opened = [], 0, b""

    def _count(self, stamp: bytes) -> None:
        self._seen = self._seen + 1 if stamp == self._stamp else 1
        self._stamp = stamp


def _open_character(text: bytes) -> int:
    """Return how many bytes at the end begin a UTF-8 character that is not complete."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(text[-_LONGEST_OPEN:])
    return len(decoder.getstate()[0])
