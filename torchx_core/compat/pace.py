"""How long to wait between two looks at an app."""

from __future__ import annotations

from time import monotonic

__all__ = ["Pace"]

_FIRST_S = 0.02
_GROWTH = 1.5
_LAST_S = 1.0
_COST_SHARE = 20
_LONGEST_S = 30.0


class Pace:
    """Looks often while there is news, less and less often while there is none, and costly looks rarely.

    From 50 a second down to one; at most a twentieth of the time goes into looking, so that a service that
    takes half a second to answer is asked every ten.
    """

    def __init__(self) -> None:
        self._quiet_s = _FIRST_S
        self._due = monotonic()

    def looked(self, *, cost_s: float, news: bool, more: bool = False) -> None:
        """Plan the next look, after one that took so long; at once if there is more to read."""
        self._quiet_s = _FIRST_S if news else min(self._quiet_s * _GROWTH, _LAST_S)
        pause = 0.0 if more else max(self._quiet_s, min(cost_s * _COST_SHARE, _LONGEST_S))
        self._due = monotonic() + pause

    def left(self, timeout_s: float | None) -> float:
        """Return how many seconds to wait now: until the next look, and no longer than that."""
        left = max(0.0, self._due - monotonic())
        return left if timeout_s is None else min(left, timeout_s)

    @property
    def is_due(self) -> bool:
        """Whether the next look is due."""
        return monotonic() >= self._due
