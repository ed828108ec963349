"""What all cursors have in common: whose they are, in which version, and where they point."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar, cast

from torchx_core.errors import InvalidCursorError

__all__ = ["fields_of", "seal", "unseal"]

T = TypeVar("T")


def seal(at: object, *, app: str, version: int) -> str:
    """Return the cursor that points there.

    Args:
        at: The place, as JSON values.
        app: Unique among all apps that ever had this id.
        version: Of the place's form.
    """
    return json.dumps({"v": version, "app": app, "at": at}, separators=(",", ":"))


def unseal(cursor: str, load: Callable[[object], T], *, app: str, version: int) -> T:
    """Return the place at which the cursor points.

    Args:
        cursor: What `seal` made, or anything else.
        load: Makes the place of what was sealed; raises what such code raises when that is damaged.
        app: Whose cursor it must be.
        version: The form that `load` can read.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    fields = fields_of(cursor)
    if fields.get("v") != version:
        raise InvalidCursorError(cursor, f"its version is not {version}")
    if fields.get("app") != app:
        raise InvalidCursorError(cursor, "it belongs to another app, or to an earlier one of the same id")
    try:
        return load(fields.get("at"))
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise InvalidCursorError(cursor, "it points nowhere") from err


def fields_of(cursor: str) -> dict[str, object]:
    """Return what the cursor holds.

    Raises:
        InvalidCursorError: It is no JSON object.
    """
    try:
        value = cast("object", json.loads(cursor))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidCursorError(cursor, "not a JSON object")
    return cast("dict[str, object]", value)
