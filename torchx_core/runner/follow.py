"""Drives an event feed to its end: the one loop behind follow, wait and log_lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import monotonic

from torchx_core.schedulers import Batch, EventFeed

__all__ = ["drive", "drive_async"]


def drive(
    feed: EventFeed,
    tick_s: float | None = None,
    deadline: float | None = None,
    *,
    until_now: bool = False,
) -> Iterator[Batch]:
    """Yield the feed's batches until it is done or the deadline (monotonic seconds) passes.

    With ``tick_s`` an empty batch is yielded whenever that long passed without events, so that the
    caller gets its thread back regularly. With ``until_now`` only what is there already is yielded.
    The feed is closed however the iteration ends.
    """
    pace = _Pace(tick_s, deadline)
    try:
        while not feed.done:
            batch = feed.poll()
            if batch is None and (pace.over or (until_now and feed.caught_up)):
                return
            if not pace.tick_due and (batch is None or not batch.events):
                if batch is None:
                    feed.wait(pace.patience)
                continue
            pace.restart()
            yield batch or _tick(feed)
    finally:
        feed.close()


async def drive_async(
    feed: EventFeed, tick_s: float | None = None, deadline: float | None = None
) -> AsyncIterator[Batch]:
    """Do what `drive` does on an event loop, without a thread.

    Whatever else runs there has its turn before each batch: a feed with a long log never has to wait, and
    everything else on the loop would stand still until the log is read.
    """
    import asyncio  # here: most users of the core need no event loop

    pace = _Pace(tick_s, deadline)
    try:
        while not feed.done:
            batch = feed.poll()
            if batch is None and pace.over:
                return
            if not pace.tick_due and (batch is None or not batch.events):
                await (feed.wait_async(pace.patience) if batch is None else asyncio.sleep(0))
                continue
            pace.restart()
            await asyncio.sleep(0)
            yield batch or _tick(feed)
    finally:
        feed.close()


def _tick(feed: EventFeed) -> Batch:
    return Batch(events=(), cursor=feed.cursor, answered=feed.caught_up)


class _Pace:
    """When to give the caller an empty batch, and when to stop."""

    def __init__(self, tick_s: float | None, deadline: float | None) -> None:
        self._tick_s = tick_s
        self._deadline = float("inf") if deadline is None else deadline
        self.restart()

    def restart(self) -> None:
        """Count the time without events anew."""
        self._tick_at = float("inf") if self._tick_s is None else monotonic() + self._tick_s

    @property
    def over(self) -> bool:
        return monotonic() >= self._deadline

    @property
    def tick_due(self) -> bool:
        return monotonic() >= self._tick_at

    @property
    def patience(self) -> float | None:
        """How long to wait at most."""
        first = min(self._tick_at, self._deadline)
        return None if first == float("inf") else max(0.0, first - monotonic())
