"""Waits for a file to grow or for an app's processes to end: inotify and a pipe's hang-up, no busy loop.

The kernel allows few inotify instances per user (128 by default): an event loop shares one among all the
apps it follows, a blocking reader has one for itself, and whoever gets none looks again after a while.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import struct
import sys
from collections.abc import Callable
from typing import ClassVar
from weakref import WeakKeyDictionary

__all__ = ["AsyncDoorbell", "Doorbell"]

_IN_MODIFY = 0x2
_IN_NONBLOCK = 0o4000
_IN_CLOEXEC = 0o2000000
_OVERFLOW = -1
_EVENT = struct.Struct("iIII")

FIRST_LOOK_S = 0.005
LAST_LOOK_S = 0.1
LONGEST_WAIT_S = 3600.0
"""poll(2) counts milliseconds in 32 bits."""


class Inotify:
    """One inotify instance: a descriptor that is readable when a watched file was written to."""

    def __init__(self) -> None:
        """Open an instance.

        Raises:
            OSError: Too many, or not this system.
        """
        if sys.platform != "linux":
            raise OSError("inotify is Linux's")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._checked(self._libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))

    def add(self, path: str) -> int:
        """Watch a file; the number comes back from `read`."""
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), _IN_MODIFY))

    def remove(self, watch: int) -> None:
        """Stop watching; no error when the file is gone."""
        self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> set[int]:
        """Return the watches whose files were written to since the last call."""
        watches: set[int] = set()
        try:
            while data := os.read(self.fd, 1 << 16):
                at = 0
                while at < len(data):
                    watch, _, _, length = _EVENT.unpack_from(data, at)
                    watches.add(watch)
                    at += _EVENT.size + length
        except BlockingIOError:
            return watches
        return watches

    def close(self) -> None:
        """Close the instance."""
        os.close(self.fd)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return answer


class Look:
    """How long to wait before looking again, where nothing tells us."""

    def __init__(self) -> None:
        """Start eager."""
        self._next = FIRST_LOOK_S

    def next(self, timeout_s: float | None) -> float:
        """Return the next pause; longer each time, up to a tenth of a second."""
        pause, self._next = self._next, min(self._next * 1.5, LAST_LOOK_S)
        return pause if timeout_s is None else min(pause, timeout_s)

    def reset(self) -> None:
        """Be eager again: something happened."""
        self._next = FIRST_LOOK_S


class Doorbell:
    """Blocks one thread until the file grows or the pipe hangs up."""

    def __init__(self, path: str, alive: int) -> None:
        """Watch the file and the reading end of the pipe; the caller keeps the pipe."""
        self._alive = alive
        self._look = Look()
        self._poll = select.poll()
        self._poll.register(alive, 0)  # a hang-up is always reported
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
            self._inotify.add(path)
            self._poll.register(self._inotify.fd, select.POLLIN)
        except OSError:
            self.close()

    def wait(self, timeout_s: float | None) -> None:
        """Return when something happened, or the time is over."""
        if self._inotify is None:
            timeout_s = self._look.next(timeout_s)
        self._poll.poll(None if timeout_s is None else min(max(0.0, timeout_s), LONGEST_WAIT_S) * 1000)
        if self._inotify is not None:
            self._inotify.read()

    def reset(self) -> None:
        """Say that there was something to read."""
        self._look.reset()

    def close(self) -> None:
        """Let go."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None


class _Hub:
    """The inotify instance that one event loop shares among its followers."""

    _hubs: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._inotify = Inotify()
        self._bells: dict[int, list[Callable[[], None]]] = {}
        loop.add_reader(self._inotify.fd, self._ring)

    @classmethod
    def join(cls, loop: asyncio.AbstractEventLoop, path: str, bell: Callable[[], None]) -> tuple[_Hub, int]:
        hub = cls._hubs.get(loop)
        if hub is None:
            hub = cls._hubs[loop] = cls(loop)
        watch = hub._inotify.add(path)
        hub._bells.setdefault(watch, []).append(bell)
        return hub, watch

    def leave(self, watch: int, bell: Callable[[], None]) -> None:
        self._bells[watch].remove(bell)
        if not self._bells[watch]:
            del self._bells[watch]
            self._inotify.remove(watch)
        if not self._bells:
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()
            del self._hubs[self._loop]

    def _ring(self) -> None:
        watches = self._inotify.read()
        if _OVERFLOW in watches:  # the kernel dropped events: anybody's file may have grown
            watches = set(self._bells)
        for watch in watches:
            for bell in self._bells.get(watch, ()):
                bell()


class AsyncDoorbell:
    """Does what `Doorbell` does on an event loop: no thread, and one inotify instance for all."""

    def __init__(self, path: str, alive: int) -> None:
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
            self._joined = _Hub.join(self._loop, path, self._ring)
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
