"""A clock that stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["FakeClock"]


class FakeClock:
    """Call it for the time in seconds; it never goes backwards.

    Example:
        >>> clock = FakeClock(100.0)
        >>> clock.advance(2.5)
        >>> clock()
        102.5
    """

    def __init__(self, start: float = 0.0) -> None:
        """Stand at `start`."""
        self._now = start
        self._watchers: list[Callable[[], None]] = []

    def __call__(self) -> float:
        """Return the time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on, and tell everybody who waits for the time.

        Raises:
            ValueError: Backwards.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go backwards: {seconds}")
        self._now += seconds
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called after each move."""
        self._watchers.append(watcher)
