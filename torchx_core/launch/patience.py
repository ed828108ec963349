"""How long to go on asking a scheduler that is away."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import final

from torchx_core.errors import SchedulerError

__all__ = ["Patience"]

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0


@final
class Patience:
    """Turns failures that pass into delays, each twice as long as the last, until that has gone on too long.

    The app goes on meanwhile, and whoever asks again does not submit it again.
    """

    def __init__(self, give_up_s: float, clock: Callable[[], float] = monotonic) -> None:
        """Have seen no failure yet.

        Args:
            give_up_s: How long the scheduler may be away.
            clock: Seconds.
        """
        self._give_up_s = give_up_s
        self._clock = clock
        self._away_since: float | None = None
        self._delay_s = FIRST_DELAY_S

    def answered(self) -> None:
        """Take note that the scheduler answered: what fails from now on is another failure."""
        self._away_since, self._delay_s = None, FIRST_DELAY_S

    def delay_after(self, error: SchedulerError) -> float:
        """Return how many seconds to wait before asking again.

        Raises:
            SchedulerError: The error itself: it does not pass, or the scheduler has been away for too long.
        """
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        if not error.retryable or now - self._away_since > self._give_up_s:
            raise error
        delay_s, self._delay_s = self._delay_s, min(2 * self._delay_s, LONGEST_DELAY_S)
        return delay_s
