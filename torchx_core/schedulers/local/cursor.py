"""A place in an app's event stream, as a string that may be kept anywhere."""

from __future__ import annotations

from torchx_core.errors import InvalidCursorError
from torchx_core.schedulers.cursors import seal, unseal
from torchx_core.supervisor import timeline

__all__ = ["decode_cursor", "encode_cursor"]

_VERSION = 1
DONE = -1
"""The place after the terminal event."""


def encode_cursor(incarnation: str, at: int) -> str:
    """Return the cursor of a place in the timeline of one app."""
    return seal(at, app=incarnation, version=_VERSION)


def decode_cursor(cursor: str, incarnation: str) -> int:
    """Return the place.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    at = unseal(cursor, app=incarnation, version=_VERSION)
    if not isinstance(at, int) or at < DONE or (at != DONE and at % timeline.SIZE):
        raise InvalidCursorError(cursor, "it points between two events")
    return at
