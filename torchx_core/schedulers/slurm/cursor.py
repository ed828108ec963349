"""A place in an app's event stream, as a string that may be kept anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from torchx_core.schedulers.cursors import seal, unseal

__all__ = ["AppPlace", "ReplicaPlace", "decode_cursor", "encode_cursor"]

_VERSION = 1
_DONE = "done"


@dataclass(slots=True)
class ReplicaPlace:
    """What was said of one replica."""

    attempt: int = 0
    started: bool = False
    """Whether the attempt's start was said."""
    ended: bool = False
    """Whether its end was said."""
    runs: int = 0
    """How many runs of lines."""
    offset: int = 0
    """Where the last of them ends in ``combined.log``."""
    reports: int = 0
    """How many bytes of the report file."""
    zeros_since: float | None = field(default=None, compare=False)
    """Since when a reader has found zeros at the place, by its own clock; not kept in a cursor."""


@dataclass(slots=True)
class AppPlace:
    """What was said of an app."""

    waited: bool = False
    """Whether it was said that the app waits in the queue."""
    begun: bool = False
    stopping: bool = False
    """Whether it was said that it ends because somebody asked, or its time was over."""
    done: bool = False
    replicas: dict[int, ReplicaPlace] = field(default_factory=dict[int, ReplicaPlace])
    """By index."""


def encode_cursor(incarnation: str, place: AppPlace) -> str:
    """Return the cursor of a place in the stream of one app."""
    rows = {
        str(i): [p.attempt, int(p.started), int(p.ended), p.runs, p.offset, p.reports]
        for i, p in place.replicas.items()
        if p != ReplicaPlace()
    }
    said = {"waited": int(place.waited), "begun": int(place.begun), "stopping": int(place.stopping)}
    return seal(_DONE if place.done else {**said, "replicas": rows}, app=incarnation, version=_VERSION)


def decode_cursor(cursor: str, incarnation: str) -> AppPlace:
    """Return the place.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    return unseal(cursor, _load, app=incarnation, version=_VERSION)


def _load(at: object) -> AppPlace:
    if at == _DONE:
        return AppPlace(begun=True, done=True)
    fields = cast("dict[str, object]", at)
    rows = cast("dict[str, list[object]]", fields["replicas"])
    return AppPlace(
        waited=bool(fields["waited"]),
        begun=bool(fields["begun"]),
        stopping=bool(fields.get("stopping")),  # a cursor of an older version does not say
        replicas={int(i): _replica(row) for i, row in rows.items()},
    )


def _replica(row: list[object]) -> ReplicaPlace:
    attempt, started, ended, runs, offset, reports = cast("list[int]", row)
    if not all(isinstance(value, int) and value >= 0 for value in row):
        raise ValueError(row)
    return ReplicaPlace(attempt, bool(started), bool(ended), runs, offset, reports)
