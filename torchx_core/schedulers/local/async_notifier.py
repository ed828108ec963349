"""Does what `notifier` does on an event loop; a module of its own, for asyncio takes long to import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from torchx_core.schedulers.local.inotify import OVERFLOW, InotifyPool
from torchx_core.schedulers.local.notifier import Look

__all__ = ["AsyncNotifier"]


class _Hub:
    """The inotify instance that one event loop shares among its followers."""

    _hubs: ClassVar[dict[asyncio.AbstractEventLoop, _Hub]] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: InotifyPool) -> None:
        self._loop = loop
        self._pool = pool
        self._inotify = pool.take()
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        loop.add_reader(self._inotify.fd, self._ring)

    @classmethod
    def join(
        cls, loop: asyncio.AbstractEventLoop, pool: InotifyPool, path: str, notify: Callable[[], None]
    ) -> tuple[_Hub, int]:
        hub = cls._hubs.get(loop)
        if hub is None:
            hub = cls._hubs[loop] = cls(loop, pool)
        watch = hub._inotify.add(path)
        hub._callbacks.setdefault(watch, []).append(notify)
        return hub, watch

    def leave(self, watch: int, notify: Callable[[], None]) -> None:
        self._callbacks[watch].remove(notify)
        if not self._callbacks[watch]:
            del self._callbacks[watch]
            self._inotify.remove(watch)
        if not self._callbacks:
            self._loop.remove_reader(self._inotify.fd)
            self._pool.give_back(self._inotify)
            del self._hubs[self._loop]

    def _ring(self) -> None:
        watches = self._inotify.read()
        if OVERFLOW in watches:  # the kernel dropped events: anybody's file may have grown
            watches = set(self._callbacks)
        for watch in watches:
            for notify in self._callbacks.get(watch, ()):
                notify()


class AsyncNotifier:
    """Does what `Notifier` does on an event loop: no thread, and one inotify instance for all."""

    def __init__(self, path: str, alive: int, pool: InotifyPool) -> None:
        """Start watching; to be made on the loop that waits."""
        self._loop = asyncio.get_running_loop()
        self._alive = alive
        self._look = Look()
        self._event = asyncio.Event()
        self._joined: tuple[_Hub, int] | None = None
        self._ring = self._event.set
        self._listening = True
        self._hung_up = False
        self._loop.add_reader(alive, self._on_hang_up)
        try:
            self._joined = _Hub.join(self._loop, pool, path, self._ring)
        except OSError:
            self._joined = None

    def _on_hang_up(self) -> None:
        """Stop listening: the pipe stays readable from now on. Look again until the end is found."""
        self._stop_listening()
        self._hung_up = True
        self._event.set()

    def _stop_listening(self) -> None:
        if self._listening:
            self._loop.remove_reader(self._alive)
            self._listening = False

    async def wait(self, timeout_s: float | None) -> None:
        """Return when something happened, or the time is over."""
        if self._joined is None or self._hung_up:
            timeout_s = self._look.next(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()

    def reset(self) -> None:
        """Say that there was something to read."""
        self._look.reset()

    def close(self) -> None:
        """Let go."""
        if self._loop.is_closed():
            return
        self._stop_listening()
        if self._joined is not None:
            hub, watch = self._joined
            hub.leave(watch, self._ring)
            self._joined = None
