"""Wakes those who wait by the engine's events: a thread has a stream of its own, an event loop a shared one.

Events tell that it is time to look, never how things stand.
"""

from __future__ import annotations

import asyncio
import json
import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import cast
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.exchange import Exchange, Request
from torchx_core.schedulers.docker.labels import KEY, of_session
from torchx_core.schedulers.docker.polling import encoded

__all__ = ["EventStream", "LoopNotifier", "Notifier", "wait_for", "wait_for_async"]

_ALL = ""
"""Rings for every app: the stream has just begun, or was interrupted."""

_KINDS = ["create", "start", "restart", "kill", "die", "stop", "destroy", "pause", "unpause"]
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 2.0
_OK = 200


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
        keys = list(self._listeners) if _ALL in rung else [key for key in rung if key in self._listeners]
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


class EventStream:
    """One connection to the engine; it is made again when it breaks.

    It asks for what happened before as well (the engine keeps a few events), because the engine answers a
    moment before it listens: without that, what happens in this moment would notify nobody.
    """

    def __init__(self, endpoint: Endpoint, version: str, filters: Mapping[str, Sequence[str]]) -> None:
        """Connect at the first `advance`."""
        wanted = encoded({"type": ["container"], "event": _KINDS, **filters})
        query = urlencode({"filters": wanted, "since": "1"})
        self._endpoint, self._version = endpoint, version
        self._request = Request(f"/events?{query}")
        self._rest: bytes = b""
        self._begun = False
        self._pause_s = _FIRST_PAUSE_S
        self.exchange: Exchange | None = None
        """The connection, if there is one."""
        self.due_at: float = 0.0
        """When to connect again, in monotonic seconds, if there is none."""

    def advance(self, now: float) -> set[str]:
        """Return the keys of the apps of which something happened, or `_ALL`."""
        if self.exchange is None:
            if now < self.due_at:
                return set()
            self.exchange = Exchange(self._endpoint, self._version, self._request)
            self._rest, self._begun = b"", False
        exchange = self.exchange
        rung = self._read(exchange.advance())
        if exchange.status == _OK and not self._begun:
            self._begun, self._pause_s = True, _FIRST_PAUSE_S
            rung.add(_ALL)
        if exchange.over:
            exchange.close()
            self.exchange = None
            self.due_at = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
            rung.add(_ALL)
        return rung

    def _read(self, data: bytes) -> set[str]:
        if not data:
            return set()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return {_key(line) for line in lines if line.strip()}

    def close(self) -> None:
        """Let go of the connection."""
        if self.exchange is not None:
            self.exchange.close()
            self.exchange = None


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


def _key(line: bytes) -> str:
    try:
        event = cast("dict[str, dict[str, dict[str, str]]]", json.loads(line))
        return str(event["Actor"]["Attributes"][KEY])
    except (KeyError, TypeError, ValueError, RecursionError):
        return _ALL  # whatever it is, it does no harm to look
