"""Waits for descriptors and timers, on one thread."""

from __future__ import annotations

import select
from collections.abc import Callable
from io import FileIO
from time import monotonic
from typing import NamedTuple

LONGEST_WAIT_S = 3600.0
"""The kernel counts a wait in milliseconds and 32 bits: longer ones are taken in steps."""


class Watch(NamedTuple):
    """A descriptor and what to do when it can be read."""

    source: FileIO
    reader: Callable[[], None]
    output: bool


class Loop:
    """An epoll set with a reader per descriptor, and timers on a clock that never jumps.

    A descriptor is always spoken of by the object that owns it. Its number alone would not do: the kernel
    gives it to the next pipe as soon as it is closed, and whoever still had it would act on that one.
    """

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._poller = select.epoll()
        self._watches: dict[int, Watch] = {}  # by the number that epoll answers; open ones only
        self.timers: Timers = Timers(monotonic)

    def watch(
        self, source: FileIO, reader: Callable[[], None], *, edge: bool = False, output: bool = False
    ) -> None:
        """Call `reader` when there is something to read.

        Args:
            source: The descriptor; never blocks.
            reader: Reads once.
            edge: Call once per arrival instead of as long as something is left (epoll(7), EPOLLET): the
                ready list is then first come first served, which keeps the order between two pipes.
            output: What `take_output` takes; the reader then does nothing but take.
        """
        self._watches[source.fileno()] = Watch(source, reader, output)
        self._poller.register(source, select.EPOLLIN | (select.EPOLLET if edge else 0))

    def watch_level(self, source: FileIO) -> None:
        """Call the reader from now on as long as something is left."""
        self._poller.modify(source, select.EPOLLIN)

    def close(self, source: FileIO) -> None:
        """Stop watching and close the descriptor, unless that was done."""
        if not source.closed:
            self._poller.unregister(source)
            del self._watches[source.fileno()]
            source.close()

    def turn(self, *, wait: bool) -> bool:
        """Read what is ready and run what is due; return whether anything was ready.

        Args:
            wait: Block until there is something to do.
        """
        ready = self._ready(min(self.timers.left(), LONGEST_WAIT_S) if wait else 0)
        _read(ready)
        for due in self.timers.due():
            due()
        return bool(ready)

    def take_output(self) -> set[FileIO]:
        """Read the output that has arrived by now, in order, and nothing else; return whose there was."""
        ready = [watch for watch in self._ready(0) if watch.output]
        _read(ready)
        return {watch.source for watch in ready}

    def _ready(self, timeout_s: float) -> list[Watch]:
        found = self._poller.poll(timeout_s, max(1, len(self._watches)))
        return [self._watches[number] for number, _ in found]


def _read(ready: list[Watch]) -> None:
    for watch in ready:
        if not watch.source.closed:  # by an earlier reader
            watch.reader()


class Timers:
    """At most one pending timer per name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` never goes backwards."""
        self._clock = clock
        self._due: dict[str, tuple[float, Callable[[], None]]] = {}

    def set(self, name: str, after_s: float, action: Callable[[], None]) -> None:
        """Have `action` come up after this long, instead of what the name stood for before."""
        self._due[name] = (self._clock() + after_s, action)

    def hasten(self, name: str, after_s: float) -> None:
        """Have the action come up after this long at the latest, if it is pending."""
        if name in self._due:
            at, action = self._due[name]
            self._due[name] = (min(at, self._clock() + after_s), action)

    def drop(self, name: str) -> None:
        """Forget the timer, if it is pending."""
        self._due.pop(name, None)

    def left(self) -> float:
        """Return the seconds until the first is due; infinity when none is pending."""
        first = min((at for at, _ in self._due.values()), default=float("inf"))
        return max(0.0, first - self._clock())

    def due(self) -> list[Callable[[], None]]:
        """Take out and return the actions that are due."""
        now = self._clock()
        names = [name for name, (at, _) in self._due.items() if at <= now]
        return [self._due.pop(name)[1] for name in names]
