"""Follows one app of the fake scheduler."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchx_core.errors import InvalidCursorError, UnknownAppException
from torchx_core.schedulers import AppEvent, Batch, EventFeed, FollowOptions, LogLines, StateChanged, Stream
from torchx_core.testing.fake.app import FakeApp

if TYPE_CHECKING:
    from torchx_core.testing.fake.host import FakeHost

__all__ = ["FakeFeed"]

_MAX_EVENTS = 100


class FakeFeed(EventFeed):
    """One reader's place in one app's stream; looking for events is what makes the app move on."""

    def __init__(self, host: FakeHost, app: FakeApp, cursor: str | None, options: FollowOptions) -> None:
        """Open the stream.

        Raises:
            InvalidCursorError: The cursor is not one of this app's.
        """
        self._host = host
        self._app = app
        self._options = options
        self._at = 0 if cursor is None else _decode(cursor, app)
        self._ring: Callable[[], None] | None = None
        self._event: threading.Event | asyncio.Event | None = None

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return json.dumps({"app": self._app.record.incarnation, "at": self._at})

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._app.ended and self._at == len(self._app.stream)

    def poll(self) -> Batch | None:
        """Return the next events, or None."""
        with self._host.lock:
            if not self._host.has(self._app):
                raise UnknownAppException(self._app.record.directory)
            if self._options.renew:
                self._app.renew()
            while not self.done and (self._at < len(self._app.stream) or self._app.turn()):
                passed = self._app.stream[self._at : self._at + _MAX_EVENTS]
                self._at += len(passed)
                events = tuple(event for event in passed if self._wants(event))
                if events:
                    return Batch(events=events, cursor=self.cursor)
        return None

    def _wants(self, event: AppEvent) -> bool:
        if isinstance(event, StateChanged):
            return True
        if not self._options.wants_role(event.role):
            return False
        if isinstance(event, LogLines):
            return self._options.logs and self._options.streams in (Stream.COMBINED, event.stream)
        return True

    def wait(self, timeout_s: float | None) -> None:
        """Block until there may be more."""
        if not isinstance(self._event, threading.Event):
            self._listen(threading.Event())
            return  # what happened before we listened woke nobody: look once more first
        self._event.wait(self._patience(timeout_s))
        self._event.clear()

    async def wait_async(self, timeout_s: float | None) -> None:
        """Wait on the event loop until there may be more."""
        if not isinstance(self._event, asyncio.Event):
            self._listen(asyncio.Event(), asyncio.get_running_loop())
            return
        try:
            async with asyncio.timeout(self._patience(timeout_s)):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()

    def _listen(
        self, event: threading.Event | asyncio.Event, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.close()
        self._event = event
        self._ring = event.set if loop is None else lambda: _ring_in(loop, event)
        self._host.listen(self._ring)

    def _patience(self, timeout_s: float | None) -> float | None:
        """Wake up in time for the next alarm, and well before the lease is over."""
        lease_s = self._app.record.plan.lease_s
        limits = (timeout_s, self._app.patience(), None if lease_s is None else lease_s / 4)
        return min((limit for limit in limits if limit is not None), default=None)

    def close(self) -> None:
        """Stop listening."""
        if self._ring is not None:
            self._host.unlisten(self._ring)
            self._ring = self._event = None


def _ring_in(loop: asyncio.AbstractEventLoop, event: threading.Event | asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)


def _decode(cursor: str, app: FakeApp) -> int:
    try:
        value = json.loads(cursor)
        incarnation, at = value["app"], value["at"]
    except (ValueError, TypeError, KeyError, RecursionError) as err:
        raise InvalidCursorError(cursor, "not a JSON object with 'app' and 'at'") from err
    if incarnation != app.record.incarnation:
        raise InvalidCursorError(cursor, "it belongs to another app, or to an earlier one of the same id")
    if not isinstance(at, int) or not 0 <= at <= len(app.stream):
        raise InvalidCursorError(cursor, "there is no such place")
    return at
