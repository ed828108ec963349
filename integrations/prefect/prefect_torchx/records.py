"""Gathers an app's events into few records of many lines, each of one replica and one level.

Prefect's server takes about a thousand records a second, whatever their size: a hundred lines in one record
arrive fifty times as fast as a record each.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from time import monotonic
from typing import NamedTuple, TypeAlias, final

from prefect_torchx.position import Position
from torchx_core.display.levels import by_level, level_of_state
from torchx_core.display.limits import LatestReports
from torchx_core.display.masking import Mask
from torchx_core.display.text import as_shown, describe, prefix
from torchx_core.schedulers import (
    AppEvent,
    Link,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.schedulers.events import Report

__all__ = ["MAX_TIMES", "Record", "Records"]

MAX_RECORD_BYTES = 20_000
"""As JSON. Prefect Cloud cuts records of more than 25,000 bytes, Prefect's own server those of 1,000,000."""
MAX_WAIT_S = 0.5
"""How long a line may wait for others, while there are few replicas."""
MAX_RECORDS_PER_S = 200
"""About; where many replicas write at once, their lines wait longer for others."""
MAX_LEVELS = 8
"""How often the level may change within a record's worth of lines before they share the highest of them."""
STEP_S = 2e-6
"""Prefect sorts by time, in microseconds: equal times of one replica are moved apart by this."""
MAX_TIMES = 200
"""Of how many sources, the latest ones, it is saved when their latest record was written."""
CATCH_UP_S = 60.0
"""How long lines that the log has may take to come again; what does not come is nothing of this app's."""
REPORTS = ".reports"
"""Ends the source of what is shown by the clock: progress and metrics, of which some are left out."""

RESULTS = ".results"
"""Ends the source of results: live, a scheduler may tell of one earlier among the lines than later on."""

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class Record(NamedTuple):
    """One record of a run's log."""

    level: int
    text: str
    time: float | None
    """Seconds since the epoch; None for now."""
    source: str | None = None
    """``role.replica``; empty for what concerns the whole app, None for a message of our own."""
    lines: int = 1


Deliver: TypeAlias = Callable[[Record], None]


class _Line(NamedTuple):
    level: int
    text: str
    time: float


@dataclass(slots=True)
class _Waiting:
    """Lines of one source that wait for others."""

    lines: list[_Line] = field(default_factory=list[_Line])
    bytes: int = 0
    last: float = 0.0
    """The time of the latest record."""


