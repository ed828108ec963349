"""One reader's place in an app's event stream, and the one loop behind follow, wait and log_lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from torchx_core.schedulers.events import Batch, UsageSample
from torchx_core.specs import AppStatus

if TYPE_CHECKING:
    from torchx_core.schedulers.sampling import Sampler

__all__ = ["EventFeed", "drive", "drive_async"]


Ended: TypeAlias = Callable[[AppStatus], object]
"""Told how the app has ended, before anybody else is."""


class EventFeed(ABC):
    """One reader's place in one app's event stream.

    The runner drives it from one thread or one event loop: `poll` until it returns None, then wait,
    then `poll` again. Only waiting differs between threads and asyncio, so everything else is written once.
    """

    renewals: int = 0
    """How often this reader has renewed the app's lease, as far as that is known here."""

    @property
    @abstractmethod
    def cursor(self) -> str:
        """The place right after the last batch returned."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the terminal event has been returned."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there when this reader came has been returned, once `poll` gave None.

        A feed that asks a server says False until it has the answers, and while it asks in vain.
        """
        return True

    @abstractmethod
    def poll(self) -> Batch | None:
        """Return the next events at once, or None when there is nothing new right now.

        Does bounded work and never waits. Renews the app's lease where it has one. A batch without events
        says that the place has moved: what was there is of the stream that this reader does not want.

        Raises:
            UnknownAppException: The app was deleted meanwhile.
        """

    def _count_renewals(self, times: int = 1) -> None:
        """Count that the lease has been renewed."""
        self.renewals += times

    @abstractmethod
    def wait(self, timeout_s: float | None) -> None:
        """Block until `poll` may have something, or the time is over; early returns are allowed."""

    @abstractmethod
    async def wait_async(self, timeout_s: float | None) -> None:
        """Do what `wait` does, without blocking the event loop and without a thread."""

    @abstractmethod
    def close(self) -> None:
        """Release what waiting needs; may be called more than once."""


def drive(
    feed: EventFeed,
    tick_s: float | None = None,
    deadline: float | None = None,
    *,
    until_now: bool = False,
    sampler: Sampler | None = None,
    ended: Ended = bool,
) -> Iterator[Batch]:
    """Yield the feed's batches until it is done or the deadline (monotonic seconds) passes.

    With ``tick_s`` an empty batch is yielded whenever that long passed without events, so that the
    caller gets its thread back regularly. With ``until_now`` only what is there already is yielded.
    A sampler's samples come in between. The feed is closed however the iteration ends.
    """
    pace = _Pace(tick_s, deadline, sampler)
    try:
        while not feed.done:
            batch = feed.poll()
            if sampler is not None and sampler.is_due(busy=batch is not None):
                batch = _with(sampler.take(), batch, feed)
            if batch is None and (pace.over or (until_now and feed.caught_up)):
                return
            if not pace.tick_due and (batch is None or not batch.events):
                if batch is None:
                    feed.wait(pace.patience)
                continue
            pace.restart()
            yield _told(batch, ended) or _tick(feed)
    finally:
        feed.close()


async def drive_async(
    feed: EventFeed,
    tick_s: float | None = None,
    deadline: float | None = None,
    *,
    sampler: Sampler | None = None,
    ended: Ended = bool,
) -> AsyncIterator[Batch]:
    """Do what `drive` does on an event loop, without a thread but the one that a sampler has while it looks.

    Whatever else runs there has its turn before each batch: a feed with a long log never has to wait, and
    everything else on the loop would stand still until the log is read.
    """
    import asyncio  # here: most users of the core need no event loop

    pace = _Pace(tick_s, deadline, sampler)
    try:
        while not feed.done:
            batch = feed.poll()
            if sampler is not None and sampler.is_due(busy=batch is not None):
                batch = _with(await asyncio.to_thread(sampler.take), batch, feed)
            if batch is None and pace.over:
                return
            if not pace.tick_due and (batch is None or not batch.events):
                await (feed.wait_async(pace.patience) if batch is None else asyncio.sleep(0))
                continue
            pace.restart()
            await asyncio.sleep(0)
            yield _told(batch, ended) or _tick(feed)
    finally:
        feed.close()


def _with(samples: tuple[UsageSample, ...], batch: Batch | None, feed: EventFeed) -> Batch | None:
    """Return the batch with the samples before its events, the last of which may be the app's end."""
    return (
        replace(batch or _tick(feed), events=(*samples, *(batch.events if batch else ())))
        if samples
        else batch
    )


def _told(batch: Batch | None, ended: Ended) -> Batch | None:
    if batch is not None and batch.final_status is not None:
        ended(batch.final_status)
    return batch


def _tick(feed: EventFeed) -> Batch:
    return Batch(events=(), cursor=feed.cursor, answered=feed.caught_up)


class _Pace:
    """When to give the caller an empty batch, and when to stop."""

    def __init__(self, tick_s: float | None, deadline: float | None, sampler: Sampler | None) -> None:
        self._tick_s = tick_s
        self._sampler = sampler
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
        left_s = min(self._tick_at, self._deadline) - monotonic()
        if self._sampler is not None:
            left_s = min(left_s, self._sampler.left_s)
        return None if left_s == float("inf") else max(0.0, left_s)
