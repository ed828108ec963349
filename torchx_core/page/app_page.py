"""What a web server needs for the page of one app: HTML, and the stream that keeps it up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Final, final
from urllib.parse import quote, unquote

from torchx_core.errors import InvalidCursorError, SchedulerError, UnknownAppException
from torchx_core.page.document import Increment, describe_app
from torchx_core.page.fold import Fold
from torchx_core.page.html import Source, make_html
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch
from torchx_core.specs import AppHandle

__all__ = ["TICK_S", "AppPage"]

TICK_S: Final = 1.0
"""How often a stream without events gives its caller the chance to end it."""
ALIVE_EVERY_S: Final = 10.0
"""How often a stream without events says something, so that a browser which has gone is noticed."""

_ALIVE = ":\n\n"


@final
class AppPage:
    """The page of one app; remembers nothing, so that any process can answer any of a browser's requests.

    Looking at an app renews no lease: a forgotten page keeps no app alive.
    """

    def __init__(self, runner: Runner, app_handle: AppHandle) -> None:
        """Look the app up.

        Args:
            runner: Reaches the app's scheduler; whoever made it closes it.
            app_handle: The app.

        Raises:
            UnknownAppException: There is no such app.
        """
        app = runner.describe(app_handle)
        if app is None:
            raise UnknownAppException(app_handle)
        self._runner = runner
        self._handle = app_handle
        self._app = app

    def html(self) -> str:
        """Return the whole page as of now: one file, which asks nobody for anything.

        Raises:
            UnknownAppException: The app was deleted meanwhile.
        """
        return make_html(self._title, self._whole(), Source())

    def live_html(self, events: str) -> str:
        """Return the page without what has happened so far, which it gets from a stream.

        Args:
            events: Where `events` is served: an address without a query, relative to the page's own.
        """
        return make_html(self._title, self._first(), Source(events=events))

    def events(self, place: str | None = None) -> Iterator[str]:
        """Yield what happens as server-sent events, until the app has ended; and empty texts now and then.

        Args:
            place: Where to go on: the id of the last event that has arrived; None for the start.
        """
        try:
            cursor = unquote(place) if place else None
            if cursor is None:
                whole = self._whole()
                yield _event(whole)
                cursor = whole.get("cursor")
                if whole.get("over"):
                    return
            fold, quiet = Fold(self._app, self._handle), _Quiet()
            for batch in self._runner.follow(self._handle, cursor, tick_s=TICK_S, usage=True, renew=False):
                yield _told(fold, batch) or quiet.text()
        except (SchedulerError, UnknownAppException, InvalidCursorError) as err:
            yield _trouble(err)

    async def aevents(self, place: str | None = None) -> AsyncIterator[str]:
        """Do what `events` does on an event loop, without a thread for each browser."""
        try:
            cursor = unquote(place) if place else None
            if cursor is None:
                whole = await asyncio.to_thread(self._whole)
                yield await asyncio.to_thread(_event, whole)
                cursor = whole.get("cursor")
                if whole.get("over"):
                    return
            fold, quiet = Fold(self._app, self._handle), _Quiet()
            async for batch in self._runner.afollow(
                self._handle, cursor, tick_s=TICK_S, usage=True, renew=False
            ):
                yield _told(fold, batch) or quiet.text()
        except (SchedulerError, UnknownAppException, InvalidCursorError) as err:
            yield _trouble(err)

    @property
    def _title(self) -> str:
        return f"{self._app.name} · {self._handle}"

    def _first(self) -> Increment:
        status = self._runner.status(self._handle)
        if status is None:
            raise UnknownAppException(self._handle)
        fold = Fold(self._app, self._handle)
        fold.take_status(status)
        return {"app": describe_app(self._app, self._handle), **fold.drain()}

    def _whole(self) -> Increment:
        """Return all that there is now, and where it ends."""
        fold = Fold(self._app, self._handle)
        cursor = self._read(fold, None, until_now=True)
        status = self._runner.status(self._handle)
        if status is None:
            raise UnknownAppException(self._handle)
        if status.is_terminal() and not fold.over:  # it has ended meanwhile, and its last lines are there
            cursor = self._read(fold, cursor, until_now=False)
        if not fold.over:
            fold.take_status(status)
        whole: Increment = {"app": describe_app(self._app, self._handle), **fold.drain()}
        if cursor is not None:
            whole["cursor"] = cursor
        return whole

    def _read(self, fold: Fold, cursor: str | None, *, until_now: bool) -> str | None:
        """Have the fold take what there is after the cursor, and return the place after that."""
        for batch in self._runner.follow(self._handle, cursor, until_now=until_now, renew=False):
            for event in batch.events:
                fold.take(event)
            cursor = batch.cursor
        return cursor


class _Quiet:
    """Knows when a stream without events is to say something."""

    def __init__(self) -> None:
        self._next = monotonic() + ALIVE_EVERY_S

    def text(self) -> str:
        if monotonic() < self._next:
            return ""
        self._next = monotonic() + ALIVE_EVERY_S
        return _ALIVE


def _told(fold: Fold, batch: Batch) -> str:
    if not batch.events:
        return ""
    for event in batch.events:
        fold.take(event)
    return _event({**fold.drain(), "cursor": batch.cursor})


def _event(increment: Increment) -> str:
    """Return the increment as an event whose id is the place after it."""
    place = quote(increment.get("cursor", ""), safe="")
    data = json.dumps(increment, allow_nan=False, separators=(",", ":"))  # one line: JSON escapes newlines
    return f"id: {place}\ndata: {data}\n\n"


def _trouble(error: Exception) -> str:
    """Return why the stream ends here; the browser asks again, unless there is nothing to ask for."""
    gone = isinstance(error, UnknownAppException)
    data = json.dumps({"message": str(error), "gone": gone})
    return f"event: trouble\ndata: {data}\n\n"
