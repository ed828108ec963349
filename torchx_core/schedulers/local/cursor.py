"""A place in an app's event stream, as a string that may be kept anywhere."""

from __future__ import annotations

import json
from typing import cast

from torchx_core.errors import InvalidCursorError
from torchx_core.supervisor import timeline

__all__ = ["decode_cursor", "encode_cursor"]

_VERSION = 1
DONE = -1
"""The place after the terminal event."""


def encode_cursor(incarnation: str, at: int) -> str:
    """Return the cursor of a place in the timeline of one app."""
    return json.dumps({"v": _VERSION, "app": incarnation, "at": at}, separators=(",", ":"))


def decode_cursor(cursor: str, incarnation: str) -> int:
    """Return the place.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    try:
        value = cast("object", json.loads(cursor))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidCursorError(cursor, "not a JSON object")
    fields = cast("dict[str, object]", value)
    if fields.get("v") != _VERSION:
        raise InvalidCursorError(cursor, f"its version is not {_VERSION}")
    if fields.get("app") != incarnation:
        raise InvalidCursorError(cursor, "it belongs to another app, or to an earlier one of the same id")
    at = fields.get("at")
    if not isinstance(at, int) or at < DONE or (at != DONE and at % timeline.SIZE):
        raise InvalidCursorError(cursor, "it points between two events")
    return at
