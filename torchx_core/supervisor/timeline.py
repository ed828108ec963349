"""The timeline: one small binary record per piece of the app's event stream, in order.

Log text, events and reports live in files of their own; the timeline says in which order they belong,
where each piece lies and when it was written. A place in it (a byte offset) is a place in the whole
stream, which is all that a cursor needs to hold.

A record is written after the bytes it speaks of, so a reader may trust every whole record. Those of lines
that a limit of the log has cost become zeros again, which `Dropped` tells from such as were never written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

STDOUT = 1  # a run of lines in the replica's combined.log
STDERR = 2
EVENT = 3  # a line of the journal
REPORT = 4  # a line of the reports
LOST = 5  # that many bytes of output could not be stored
END = 6  # nothing follows; the final record is on disk
TEXTS = (STDOUT, STDERR)

EOL = 1  # flag: the run ends in a newline
OVER_LIMIT = 2  # flag of a LOST that a reader makes of a `Dropped`; nobody writes it

_FORMAT = struct.Struct("<QQIIHBBI")
SIZE = _FORMAT.size


class Entry(NamedTuple):
    """One record."""

    time_us: int
    """Microseconds since the epoch."""
    offset: int
    size: int
    replica: int
    """Position in the app's list of replicas."""
    attempt: int
    kind: int
    flags: int = 0


def pack(entry: Entry) -> bytes:
    """Return the record's bytes."""
    return _FORMAT.pack(*entry, 0)


def rows_of(data: bytes) -> Iterator[tuple[int, int, int, int, int, int, int, int]]:
    """Yield the fields of all whole records, be they zeros, and a last field of no use."""
    return _FORMAT.iter_unpack(data[: len(data) - len(data) % SIZE])


class Dropped(NamedTuple):
    """What a limit of the log has cost one attempt of one replica."""

    time_us: int
    """When the first of the lines came, in microseconds since the epoch."""
    first: int
    """Where in the timeline the first of its records was that have gone."""
    last: int
    """Where the last one was; records of others lie in between."""
    size: int
    """Bytes of text."""
    replica: int
    """Position in the app's list of replicas."""
    attempt: int
