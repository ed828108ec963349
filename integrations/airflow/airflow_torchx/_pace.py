"""How much Airflow may be given: a bucket that fills at a steady rate."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import final

__all__ = ["Pace"]


@final
class Pace:
    """Lets so many lines, or calls, a second pass, and a burst at once."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        """Start with a full bucket."""
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._at = clock()

    def spend(self, amount: float) -> float:
        """Take what was given, and return how many seconds to pause before giving more.

        It is spent even where the bucket is empty: the pause pays it back.
        """
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._left / self._per_s)
