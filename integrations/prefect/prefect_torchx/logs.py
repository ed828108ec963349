"""Shows an app's events in a run's log, as few records of many lines.

Prefect's server takes about a thousand records a second, whatever their size: a hundred lines in one record
arrive fifty times as fast as a record each.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias, final

from torchx_core.schedulers import AppEvent, LogLines, LogsLost, StateChanged
from torchx_core.schedulers.secrets import MASK, looks_secret
from torchx_core.schedulers.text import as_shown, cut, describe, prefix
from torchx_core.specs import AppDef, AppStatus

__all__ = ["Emit", "Mask", "RunLog", "make_mask"]

MAX_RECORD_BYTES = 20_000
"""As JSON. Prefect Cloud cuts records of more than 25,000 bytes, Prefect's own server those of 1,000,000."""
MAX_WAIT_S = 0.5
"""How long a line may wait for others. Prefect sends records every two seconds."""
MIN_SECRET_CHARS = 5
"""Shorter values would be found in innocent places."""
TAIL_LINES = 10
TAIL_LINE_CHARS = 200

Mask: TypeAlias = Callable[[str], str]


Emit: TypeAlias = Callable[[int, str, float | None], None]
"""Writes one record: level, text (perhaps of many lines), seconds since the epoch or None for now."""


def make_mask(app: AppDef) -> Mask:
    """Return a function that hides the values of the app's variables that look like secrets by their name."""
    values = [value for role in app.roles for name, value in role.env.items() if looks_secret(name)]
    secrets = {part for value in values for part in value.splitlines() if len(part) >= MIN_SECRET_CHARS}
    if not secrets:
        return str
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(MASK, text)


@final
class RunLog:
    """Gathers lines of all replicas, in order, into records; remembers each replica's last lines."""

    def __init__(self, emit: Emit, mask: Mask, clock: Callable[[], float] = monotonic) -> None:
        self._emit = emit
        self._mask = mask
        self._clock = clock
        self._lines: list[str] = []
        self._bytes = 0
        self._time = 0.0
        self._due = float("inf")
        self._tails: dict[tuple[str, int], deque[str]] = {}

    def write(self, event: AppEvent) -> None:
        """Take an event; it is shown when a record is full, or by `tick`."""
        match event:
            case LogLines():
                self._take_lines(event)
            case LogsLost():
                self._say(logging.WARNING, f"{prefix(event)} {describe(event)}", event.time)
            case StateChanged():
                self._add(self._mask(f"app {describe(event)}"), event.time)
            case _:
                self._add(self._mask(f"{prefix(event)} {describe(event)}"), event.time)

    def tick(self) -> None:
        """Show what has waited long enough; call it several times a second."""
        if self._clock() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Show everything taken so far."""
        lines, self._lines, self._bytes, self._due = self._lines, [], 0, float("inf")
        if lines:
            self._emit(logging.INFO, "\n".join(lines), self._time)

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._say(logging.INFO, message, None)

    def failure(self, status: AppStatus, handle: str) -> str:
        """Return what went wrong: the summary first, the failed replica's last lines, then the handle."""
        replica = next(iter(status.failed_replicas()), None)
        tail = self._tails.get((replica.role, replica.id)) if replica else None
        last_lines = [f"  last lines of {replica.role}/{replica.id}:"] if replica and tail else []
        last_lines += [f"    {line}" for line in tail or ()]
        return self._mask("\n".join([status.failure_summary(), *last_lines, f"  app: {handle}"]))

    def _take_lines(self, run: LogLines) -> None:
        head = prefix(run)
        tail = self._tails.setdefault((run.role, run.replica), deque(maxlen=TAIL_LINES))
        for line in run.lines:
            shown = self._mask(as_shown(line))
            tail.append(cut(shown, TAIL_LINE_CHARS))
            first, *others = _pieces(shown)
            self._add(f"{head} {first}", run.time)
            for piece in others:
                self._add(f"{head} …{piece}", run.time)

    def _add(self, line: str, time: float) -> None:
        size = _json_bytes(line)
        if self._bytes + size > MAX_RECORD_BYTES:
            self.flush()
        if not self._lines:
            self._time = time
            self._due = self._clock() + MAX_WAIT_S
        self._lines.append(line)
        self._bytes += size

    def _say(self, level: int, message: str, time: float | None) -> None:
        self.flush()
        self._emit(level, self._mask(message), time)


def _pieces(line: str) -> list[str]:
    """Cut a line that no record can hold; bytes as JSON do not follow from characters, so by halves."""
    if _json_bytes(line) <= MAX_RECORD_BYTES // 2:
        return [line]
    middle = len(line) // 2
    return _pieces(line[:middle]) + _pieces(line[middle:])


def _json_bytes(line: str) -> int:
    return len(json.dumps(line))