@final
class Records:
    """Turns events into records; each is delivered when it is full, or by `tick`."""

    def __init__(self, deliver: Deliver, mask: Mask, clock: Callable[[], float] = monotonic) -> None:
        """Gather nothing yet.

        Args:
            deliver: Takes each record, in the order of each source.
            mask: Hides secrets.
            clock: Tells when lines have waited long enough.
        """
        self._deliver = deliver
        self._mask = mask
        self._clock = clock
        self._sources: dict[str, _Waiting] = {}
        self._oldest = float("inf")
        self._reports = LatestReports(clock)
        self._shown: dict[str, deque[str]] = {}
        self._shown_until = 0.0

    @property
    def times(self) -> dict[str, float]:
        """When the latest record of each source was written, of those that wrote last; see `MAX_TIMES`."""
        written = [(source, waiting.last) for source, waiting in self._sources.items() if waiting.last]
        return dict(sorted(written, key=lambda each: -each[1])[:MAX_TIMES])

    @property
    def waiting(self) -> bool:
        """Whether something was taken that is not delivered yet."""
        return self._oldest != float("inf")

    @property
    def catching_up(self) -> bool:
        """Whether lines are still to come that the log has: a place before them is not one to go on from."""
        if self._shown and self._clock() > self._shown_until:
            self._shown.clear()
        return any(lines for source, lines in self._shown.items() if not source.endswith(REPORTS))

    def go_on(self, position: Position | None) -> None:
        """Turn to an app, at the place to which the log has shown it: deliver what was taken of another.

        What the log has of what comes behind the place is left out, line by line, as long as it is the same.
        In doubt all is shown: a line that comes twice is better than one that is lost.
        """
        self.flush()
        times = dict(position.times) if position else {}
        after = position.after if position else {}
        times |= {source: shown.time for source, shown in after.items()}
        self._sources = {source: _Waiting(last=time) for source, time in times.items()}
        self._shown = {source: deque(shown.lines) for source, shown in after.items()}
        self._shown_until = self._clock() + CATCH_UP_S

    def write(self, event: AppEvent) -> None:
        """Take an event."""
        match event:
            case LogLines():
                self._take_lines(event)
            case StateChanged():
                self.end()  # what came before it is shown before it, and it is shown at once
                level = _LEVELS[level_of_state(event.state)]
                self._add("", self._mask(f"app {describe(event)}"), level, event.time)
                self.flush()
            case Progress() | Metric():
                self._reports.take(event)
                self._show_reports(self._reports.due())
            case ReplicaChanged():
                self._show(event, _LEVELS[level_of_state(event.state)])
            case LogsLost():
                self._show(event, logging.WARNING)
            case Result() | Link():
                self._show(event, logging.INFO)

    def say(self, message: str, level: int = logging.INFO) -> None:
        """Deliver a message of our own, after everything taken so far."""
        self.flush()
        self._deliver(Record(level, self._mask(message), None))

    def tick(self) -> bool:
        """Deliver everything if something has waited long enough; return whether it did."""
        self._show_reports(self._reports.due())
        wait_s = max(MAX_WAIT_S, len(self._sources) / MAX_RECORDS_PER_S)
        if self._clock() < self._oldest + wait_s:
            return False
        self.flush()
        return True

    def end(self) -> None:
        """Deliver everything, also the latest reports."""
        self._show_reports(self._reports.rest())
        self.flush()

    def flush(self) -> None:
        """Deliver everything taken so far, but reports at their time."""
        waiting = [(source, lines) for source, lines in self._sources.items() if lines.lines]
        for source, lines in sorted(waiting, key=lambda each: each[1].lines[0].time):
            self._deliver_source(source, lines)
        self._oldest = float("inf")

    def _show_reports(self, reports: Iterable[Report]) -> None:
        for report in reports:
            self._show(report, logging.INFO)

    def _show(self, event: ReplicaChanged | Report | LogsLost, level: int) -> None:
        text = self._mask(f"{prefix(event)} {describe(event)}")
        source = _source(event.role, event.replica)
        if isinstance(event, Progress | Metric):
            source += REPORTS
        elif isinstance(event, Result):
            source += RESULTS
        self._add(source, text, level, event.time)

    def _take_lines(self, run: LogLines) -> None:
        head, source = prefix(run), _source(run.role, run.replica)
        shown = [self._mask(as_shown(line)) for line in run.lines]
        for level, lines in by_level(shown):
            for line in lines:
                first, *others = _pieces(line)
                self._add(source, f"{head} {first}", _LEVELS[level], run.time)
                for piece in others:
                    self._add(source, f"{head} …{piece}", _LEVELS[level], run.time)

    def _add(self, source: str, line: str, level: int, time: float) -> None:
        if source in self._shown and self._is_shown(source, line):
            return
        waiting = self._sources.setdefault(source, _Waiting())
        size = _json_bytes(line)
        if waiting.bytes + size > MAX_RECORD_BYTES:
            self._deliver_source(source, waiting)
        if not waiting.lines:
            self._oldest = min(self._oldest, self._clock())
        waiting.lines.append(_Line(level, line, time))
        waiting.bytes += size

    def _is_shown(self, source: str, line: str) -> bool:
        shown = self._shown[source]
        if source.endswith(REPORTS):
            if line in shown:
                shown.remove(line)
                return True
            return False
        lines = line.split("\n")
        if list(islice(shown, len(lines))) != lines:
            del self._shown[source]
            return False
        for _ in lines:
            shown.popleft()
        return True

    def _deliver_source(self, source: str, waiting: _Waiting) -> None:
        lines, waiting.lines, waiting.bytes = waiting.lines, [], 0
        for level, run in _by_few_levels(lines):
            waiting.last = max(run[0].time, waiting.last + STEP_S)
            text = "\n".join(line.text for line in run)
            self._deliver(Record(level, text, waiting.last, source, len(run)))


def _source(role: str, replica: int) -> str:
    return f"{role}.{replica}"


def _by_few_levels(lines: list[_Line]) -> Iterator[tuple[int, list[_Line]]]:
    runs = [(level, list(run)) for level, run in groupby(lines, lambda line: line.level)]
    if len(runs) <= MAX_LEVELS:
        yield from runs
    else:
        yield max(level for level, _ in runs), lines


def _pieces(line: str) -> list[str]:
    """Cut a line that no record can hold; bytes as JSON do not follow from characters, so by halves."""
    if len(line) * 12 <= MAX_RECORD_BYTES or _json_bytes(line) <= MAX_RECORD_BYTES // 2:
        return [line]
    middle = len(line) // 2
    return _pieces(line[:middle]) + _pieces(line[middle:])


def _json_bytes(line: str) -> int:
    return len(json.dumps(line))
