"""Drives an event feed to its end: the one loop behind follow, wait and log_lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import monotonic

from torchx_core.schedulers import Batch, EventFeed

__all__ = ["drive", "drive_async"]


def drive(feed: EventFeed, tick_s: float | None = None, deadline: float | None = None) -> Iterator[Batch]:
    """Yield the feed's batches until it is done or the deadline (monotonic seconds) passes.

    With ``tick_s`` an empty batch is yielded whenever that long passed without events, so that the
    caller gets its thread back regularly. The feed is closed however the iteration ends.
    """
    try:
        while not feed.done:
            batch = feed.poll()
            if batch is None:
                timeout = _patience(tick_s, deadline)
                if timeout is not None and timeout <= 0:
                    return
                feed.wait(timeout)
                batch = feed.poll() or _tick(feed, tick_s)
            if batch is not None:
                yield batch
    finally:
        feed.close()


async def drive_async(
    feed: EventFeed, tick_s: float | None = None, deadline: float | None = None
) -> AsyncIterator[Batch]:
    """Do what `drive` does on an event loop, without a thread."""
    try:
        while not feed.done:
            batch = feed.poll()
            if batch is None:
                timeout = _patience(tick_s, deadline)
                if timeout is not None and timeout <= 0:
                    return
                await feed.wait_async(timeout)
                batch = feed.poll() or _tick(feed, tick_s)
            if batch is not None:
                yield batch
    finally:
        feed.close()


def _patience(tick_s: float | None, deadline: float | None) -> float | None:
    left = None if deadline is None else deadline - monotonic()
    return min((t for t in (tick_s, left) if t is not None), default=None)


def _tick(feed: EventFeed, tick_s: float | None) -> Batch | None:
    return None if tick_s is None else Batch(events=(), cursor=feed.cursor)
