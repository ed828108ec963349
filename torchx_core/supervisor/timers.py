"""Named one-shot timers for a loop that asks."""

from __future__ import annotations

from collections.abc import Callable


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
