"""The error file that a program leaves behind, in the forms that are out there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from torchx_core.specs.checks import is_map
from torchx_core.specs.sentinels import NONE

__all__ = ["StructuredError", "parse_structured_error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredError:
    """What an error file says; what it does not say is None."""

    message: str
    exit_code: int | None = None
    time: str | None = None
    """When it happened, in UTC, for people."""


def parse_structured_error(text: str) -> StructuredError | None:
    """Read an error file; never raises, because programs die while they write it.

    Known forms: ``{"message": {"message": …, "errorCode": …, "extraInfo": {"timestamp": …}}}`` as written by
    torchelastic, the same without the outer level, and anything else, which is the message as it stands.

    Returns:
        None when there is no text (empty, or `NONE`).

    Example:
        >>> parse_structured_error('{"message": "out of memory", "errorCode": 3}')
        StructuredError(message='out of memory', exit_code=3, time=None)
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
    timestamp = (extra if is_map(extra) else body).get("timestamp")
    exit_code = _number(body.get("errorCode"))  # 0 is what writers put that do not know it
    return StructuredError(
        message=message.strip(), exit_code=exit_code or None, time=_utc(_number(timestamp))
    )


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _utc(seconds: int | None) -> str | None:
    try:
        return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return None
