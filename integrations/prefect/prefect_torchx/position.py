"""How far a run's log has got with an app's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from torchx_core.specs import AppHandle

__all__ = ["START", "Position", "Shown", "of_app"]


class Shown(NamedTuple):
    """What the log has of one source's output."""

    time: float
    """Of the latest record, in seconds since the epoch."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in an app's event stream before which everything has arrived at Prefect's API.

    Whoever follows on from it loses nothing. What arrived after it was saved, `after` has.
    """

    cursor: str
    shown_bytes: int
    """How much of the app's output the log has shown, for its limit."""
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    """When the latest record of each source before the place was written, in seconds since the epoch.

    A later record of that source is one that arrived after the position was saved.
    """
    after: Mapping[str, Shown] = field(default_factory=dict[str, Shown], compare=False)
    """By source, what the log has of what comes behind the place; found in the log, and never saved."""

    def to_json(self) -> dict[str, object]:
        """Return JSON values that `from_json` reads."""
        return {"cursor": self.cursor, "shown_bytes": self.shown_bytes, "times": dict(self.times)}

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Position | None:
        """Read what `to_json` gives; None when it is no such thing: the output is shown from the start."""
        cursor, shown = data.get("cursor"), data.get("shown_bytes")
        if not isinstance(cursor, str) or not isinstance(shown, int):
            return None
        return Position(cursor=cursor, shown_bytes=shown, times=_times(data.get("times")))


def _times(data: object) -> dict[str, float]:
    """Read what an older release did not save."""
    if not isinstance(data, Mapping):
        return {}
    return {str(source): float(time) for source, time in data.items() if isinstance(time, float | int)}


START: Final = Position(cursor="", shown_bytes=0)
"""Where nothing has been shown."""


def of_app(handle: AppHandle) -> str:
    """Return what ends the name of each record of the app: the log of one run may have many apps.

    Example:
        >>> of_app("local_cwd://torchx/train-1")
        '@local_cwd://torchx/train-1'
    """
    return f"@{handle}"
