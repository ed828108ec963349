"""Leaves out what the logs of earlier tries show already. Knows no Airflow."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple, final

__all__ = ["Shown", "ShownLine", "instant"]

_REPORTS = ("progress", "metric")


class ShownLine(NamedTuple):
    """One line of a task's log."""

    time: datetime
    """When the app wrote it, in UTC."""
    text: str
    """With whose it is before it, and without secrets."""


def instant(time: float) -> datetime:
    """Return the moment as the log has it, given seconds since the epoch."""
    return datetime.fromtimestamp(time, UTC)


@final
class Shown:
    """What was shown before, of which a try shows some again, from a position that was saved a while ago.

    Each replica's lines come in the same order again, those of several replicas perhaps not. So each one's
    first line is looked for, by time and text, among its own, and what follows is left out for as long as it
    is the same. In doubt all is shown: a line that comes twice is better than one that is lost.
    """

    def __init__(self, lines: Iterable[ShownLine] = (), mask: Callable[[str], str] = str) -> None:
        """Leave out nothing yet.

        Args:
            lines: The end of what was shown, in order.
            mask: Hides secrets in a line as the log hides them.
        """
        self._mask = mask
        self._lines: defaultdict[str, deque[ShownLine]] = defaultdict(deque)
        for line in lines:
            self._lines[_whose(line.text)].append(line)
        self._found: set[str] = set()

    def left_of(self, message: str, time: float) -> str:
        """Return the lines of a record that are yet to be shown; empty when there are none."""
        if not self._lines:
            return message
        return "\n".join(line for line in message.split("\n") if not self._is_shown(line, time))

    def _is_shown(self, text: str, time: float) -> bool:
        whose = _whose(text)
        lines = self._lines.get(whose)
        if lines is None:
            return False
        line = ShownLine(instant(time), self._mask(text))
        if whose not in self._found:
            self._found.add(whose)
            _drop_before(line, lines)
        if lines and lines.popleft() == line:
            return True
        del self._lines[whose]
        return False


def _drop_before(line: ShownLine, lines: deque[ShownLine]) -> None:
    if lines.count(line) != 1:
        lines.clear()  # of equal lines nobody can tell which this is, and how many are still to come
    while lines and lines[0] != line:
        lines.popleft()


def _whose(text: str) -> str:
    """Return what tells a replica's lines from others, and from its reports: those are shown by the clock."""
    whose, _, rest = text.partition("] ")
    kind = rest.partition(" ")[0]
    return f"{whose}] {kind}" if kind in _REPORTS else whose
