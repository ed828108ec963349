"""What `follow` yields: typed events, in order, in batches that carry a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from torchx_core.specs import AppState, AppStatus, Usage

__all__ = [
    "REPORTS",
    "AppEvent",
    "Batch",
    "Link",
    "LogLine",
    "LogLines",
    "LogsLost",
    "Metric",
    "Progress",
    "ReplicaChanged",
    "Report",
    "Result",
    "StateChanged",
    "StreamName",
    "UsageSample",
]

StreamName: TypeAlias = Literal["stdout", "stderr"]


class LogLine(NamedTuple):
    """One line of one replica, for those who want lines one at a time."""

    role: str
    replica: int
    attempt: int
    stream: StreamName
    text: str
    """The line without its newline; undecodable bytes are U+FFFD, ``\\r`` is kept."""
    time: float
    """When it was written, in seconds since the epoch."""
    eol: bool = True
    """False: no newline followed, so this is a piece of a very long line or an unfinished last line."""


class LogLines(NamedTuple):
    """A run of consecutive lines of one replica and stream: the unit that makes following fast."""

    role: str
    replica: int
    attempt: int
    stream: StreamName
    lines: tuple[str, ...]
    time: float
    eol: bool = True
    """Whether the last of the lines ended in a newline."""

    def each(self) -> Iterator[LogLine]:
        """Yield the run line by line."""
        role, replica, attempt, stream, lines, time, eol = self
        last = len(lines) - 1
        for i, text in enumerate(lines):
            yield LogLine(role, replica, attempt, stream, text, time, eol or i < last)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChanged:
    """A replica started or ended an attempt."""

    role: str
    replica: int
    attempt: int
    state: AppState
    time: float
    exit_code: int | None = None
    signal: str | None = None
    msg: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """The app's state changed; the terminal one is the last event of a stream.

    An app that is being cancelled is RUNNING, and ``msg`` is ``stopping: REASON``. ``status`` is set on the
    terminal event only.
    """

    state: AppState
    time: float
    msg: str = ""
    status: AppStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The app said how far it is (``torchx_core.runtime.report_progress``)."""

    role: str
    replica: int
    attempt: int
    fraction: float
    message: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The app reported a number (``torchx_core.runtime.report_metric``)."""

    role: str
    replica: int
    attempt: int
    name: str
    value: float
    step: int | None
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The app handed back a JSON value (``torchx_core.runtime.report_result``); the last one counts."""

    role: str
    replica: int
    attempt: int
    value: object
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The app said where to look for more (``torchx_core.runtime.report_link``).

    ``target`` is an address, a path or an id, as the app wrote it: only an address can be shown as a link.
    """

    role: str
    replica: int
    attempt: int
    name: str
    target: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsLost:
    """Output that the backend really lost (full disk, killed supervisor)."""

    role: str
    replica: int
    attempt: int
    size_bytes: int | None
    """How much, or None when nobody can know."""
    reason: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """What a replica used when somebody looked; only whoever follows with ``usage=True`` gets any.

    It is of the present: following again from a cursor brings new ones, and none from before.
    """

    role: str
    replica: int
    attempt: int
    usage: Usage
    """Of this attempt alone."""
    time: float


Report: TypeAlias = Progress | Metric | Result | Link
REPORTS: Final[Mapping[object, type[Report]]] = {
    "progress": Progress,
    "metric": Metric,
    "result": Result,
    "link": Link,
}
"""By the ``type`` that the line of a report says, whose other fields are the event's."""

AppEvent: TypeAlias = LogLines | ReplicaChanged | StateChanged | Report | LogsLost | UsageSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some consecutive events, and the place in the stream right after them.

    Following again from ``cursor`` yields what comes next: nothing repeated, nothing skipped.
    A batch without events is a tick (see ``tick_s`` of ``follow``).
    """

    events: tuple[AppEvent, ...]
    cursor: str
    answered: bool = True
    """Whether the scheduler says that there is no more just now; false for a tick while it is still asked."""

    @property
    def final_status(self) -> AppStatus | None:
        """The app's full status, when the batch has the terminal event; that is its last."""
        last = self.events[-1] if self.events else None
        return last.status if isinstance(last, StateChanged) else None

    def lines(self) -> Iterator[LogLine]:
        """Yield the log lines of the batch one at a time."""
        for event in self.events:
            if isinstance(event, LogLines):
                yield from event.each()
