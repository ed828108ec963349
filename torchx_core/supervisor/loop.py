"""Waits for descriptors and timers, on one thread."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from time import monotonic

from torchx_core.supervisor.timers import Timers

LONGEST_WAIT_S = 3600.0
"""The kernel counts a wait in milliseconds and 32 bits: longer ones are taken in steps."""


class Loop:
    """An epoll set with a reader per descriptor, and timers on a clock that never jumps."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._poller = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self.timers: Timers = Timers(monotonic)

    def watch(self, fd: int, reader: Callable[[], None], *, edge: bool = False) -> None:
        """Call `reader` when there is something to read.

        Args:
            fd: The descriptor.
            reader: Reads once.
            edge: Call once per arrival instead of as long as something is left (epoll(7), EPOLLET): the
                ready list is then first come first served, which keeps the order between two pipes.
        """
        self._readers[fd] = reader
        self._poller.register(fd, select.EPOLLIN | (select.EPOLLET if edge else 0))

    def watch_level(self, fd: int) -> None:
        """Call the reader from now on as long as something is left."""
        self._poller.modify(fd, select.EPOLLIN)

    def watches(self, fd: int) -> bool:
        """Return whether the descriptor is still open here."""
        return fd in self._readers

    def close(self, fd: int) -> None:
        """Stop watching and close the descriptor; once only."""
        if self._readers.pop(fd, None):
            self._poller.unregister(fd)
            os.close(fd)

    def turn(self, *, wait: bool) -> bool:
        """Read what is ready and run what is due; return whether anything was ready.

        Args:
            wait: Block until there is something to do.
        """
        ready = self._poller.poll(min(self.timers.left(), LONGEST_WAIT_S) if wait else 0)
        for fd, _ in ready:
            reader = self._readers.get(fd)
            if reader:  # an earlier reader of this turn may have closed it
                reader()
        for due in self.timers.due():
            due()
        return bool(ready)
