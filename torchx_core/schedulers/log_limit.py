"""How much of an app's output an engine's log shows."""

from __future__ import annotations

from typing import final

from torchx_core.schedulers.events import LogLines
from torchx_core.schedulers.text import whole_log
from torchx_core.specs import AppHandle

__all__ = ["LogLimit"]


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
