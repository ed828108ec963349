"""Wakes those who wait: a thread by a stream of events of its own, an event loop's feeds by a shared one."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Iterable
from threading import Lock
from weakref import WeakKeyDictionary

from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.events import ALL, EventStream
from torchx_core.schedulers.docker.exchange import Exchange
from torchx_core.schedulers.docker.labels import of_session

__all__ = ["LoopNotifier", "Notifier", "wait_for", "wait_for_async"]


class Notifier:
    """What the feeds of one scheduler object share: per event loop, one stream of the session's events."""

    def __init__(self, endpoint: Endpoint, version: str, session: str) -> None:
        """Connect nothing yet."""
        self.endpoint = endpoint
        self.version = version
        self._filters = of_session(session)
        self._lock = Lock()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopNotifier] = WeakKeyDictionary()

    def join(self, key: str, ring: Callable[[], None]) -> LoopNotifier:
        """Have `ring` called, on the running event loop, whenever something happened to the app."""
        loop = asyncio.get_running_loop()
        with self._lock:
            notifier = self._of_loop.get(loop)
            if notifier is None or notifier.closed:
                stream = EventStream(self.endpoint, self.version, self._filters)
                notifier = self._of_loop[loop] = LoopNotifier(loop, stream)
        notifier.add(key, ring)
        return notifier


class LoopNotifier:
    """A stream of events on an event loop; it is closed when the last one leaves."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: EventStream) -> None:
        """Nobody listens yet."""
        self._loop = loop
        self._stream = stream
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._watched: Exchange | None = None
        self._fd = -1
        self._timer: asyncio.TimerHandle | None = None
        self.closed: bool = False
        """Whether nothing will ring any more."""

    def add(self, key: str, ring: Callable[[], None]) -> None:
        """Listen for one app."""
        self._listeners.setdefault(key, []).append(ring)
        if self._watched is None and self._timer is None:
            self._advance()

    def leave(self, key: str, ring: Callable[[], None]) -> None:
        """Listen no more."""
        mine = self._listeners.get(key, [])
        if ring in mine:
            mine.remove(ring)
        if not mine:
            self._listeners.pop(key, None)
        if not self._listeners:
            self._close()

    def _advance(self) -> None:
        self._timer = None
        rung = self._stream.advance(time.monotonic())
        self._watch()
        keys = list(self._listeners) if ALL in rung else [key for key in rung if key in self._listeners]
        for key in keys:
            for ring in list(self._listeners.get(key, ())):
                ring()

    def _watch(self) -> None:
        """Be called again when there is something to do."""
        self._unwatch()
        exchange = self._watched = self._stream.exchange
        if exchange is None:
            pause_s = max(0.0, self._stream.due_at - time.monotonic())
            self._timer = self._loop.call_later(pause_s, self._advance)
        elif exchange.more:
            self._timer = self._loop.call_later(0, self._advance)
        else:
            self._fd = exchange.fileno()
            self._loop.add_reader(self._fd, self._advance)
            if exchange.wants_write:
                self._loop.add_writer(self._fd, self._advance)

    def _unwatch(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        self._fd = -1

    def _close(self) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._loop.is_closed():
            self._unwatch()
        self._stream.close()


def wait_for(exchanges: Iterable[Exchange], timeout_s: float | None) -> None:
    """Block until one of the connections is ready, or the time is over."""
    poll = select.poll()
    for exchange in exchanges:
        if exchange.more or exchange.fileno() < 0:
            return
        wanted = select.POLLIN | (select.POLLOUT if exchange.wants_write else 0)
        poll.register(exchange.fileno(), wanted)
    poll.poll(None if timeout_s is None else timeout_s * 1000)


async def wait_for_async(
    exchanges: Iterable[Exchange], rung: asyncio.Future[None], timeout_s: float | None
) -> None:
    """Do what `wait_for` does on the running event loop, and return when the future is done, too."""
    loop = asyncio.get_running_loop()
    watched = list(exchanges)
    if any(exchange.more or exchange.fileno() < 0 for exchange in watched):
        await asyncio.sleep(0)
        return
    fds = [(exchange.fileno(), exchange.wants_write) for exchange in watched]

    def ready() -> None:
        if not rung.done():
            rung.set_result(None)

    try:
        for fd, writes in fds:
            loop.add_reader(fd, ready)
            if writes:
                loop.add_writer(fd, ready)
        await asyncio.wait([rung], timeout=timeout_s)
    finally:
        for fd, _ in fds:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
