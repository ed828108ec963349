"""Records of a container's log, as the engine sends them: a frame each, with stream and time.

Times are RFC 3339 with nine digits after the point, in UTC, so that they compare as bytes.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from struct import Struct
from typing import NamedTuple

__all__ = [
    "STDERR",
    "STDOUT",
    "BadFrame",
    "Frames",
    "Record",
    "check_timestamp",
    "moved_back",
    "to_seconds",
    "unix_time",
]

STDOUT, STDERR, SYSTEM = 1, 2, 3
_HEADER = Struct(">B3xI")
_MAX_FRAME = 1 << 26
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
_STAMP_SIZE = len("2026-11-21T14:36:18.123456789Z")
_WHOLE = len("2026-11-21T14:36:18")
_FORMAT = "%Y-%m-%dT%H:%M:%S"
_LEAST = _WHOLE + len("Z")
_POINT = ord(".")


class BadFrame(OSError):
    """The bytes are no frames, or the engine says in one that it cannot read the log."""


class Record(NamedTuple):
    """A line, or up to 16 KiB of a longer one."""

    stream: int
    stamp: bytes
    data: bytes
    r"""With its ``\n``; without it, more of the line follows in the next record, or nothing at all."""


class Frames:
    """Puts frames together from pieces of any size.

    Source: the engine's API reference, "Stream format" of ``ContainerAttach``: one byte that names the
    stream, three zeros, four bytes with the size, big-endian; then, with ``timestamps=1``, the time, a blank
    and what was printed.
    """

    def __init__(self) -> None:
        """Begin at a frame's first byte."""
        self._rest: bytes = b""

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._rest)

    def take(self, data: bytes) -> list[Record]:
        """Return the records that are complete with these bytes.

        Raises:
            BadFrame: Nothing after this can be read.
        """
        data = self._rest + data if self._rest else data
        records: list[Record] = []
        append, unpack = records.append, _HEADER.unpack_from
        at, size = 0, len(data)
        while size - at >= _HEADER.size:
            stream, length = unpack(data, at)
            start = at + _HEADER.size
            text = start + _STAMP_SIZE
            end = start + length
            if not STDOUT <= stream <= STDERR or not _LEAST < length < _MAX_FRAME:
                raise BadFrame(_complaint(stream, data[start:end]))
            if end > size:
                break
            if length > _STAMP_SIZE and data[start + _WHOLE] == _POINT:
                append(Record(stream, data[start:text], data[text + 1 : end]))
            else:
                append(_of_whole_seconds(stream, data[start:end]))
            at = end
        self._rest = data[at:]
        return records


def _of_whole_seconds(stream: int, data: bytes) -> Record:
    """Read a record of Podman's, whose stamps have no fraction (seen on 4.3.1 and 5.4.2)."""
    if data[_WHOLE : _WHOLE + 2] != b"Z ":
        raise BadFrame(_complaint(stream, data))
    return Record(stream, data[:_WHOLE] + b".000000000Z", data[_WHOLE + 2 :])


def _complaint(stream: int, data: bytes) -> str:
    if stream == SYSTEM:
        return f"the engine cannot read the log: {data.decode(errors='replace').strip()}"
    return f"not a log's frame: {data[:40]!r}"


def check_timestamp(stamp: bytes) -> bytes:
    """Return the stamp.

    Raises:
        ValueError: It is none.
    """
    if not _STAMP.fullmatch(stamp):
        raise ValueError(f"not a time: {stamp!r}")
    _whole_seconds(stamp)
    return stamp


def moved_back(stamp: bytes, seconds: float) -> bytes:
    """Return the stamp of so many seconds before.

    Example:
        >>> moved_back(b"2026-11-21T14:00:01.000000002Z", 60.5)
        b'2026-11-21T13:59:00.500000002Z'
    """
    since_epoch = _whole_seconds(stamp) * 10**9 + int(stamp[_WHOLE + 1 : -1]) - int(seconds * 10**9)
    whole, rest = divmod(max(0, since_epoch), 10**9)
    return time.strftime(_FORMAT, time.gmtime(whole)).encode() + b".%09dZ" % rest


def unix_time(stamp: bytes) -> str:
    """Return the stamp as ``since`` takes it, exactly.

    Example:
        >>> unix_time(b"1970-01-01T00:01:00.000000002Z")
        '60.000000002'
    """
    return f"{_whole_seconds(stamp)}.{stamp[_WHOLE + 1 : -1].decode()}"


def to_seconds(stamp: bytes) -> float:
    """Return the seconds since the epoch of a stamp, or of its first part.

    Example:
        >>> to_seconds(b"1970-01-01T00:01:00.250")
        60.25
    """
    return _whole_seconds(stamp) + float(b"0" + stamp[_WHOLE:].rstrip(b"Z"))


def _whole_seconds(stamp: bytes) -> int:
    return timegm(time.strptime(stamp[:_WHOLE].decode(), _FORMAT))
