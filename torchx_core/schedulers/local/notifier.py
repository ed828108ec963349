"""Waits for a file to grow or for an app's processes to end: inotify and a pipe's hang-up, no busy loop.

The kernel allows few inotify instances per user (128 by default): an event loop shares one among all the
apps it follows, a blocking reader has one for itself, and whoever gets none looks again after a while.
"""

from __future__ import annotations

import select

from torchx_core.schedulers.local.inotify import Inotify, InotifyPool

__all__ = ["Look", "Notifier"]

FIRST_LOOK_S = 0.005
LAST_LOOK_S = 0.1
LONGEST_WAIT_S = 3600.0
"""poll(2) counts milliseconds in 32 bits."""


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


class Notifier:
    """Blocks one thread until the file grows or the pipe hangs up."""

    def __init__(self, path: str, alive: int, pool: InotifyPool) -> None:
        """Watch the file and the reading end of the pipe; the caller keeps the pipe."""
        self._alive = alive
        self._pool = pool
        self._look = Look()
        self._watch = -1
        self._poll = select.poll()
        self._poll.register(alive, 0)  # a hang-up is always reported
        self._inotify: Inotify | None = None
        try:
            self._inotify = pool.take()
            self._watch = self._inotify.add(path)
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
            self._inotify.remove(self._watch)
            self._pool.give_back(self._inotify)
            self._inotify = None
