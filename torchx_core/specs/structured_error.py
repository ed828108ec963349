"""The error file that a program leaves behind, in the forms that are out there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from torchx_core.specs.checks import is_map
from torchx_core.specs.sentinels import NONE

__all__ = ["StructuredError", "parse_structured_error"]

_LATEST: Final = 1e12
"""Seconds since the epoch; there is no NaN below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredError:
    """What an error file says; what it does not say is None."""

    message: str
    exit_code: int | None = None
    time: str | None = None
    """When it happened, in UTC, for people."""
    timestamp: int | None = field(default=None, repr=False, compare=False)
    """The same in seconds since the epoch."""
    traceback: str = ""
    rank: int | None = None
    """Which of a torchrun's processes it was; only what `dist.torchrun` starts says so, as the next."""
    at: float | None = None
    """When it happened, in seconds since the epoch, exactly enough to tell who was first."""

    @property
    def text(self) -> str:
        """The message with the traceback, where that is not a part of it."""
        if not self.traceback or self.traceback in self.message:
            return self.message
        return self.traceback if self.message in self.traceback else f"{self.message}\n{self.traceback}"


def parse_structured_error(text: str) -> StructuredError | None:
    """Read an error file; never raises, because programs die while they write it.

    Known forms: ``{"message": {"message": …, "errorCode": …, "extraInfo": {"timestamp": …}}}`` as written by
    torchelastic, the same without the outer level, and anything else, which is the message as it stands.

    Returns:
        None when there is no text (empty, or `NONE`).

    Example:
        >>> error = parse_structured_error('{"message": "out of memory", "errorCode": 3}')
        >>> error.message, error.exit_code
        ('out of memory', 3)
    """
    text = text.strip()
    if text in ("", NONE):
        return None
    try:
        loaded: object = json.loads(text)
    except (ValueError, RecursionError):
        loaded = None
    return (_from_map(loaded) if is_map(loaded) else None) or StructuredError(message=text)


def _from_map(loaded: Mapping[object, object]) -> StructuredError | None:
    inner = loaded.get("message")
    body = inner if is_map(inner) else loaded
    message = body.get("message")
    if not isinstance(message, str) or not message.strip():
        return None
    extra = body.get("extraInfo")
    more = extra if is_map(extra) else body
    exit_code = _whole(body.get("errorCode"))  # 0 is what writers put that do not know it
    timestamp = _whole(more.get("timestamp"))
    trace = more.get("py_callstack")
    return StructuredError(
        message=message.strip(),
        exit_code=exit_code or None,
        time=_utc(timestamp),
        timestamp=timestamp,
        traceback=trace.strip("\n") if isinstance(trace, str) else "",
        rank=_whole(more.get("rank")),
        at=_number(more.get("time")),
    )


def _whole(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, float | int) and abs(value) < _LATEST else None


def _utc(seconds: int | None) -> str | None:
    try:
        return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return None
