"""How much an engine's log shows of what an app prints and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeAlias, final

from torchx_core.display.text import whole_log
from torchx_core.schedulers import LogLines, Metric, Progress
from torchx_core.specs import AppHandle

__all__ = ["LatestReports", "LogLimit", "Report"]

EVERY_S = 1.0
"""How often a report is shown: a program may make a thousand a second."""

Report: TypeAlias = Progress | Metric


@final
class LogLimit:
    """Admits lines up to a size and counts those beyond it, by replica.

    An engine that has to serve a log of gigabytes serves nobody; the backend's files hold everything.
    """

    def __init__(self, limit_bytes: int | None, shown_bytes: int = 0) -> None:
        """Count from where an earlier try left off.

        Args:
            limit_bytes: How much is shown; None for all.
            shown_bytes: How much was shown before.
        """
        self._limit_bytes = limit_bytes
        self.shown_bytes: int = shown_bytes
        self.left_out: dict[tuple[str, int], int] = {}
        """How many lines were not admitted, by role and replica."""

    def admits(self, run: LogLines) -> bool:
        """Return whether the lines may be shown, and count them either way."""
        if self._limit_bytes is None or self.shown_bytes < self._limit_bytes:
            self.shown_bytes += sum(map(len, run.lines)) + len(run.lines)
            return True
        replica = (run.role, run.replica)
        self.left_out[replica] = self.left_out.get(replica, 0) + len(run.lines)
        return False

    @property
    def notice(self) -> str:
        """What to say when the limit is reached."""
        limit = f"{(self._limit_bytes or 0) / 1e6:g} MB"
        return f"the log has reached its limit of {limit}; further lines are left out"

    def summary(self, handle: AppHandle) -> str:
        """Return how many lines were left out and how to see them; empty when none were."""
        if not self.left_out:
            return ""
        return f"{sum(self.left_out.values())} lines were left out; {whole_log(handle)}"


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
