"""Lengths of time, sizes and moments, as people write them and as they like to read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

__all__ = ["format_duration", "format_size", "parse_duration", "parse_moment", "parse_size"]

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.ASCII)

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
_TENTHS_BELOW_S: Final = 10


def parse_duration(text: str) -> float:
    """Return a length of time in seconds; a bare number is seconds.

    Raises:
        ValueError: It is none.

    Example:
        >>> parse_duration("90"), parse_duration("1h30m"), parse_duration("7d")
        (90.0, 5400.0, 604800.0)
    """
    parts = _parts(text)
    if len(parts) == 1 and parts[0][1] == "":
        return parts[0][0]
    if not parts or any(unit not in _SECONDS for _, unit in parts):
        raise ValueError(f"not a length of time: {text!r}; expected for example 90s, 5m, 1h30m or 7d")
    return sum(number * _SECONDS[unit] for number, unit in parts)


def parse_size(text: str) -> int:
    """Return a size in bytes: ``GB`` is a thousand ``MB``, ``GiB`` is 1024 ``MiB``, a bare number is bytes.

    Raises:
        ValueError: It is none.

    Example:
        >>> parse_size("2GB"), parse_size("1.5 KiB"), parse_size("100")
        (2000000000, 1536, 100)
    """
    parts = _parts(text)
    if len(parts) != 1 or (parts[0][1] or "b") not in _BYTES:
        raise ValueError(f"not a size: {text!r}; expected for example 500MB, 2GB or 2GiB")
    number, unit = parts[0]
    return int(number * _BYTES[unit or "b"])


def parse_moment(text: str, now: datetime) -> datetime:
    """Return a moment: an ISO date and time (local unless it says otherwise), or how long ago it was.

    Args:
        text: For example ``2026-11-21T14:00``, ``2026-11-21T14:00:00+00:00`` or ``10m``.
        now: The present, with its time zone.

    Raises:
        ValueError: It is neither.
    """
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(
            f"not a moment: {text!r}; expected for example 2026-11-21T14:00, or 10m for ten minutes ago"
        ) from None


def format_duration(seconds: float) -> str:
    """Return a length of time in its two largest units.

    Example:
        >>> [format_duration(s) for s in (0.04, 7.25, 42, 192, 7500, 273600)]
        ['0.0s', '7.2s', '42s', '3m12s', '2h05m', '3d04h']
    """
    if seconds < _TENTHS_BELOW_S:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < _MINUTE_S:
        return f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S}m{whole % _MINUTE_S:02}s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // _MINUTE_S:02}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02}h"


def format_size(size_bytes: int) -> str:
    """Return a size with three digits at most.

    Example:
        >>> [format_size(n) for n in (0, 999, 1500, 3_400_000, 77_000_000_000)]
        ['0 B', '999 B', '1.5 kB', '3.4 MB', '77 GB']
    """
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":  # noqa: PLR2004  # the factor between two units
            return f"{size:.1f} {unit}" if unit != "B" and size < 10 else f"{size:.0f} {unit}"  # noqa: PLR2004
        size /= 1000
    raise AssertionError("unreachable")


def _parts(text: str) -> list[tuple[float, str]]:
    """Split ``1h30m`` into numbers and units; nothing when there is anything else in it."""
    lower = text.strip().lower()
    if not re.fullmatch(f"(?:{_PART.pattern})+", lower):
        return []
    return [(float(number), unit) for number, unit in _PART.findall(lower)]
