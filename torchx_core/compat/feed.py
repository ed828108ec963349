"""Follows one app by looking at it again and again."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic

from torchx_core.compat.cursor import Place, encode
from torchx_core.compat.polling import Polled, Poller
from torchx_core.errors import SchedulerError
from torchx_core.schedulers import Batch, EventFeed

__all__ = ["BridgeFeed", "Pace"]

_PATIENCE_S = 60.0
"""How long a backend may be away, or not know an app that it knew, before following ends with the error."""
_FIRST_S = 0.02
_GROWTH = 1.5
_LAST_S = 1.0
_COST_SHARE = 20
_LONGEST_S = 30.0


class BridgeFeed(EventFeed):
    """One reader's place in one app's stream.

    TorchX has no events, so waiting is: sleep, then look. On an event loop the looks are made by the loop's
    own pool of threads, which is bounded and the loop's to end; no thread belongs to an app. Only what is
    there already when following begins is read by the thread that asks for it, as long as there is more.
    """

    def __init__(self, poller: Poller, place: Place, incarnation: str) -> None:
        """Open the stream at the place."""
        self._poller = poller
        self._place = place
        self._incarnation = incarnation
        self._pace = Pace()
        self._ready: Batch | None = None
        self._awaited = False
        self._well_at: float | None = None

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return encode(self._incarnation, self._place) if self._ready is None else self._before

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._ready is None and "end" in self._place.told

    def poll(self) -> Batch | None:
        """Return what the last look found; look when that is due, unless an event loop would wait for it."""
        if self._ready is None and self._pace.is_due and not self._awaited:
            self._take(*self._look())
        batch, self._ready = self._ready, None
        return batch

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until the next look is due."""
        self._awaited = False
        threading.Event().wait(self._pace.left(timeout_s))

    async def wait_async(self, timeout_s: float | None) -> None:
        """Sleep until the next look is due, and have a thread of the loop's pool look."""
        self._awaited = True
        await asyncio.sleep(self._pace.left(timeout_s))
        if self._pace.is_due:
            self._take(*await asyncio.to_thread(self._look))

    def close(self) -> None:
        """Hold nothing: a look opens and closes what it needs."""

    def _look(self) -> tuple[Polled | None, float]:
        began = monotonic()
        try:
            polled = self._poller(self._place)
            self._well_at = monotonic()
        except SchedulerError:
            if self._well_at is None or monotonic() - self._well_at > _PATIENCE_S:
                raise  # never seen, or away for too long
            polled = None
        return polled, monotonic() - began

    def _take(self, polled: Polled | None, cost_s: float) -> None:
        events = () if polled is None else polled.events
        more = polled is not None and polled.more
        self._pace.looked(cost_s=cost_s, news=bool(events), more=more)
        if polled is not None and events:
            self._before = self.cursor
            self._place = polled.place
            self._ready = Batch(events=events, cursor=encode(self._incarnation, self._place))


class Pace:
    """Looks often while there is news, less and less often while there is none, and costly looks rarely.

    From 50 a second down to one; at most a twentieth of the time goes into looking, so that a service that
    takes half a second to answer is asked every ten.
    """

    def __init__(self) -> None:
        self._quiet_s = _FIRST_S
        self._due = monotonic()

    def looked(self, *, cost_s: float, news: bool, more: bool = False) -> None:
        """Plan the next look, after one that took so long; at once if there is more to read."""
        self._quiet_s = _FIRST_S if news else min(self._quiet_s * _GROWTH, _LAST_S)
        pause = 0.0 if more else max(self._quiet_s, min(cost_s * _COST_SHARE, _LONGEST_S))
        self._due = monotonic() + pause

    def left(self, timeout_s: float | None) -> float:
        """Return how many seconds to wait now: until the next look, and no longer than that."""
        left = max(0.0, self._due - monotonic())
        return left if timeout_s is None else min(left, timeout_s)

    @property
    def is_due(self) -> bool:
        """Whether the next look is due."""
        return monotonic() >= self._due
