"""The timeline: one small binary record per piece of the app's event stream, in order.

Log text, events and reports live in files of their own; the timeline says in which order they belong,
where each piece lies and when it was written. A place in it (a byte offset) is a place in the whole
stream, which is all that a cursor needs to hold.

A record is written after the bytes it speaks of, so a reader may trust every whole record.
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

EOL = 1  # flag: the run ends in a newline

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


def unpack(data: bytes) -> Iterator[Entry]:
    """Yield the records in whole multiples of SIZE; stops at one that was never written (zeros)."""
    for time_us, offset, size, replica, attempt, kind, flags, _ in _FORMAT.iter_unpack(data):
        if kind == 0:
            return
        yield Entry(time_us, offset, size, replica, attempt, kind, flags)
