"""How often an engine's log shows what an app reports: a program may do so a thousand times a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeAlias, final

from torchx_core.schedulers.events import Metric, Progress

__all__ = ["LatestReports", "Report"]

EVERY_S = 1.0

Report: TypeAlias = Progress | Metric


@final
class LatestReports:
    """Keeps each replica's latest progress, and the latest of each of its metrics, until they are due."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Keep nothing yet.

        Args:
            clock: Tells when a second has passed.
        """
        self._clock = clock
        self._waiting: dict[tuple[str, int, str], Report] = {}
        self._due_at = float("-inf")

    def take(self, report: Report) -> None:
        """Keep it in place of the one before."""
        name = report.name if isinstance(report, Metric) else ""
        self._waiting[report.role, report.replica, name] = report

    def due(self) -> Iterator[Report]:
        """Yield what is to be shown now: once a second what is kept."""
        if self._waiting and self._clock() >= self._due_at:
            yield from self.rest()

    def rest(self) -> Iterator[Report]:
        """Yield all that is kept: before the app's end is shown, and when nobody goes on here."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self._due_at = self._clock() + EVERY_S
        yield from waiting.values()
