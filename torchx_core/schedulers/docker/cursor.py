"""A place in an app's event stream, as a string that may be kept anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from torchx_core.schedulers.cursors import seal, unseal
from torchx_core.schedulers.docker.frames import check_timestamp
from torchx_core.schedulers.docker.lines import LogPlace, StreamPlace

__all__ = ["AppPlace", "ReplicaPlace", "decode_cursor", "encode_cursor"]

_VERSION = 1
_DONE = "done"


@dataclass(slots=True)
class ReplicaPlace:
    """What was said of one replica."""

    changes: int = 0
    """How many starts and ends."""
    reports: int = 0
    """How many lines of the present attempt's report file."""
    log: LogPlace = field(default_factory=LogPlace)


@dataclass(slots=True)
class AppPlace:
    """What was said of an app."""

    changes: int = 0
    """How many changes of its state, the last one aside."""
    done: bool = False
    """Whether its end was said, after which nothing comes."""
    replicas: dict[int, ReplicaPlace] = field(default_factory=dict[int, ReplicaPlace])
    """By index; none of those of which nothing was said."""


def encode_cursor(nonce: str, place: AppPlace) -> str:
    """Return the cursor of a place in the stream of one app."""
    rows = {str(i): _dump(p) for i, p in place.replicas.items()}
    at = _DONE if place.done else {"changes": place.changes, "replicas": rows}
    return seal(at, app=nonce, version=_VERSION)


def decode_cursor(cursor: str, nonce: str) -> AppPlace:
    """Return the place.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    return unseal(cursor, _load, app=nonce, version=_VERSION)


def _dump(place: ReplicaPlace) -> list[object]:
    log = place.log
    streams = {
        str(s): [p.stamp.decode("latin-1"), p.seen, p.attempt, p.carry.hex(), int(p.inside)]
        for s, p in log.streams.items()
    }
    return [place.changes, place.reports, log.since.decode("latin-1"), int(log.gone), streams]


def _load(at: object) -> AppPlace:
    if at == _DONE:
        return AppPlace(done=True)
    fields = cast("dict[str, object]", at)
    rows = cast("dict[str, list[object]]", fields["replicas"])
    replicas = {_count(int(i)): _load_replica(row) for i, row in rows.items()}
    return AppPlace(changes=_count(fields["changes"]), replicas=replicas)


def _load_replica(row: list[object]) -> ReplicaPlace:
    changes, reports, since, gone, streams = row
    places = {int(s): _load_stream(p) for s, p in cast("dict[str, list[object]]", streams).items()}
    log = LogPlace(since=_stamp(since), streams=places, gone=bool(gone))
    return ReplicaPlace(changes=_count(changes), reports=_count(reports), log=log)


def _load_stream(row: list[object]) -> StreamPlace:
    stamp, seen, attempt, carry, inside = row
    return StreamPlace(
        stamp=_stamp(stamp),
        seen=_count(seen),
        attempt=_count(attempt),
        carry=bytes.fromhex(cast("str", carry)),
        inside=bool(inside),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _stamp(value: object) -> bytes:
    stamp = cast("str", value).encode()
    return check_timestamp(stamp) if stamp else b""
