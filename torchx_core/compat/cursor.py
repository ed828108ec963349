"""A place in an app's stream: what has been told, and how far each log was read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import cast

from torchx_core.errors import InvalidCursorError
from torchx_core.schedulers.cursors import fields_of

__all__ = ["Place", "decode", "encode"]


@dataclass(slots=True)
class Place:
    """How far a reader has come; everything in it only grows."""

    told: set[str] = field(default_factory=set[str])
    """Events that have been delivered: ``running``, ``started.<role>.<k>``, ``ended.<role>.<k>``, ``end``."""
    logs: dict[str, int] = field(default_factory=dict[str, int])
    """``<role>.<k>.<stream>`` -> position, whatever that is for the backend."""

    def copy(self) -> Place:
        """Return a copy that can go on by itself."""
        return Place(set(self.told), dict(self.logs))


def encode(incarnation: str, place: Place) -> str:
    """Return the cursor."""
    return json.dumps({"app": incarnation, "told": sorted(place.told), "logs": place.logs})


def decode(cursor: str, incarnation: str) -> Place:
    """Return the place that the cursor stands for.

    Raises:
        InvalidCursorError: It is none, or belongs to another app.
    """
    content = fields_of(cursor)
    told, logs = content.get("told"), content.get("logs")
    if not isinstance(told, list) or not isinstance(logs, dict):
        raise InvalidCursorError(cursor, "it lacks 'told' or 'logs'")
    if content.get("app") != incarnation:
        raise InvalidCursorError(cursor, "it belongs to another app, or to an earlier one of the same id")
    positions = cast("dict[str, object]", logs)
    if not all(isinstance(position, int) for position in positions.values()):
        raise InvalidCursorError(cursor, "a position in 'logs' is no number")
    return Place({str(event) for event in cast("list[object]", told)}, cast("dict[str, int]", positions))
