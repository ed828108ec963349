"""How far a run's log has got with an app's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["START", "Position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in an app's event stream before which everything has arrived at Prefect's API.

    Whoever follows on from it loses nothing, and repeats at most what arrived after it was saved.
    """

    cursor: str
    shown_bytes: int
    """How much of the app's output the log has shown, for its limit."""

    def to_json(self) -> dict[str, object]:
        """Return JSON values that `from_json` reads."""
        return {"cursor": self.cursor, "shown_bytes": self.shown_bytes}

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Position | None:
        """Read what `to_json` gives; None when it is no such thing: the output is shown from the start."""
        cursor, shown = data.get("cursor"), data.get("shown_bytes")
        if not isinstance(cursor, str) or not isinstance(shown, int):
            return None
        return Position(cursor=cursor, shown_bytes=shown)


START: Final = Position(cursor="", shown_bytes=0)
"""Where nothing has been shown."""
