"""Log lines as text: each after the name of its replica."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from torchx_core.cli.styles import Paint, Style
from torchx_core.display.text import as_shown
from torchx_core.schedulers import LogLines

__all__ = ["COLOURS", "LastLines", "LinePrinter", "Selection"]

COLOURS: Final[tuple[Style, ...]] = ("36", "35", "34", "32", "33", "96", "95", "94", "92", "93")
"""Of the names of replicas, each that is met first gets the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines to show."""

    replicas: frozenset[tuple[str, int]] | None = None
    """Role and number of each; None for all."""
    regex: re.Pattern[str] | None = None
    since: datetime | None = None
    until: datetime | None = None

    def of(self, run: LogLines) -> LogLines | None:
        """Return what is selected of a run of lines, or None."""
        if self.replicas is not None and (run.role, run.replica) not in self.replicas:
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


class LastLines:
    """Keeps the last lines of a log; the pieces of a long line are one."""

    def __init__(self, most: int) -> None:
        """Keep at most so many lines."""
        self._most = most
        self._lines: deque[list[LogLines]] = deque(maxlen=most)
        self._open: dict[tuple[object, ...], list[LogLines]] = {}

    def add(self, runs: Iterable[LogLines]) -> None:
        """Take in what was written next."""
        for run in runs:
            writer = run[:4]
            for line, eol in self._whole(run):
                pieces = self._open.pop(writer, None)
                if pieces is None:
                    self._lines.append(pieces := [])
                pieces.append(run._replace(lines=(line,), eol=eol))
                if not eol:
                    self._open[writer] = pieces

    def _whole(self, run: LogLines) -> Iterator[tuple[str, bool]]:
        """Yield the first line, which may end an open one, and the others that can be kept."""
        first, *others = zip(run.lines, (*(True,) * (len(run.lines) - 1), run.eol), strict=True)
        yield first
        yield from others[-max(1, self._most) :]

    def runs(self) -> list[LogLines]:
        """Return what is kept, by when the lines began."""
        return [piece for line in self._lines for piece in line]


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
            colour = COLOURS[len(self._prefixes) % len(COLOURS)]
            self._prefixes[key] = self._paint(f"{role}/{replica}", colour) + " "
        return self._prefixes[key]
