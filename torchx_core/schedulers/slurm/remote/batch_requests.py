"""Followers' next batches, on the login node: each is asked for, so nobody gets more than he takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from torchx_core.schedulers.scheduler import EventFeed
from torchx_core.schedulers.slurm.remote.batches import dump_batch
from torchx_core.supervisor.records import Json

__all__ = ["BatchRequests"]


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
                return {"batch": None if batch is None else dump_batch(batch), "done": feed.done}
            await feed.wait_async(until - time.monotonic())
        return {"batch": None, "done": False}
