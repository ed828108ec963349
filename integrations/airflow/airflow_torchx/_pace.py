"""How much Airflow may be given: a bucket that fills at a steady rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import final

__all__ = ["Pace", "Paces"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """What a watch must keep to; most of it is shared by all watches of a process."""

    lines: Sequence[Pace]
    """How many lines a second it may show."""
    standstills: Pace
    """How many seconds of a second that may take. Meanwhile nothing else of the process goes on; the log may
    be a pipe that is read slowly."""
    saved_positions: Pace
    """How many saved positions a second may be written; they come less often where many watches share it."""
