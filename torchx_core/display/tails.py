"""Remembers the last lines of each replica, for those who must say why an app failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import final

from torchx_core.display.text import as_shown, cut
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppStatus, LastLines, ReplicaStatus

__all__ = ["Tails"]

TAIL_LINES = 50
TAIL_LINE_CHARS = 1000


@final
class Tails:
    """The last lines of each replica, as a terminal would show them."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        """Remember nothing yet.

        Args:
            mask: Hides secrets in a line.
        """
        self._mask = mask
        self._tails: dict[tuple[str, int], deque[str]] = {}
        self._on_stderr: dict[tuple[str, int], deque[str]] = {}

    def remember(self, run: LogLines) -> None:
        """Take lines; those that came before may be forgotten."""
        # Cut after masking: half a secret would not be recognised.
        lines = [cut(self._mask(as_shown(line)), TAIL_LINE_CHARS) for line in run.lines[-TAIL_LINES:]]
        for tails in (self._tails, self._on_stderr) if run.stream == "stderr" else (self._tails,):
            tails.setdefault((run.role, run.replica), deque(maxlen=TAIL_LINES)).extend(lines)

    def of(self, role: str, replica: int) -> list[str]:
        """Return what is remembered of the replica, oldest first."""
        return list(self._tails.get((role, replica), ()))

    def explain(self, status: AppStatus) -> AppStatus:
        """Return the status as one that knows these lines, and reads no others, when it tells what failed."""
        told = replace(status)
        told.last_lines = self._last_lines
        return told

    def _last_lines(self, replica: ReplicaStatus) -> LastLines:
        key = (replica.role, replica.id)
        return LastLines(self.of(*key), list(self._on_stderr.get(key, ())))

    def others(self, role: str, replica: int) -> list[tuple[str, int]]:
        """Return the other replicas of which something is remembered."""
        return [key for key in self._tails if key != (role, replica)]
