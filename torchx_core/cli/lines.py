"""Log lines as text: each after the name of its replica."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from torchx_core.cli.styles import Paint, Style
from torchx_core.display.text import as_shown
from torchx_core.schedulers import LogLines

__all__ = ["LinePrinter", "Selection"]

_COLOURS: Final[tuple[Style, ...]] = ("36", "35", "34", "32", "33", "96", "95", "94", "92", "93")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines to show."""

    replicas: frozenset[int] | None = None
    """Of the roles that are followed; None for all."""
    regex: re.Pattern[str] | None = None
    since: datetime | None = None
    until: datetime | None = None

    def of(self, run: LogLines) -> LogLines | None:
        """Return what is selected of a run of lines, or None."""
        if self.replicas is not None and run.replica not in self.replicas:
            return None
        if self.since is not None and run.time < self.since.timestamp():
            return None
        if self.until is not None and run.time >= self.until.timestamp():
            return None
        return run if self.regex is None else _matching(run, self.regex)


def _matching(run: LogLines, regex: re.Pattern[str]) -> LogLines | None:
    lines = tuple(line for line in run.lines if regex.search(line))
    if not lines:
        return None
    last_is_kept = lines[-1] is run.lines[-1]
    return run._replace(lines=lines, eol=run.eol or not last_is_kept)


class LinePrinter:
    """Turns runs of lines into text, in which every line begins with its replica.

    Pieces of one long line are put together again, as long as no other replica speaks in between.
    """

    def __init__(self, paint: Paint, *, terminal: bool) -> None:
        r"""Remember how to paint.

        Args:
            paint: Gives the prefixes their colours.
            terminal: Of a progress bar, redrawn after each ``\r``, show the last state only.
        """
        self._paint = paint
        self._terminal = terminal
        self._prefixes: dict[tuple[str, int], str] = {}
        self._open: tuple[object, ...] | None = None

    def text(self, run: LogLines) -> str:
        """Return the text that shows the run after what was shown before."""
        writer = run[:4]
        prefix = self._prefix(run.role, run.replica)
        lines = (
            [as_shown(line) if "\r" in line else line for line in run.lines] if self._terminal else run.lines
        )
        begin = "" if self._open == writer else self.end() + prefix
        self._open = None if run.eol else writer
        return begin + f"\n{prefix}".join(lines) + ("\n" if run.eol else "")

    def end(self) -> str:
        """Return what completes a line that has no end yet."""
        ending = "\n" if self._open else ""
        self._open = None
        return ending

    def _prefix(self, role: str, replica: int) -> str:
        key = (role, replica)
        if key not in self._prefixes:
            colour = _COLOURS[len(self._prefixes) % len(_COLOURS)]
            self._prefixes[key] = self._paint(f"{role}/{replica}", colour) + " "
        return self._prefixes[key]
