"""Batches of events as plain JSON values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Final, cast

from torchx_core.schedulers.events import (
    AppEvent,
    Batch,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.schedulers.scheduler import EventFeed
from torchx_core.specs import AppState, AppStatus
from torchx_core.supervisor.records import Json

__all__ = ["BatchRequests", "dump_batch", "load_batch"]

_LINES: Final = LogLines.__name__
_CLASSES: Final = {
    cls.__name__: cls for cls in (ReplicaChanged, StateChanged, Progress, Metric, Result, LogsLost)
}


def dump_batch(batch: Batch) -> Json:
    """Return the batch as plain JSON values."""
    return {"events": [_dump_event(event) for event in batch.events], "cursor": batch.cursor}


def load_batch(data: Json) -> Batch:
    """Return the batch that `dump_batch` was given."""
    events = cast("list[tuple[str, object]]", data["events"])
    return Batch(events=tuple(_load_event(name, value) for name, value in events), cursor=str(data["cursor"]))


def _dump_event(event: AppEvent) -> tuple[str, object]:
    if isinstance(event, LogLines):
        return _LINES, list(event)
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    if isinstance(event, ReplicaChanged | StateChanged):
        values["state"] = event.state.name
    if isinstance(event, StateChanged) and event.status is not None:
        values["status"] = event.status.to_json()
    return type(event).__name__, values


def _load_event(name: str, value: object) -> AppEvent:
    if name == _LINES:
        role, replica, attempt, stream, lines, time, eol = cast("list[object]", value)
        text = cast("list[str]", lines)
        return LogLines(role, replica, attempt, stream, tuple(text), time, eol)  # type: ignore[arg-type]
    values = dict(cast("Json", value))
    if "state" in values:
        values["state"] = AppState[str(values["state"])]
    if values.get("status") is not None:
        values["status"] = AppStatus.from_json(cast("Json", values["status"]))
    return _CLASSES[name](**values)  # type: ignore[arg-type]


class BatchRequests:
    """Keeps a follower's feed open between two questions; the cursor in the question decides all the same."""

    def __init__(self, open_feed: Callable[[Json], EventFeed]) -> None:
        """Follow nothing yet."""
        self._open_feed = open_feed
        self._feeds: dict[str, EventFeed] = {}

    async def pull(self, question: Json) -> Json:
        """Return the batch behind the cursor, or say after a while that there is none; renews the lease.

        Raises:
            UnknownAppException: The app was deleted.
            InvalidCursorError: The cursor is not one of this app's.
        """
        name = str(question["feed"])
        feed = self._feed(name, question)
        try:
            answer = await self._next(name, feed, cast("float", question["patience_s"]))
        except BaseException:
            self.leave(name)
            raise
        if answer["done"]:
            self.leave(name)
        return answer

    def leave(self, name: str) -> None:
        """Close a follower's feed, if it is open."""
        if name in self._feeds:
            self._feeds.pop(name).close()

    def close(self) -> None:
        """Close all."""
        for name in list(self._feeds):
            self.leave(name)

    def _feed(self, name: str, question: Json) -> EventFeed:
        feed = self._feeds.get(name)
        if feed is None or feed.cursor != question["cursor"]:
            self.leave(name)
            feed = self._feeds[name] = self._open_feed(question)
        return feed

    async def _next(self, name: str, feed: EventFeed, patience_s: float) -> Json:
        until = time.monotonic() + patience_s
        while self._feeds.get(name) is feed:  # else its follower has left meanwhile
            batch = feed.poll()
            if batch is not None or feed.done or time.monotonic() >= until:
                told = None if batch is None else dump_batch(batch)
                return {"batch": told, "done": feed.done, "caught_up": feed.caught_up}
            await feed.wait_async(until - time.monotonic())
        return {"batch": None, "done": False, "caught_up": False}
