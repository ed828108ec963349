"""The engine's times: RFC 3339 with nine digits after the point, in UTC, so that they compare as bytes."""

from __future__ import annotations

import re
import time
from calendar import timegm

__all__ = ["STAMP_SIZE", "check_timestamp", "moved_back", "to_seconds", "unix_time"]

STAMP_SIZE = 30
"""``2026-11-21T14:36:18.123456789Z``"""

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
_WHOLE = 19
_FORMAT = "%Y-%m-%dT%H:%M:%S"


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
