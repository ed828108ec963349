"""Folds an app's events into increments of its page."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final, assert_never, final

from torchx_core.display.levels import by_level
from torchx_core.display.masking import mask_status
from torchx_core.display.points import Points
from torchx_core.display.post_mortem import advise, headline
from torchx_core.display.tails import Tails
from torchx_core.display.text import Happening, as_shown, cut, describe
from torchx_core.page.document import (
    AttemptDocument,
    CurveDocument,
    FailureDocument,
    Increment,
    LineRun,
    app_mask,
    services_of,
)
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
    UsageSample,
)
from torchx_core.specs import NONE, AppDef, AppHandle, AppState, AppStatus, ReplicaStatus
from torchx_core.specs.failure import find_failure
from torchx_core.specs.failure_summary import ending
from torchx_core.specs.structured_error import parse_structured_error

__all__ = ["MAX_CHARS", "MAX_LINES", "Fold"]

MAX_LINES: Final = 200_000
"""In one increment: the last ones; a page keeps as many."""
MAX_CHARS: Final = 64_000_000
"""Likewise, in characters."""
LINE_CHARS: Final = 10_000
MAX_CURVES: Final = 1000
MAX_POINTS: Final = 4096
"""Of one curve; twice as many are thinned out to these."""
MAX_LINKS: Final = 100
RESULT_CHARS: Final = 50_000
FAILURE_LINES: Final = 50
PEERS: Final = 3
PEER_LINES: Final = 10
MAX_OTHERS: Final = 20
_LIVE_FIGURES: Final = ("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes", "processes")
"""Of `Usage`, what is drawn while the app runs."""
_FINAL_FIGURES: Final = ("cpu_s", "memory_peak_bytes")
"""What a replica's row has in the end."""


@final
class Fold:
    """Takes events in order, and gives what is new since it was last asked.

    Increments say what is, not what to do with what was before: who has taken those up to a cursor may go on
    with those of another fold that begins there.
    """

    def __init__(self, app: AppDef, app_handle: AppHandle) -> None:
        """Know nothing yet."""
        self._app = app
        self._handle = app_handle
        self._mask: Final = app_mask(app)
        self._tails: Final = Tails(self._mask)
        self._lines = _Lines()
        self._new = Increment()
        self._attempts: dict[tuple[str, int], AttemptDocument] = {}
        self._curves: dict[tuple[str, str, int], Points] = {}
        self._usage: dict[tuple[str, str, int], Points] = {}
        self._links: dict[tuple[str, str], str] = {}
        self.over: bool = False
        """Whether the last event of the app's stream was taken."""

    def take(self, event: AppEvent) -> None:
        """Learn what happened next."""
        match event:
            case LogLines():
                self._take_lines(event)
            case ReplicaChanged():
                self._take_change(event)
            case StateChanged():
                self._take_state(event)
            case Metric():
                self._take_metric(event)
            case Progress():
                fraction = min(1.0, max(0.0, event.fraction)) if event.fraction == event.fraction else 0.0
                report = (_name(event), event.attempt, fraction, self._said(event.message), event.time)
                self._new.setdefault("progress", []).append(report)
            case Result():
                self._take_result(event.value)
            case Link():
                self._take_link(event)
            case LogsLost():
                self._new.setdefault("notices", []).append((_name(event), describe(event), event.time))
            case UsageSample():
                self._take_usage(event)
            case _:
                assert_never(event)

    def take_status(self, status: AppStatus) -> None:
        """Learn what the app's status says, which knows more of replicas than events do."""
        status = mask_status(status, self._mask)
        self._new["state"] = str(status.state)
        self._new["over"] = status.is_terminal()
        self._new["restarts"] = max(0, status.num_restarts)
        if status.msg.strip() and status.msg != NONE:
            self._new["message"] = self._said(status.msg)
        for role in status.roles:
            for replica in role.replicas:
                self._take_replica(replica)
        if services := services_of(self._app, status):
            self._new["services"] = services
        if status.result is not None:
            self._take_result(status.result)
        if status.is_terminal() and status.state is not AppState.SUCCEEDED:
            self._new["failure"] = self._failure(status)

    def drain(self) -> Increment:
        """Return what is new, and forget it."""
        new = self._new
        self._new = Increment()
        if self._attempts:
            new["attempts"] = list(self._attempts.values())
        if self._curves:
            new["curves"] = [_curve(key, points) for key, points in self._curves.items()]
        if self._usage:
            new["usage"] = [_curve(key, points) for key, points in self._usage.items()]
        if self._links:
            links = self._links.items()
            new["links"] = [(replica, self._said(name), target) for (replica, name), target in links]
        if self._lines.runs:
            new["lines"] = list(self._lines.runs)
        if self._lines.left_out:
            new["left_out"] = self._lines.left_out
        self._lines, self._attempts, self._curves, self._usage, self._links = _Lines(), {}, {}, {}, {}
        return new

    def _take_lines(self, run: LogLines) -> None:
        self._tails.remember(run)
        shown = [cut(self._mask(as_shown(line, colours=False)), LINE_CHARS) for line in run.lines]
        for level, lines in by_level(shown):
            self._lines.add(
                (_name(run), run.attempt, int(run.stream == "stderr"), level, round(run.time, 3), lines)
            )

    def _take_change(self, event: ReplicaChanged) -> None:
        attempt = self._attempt(_name(event), event.attempt)
        attempt["state"] = str(event.state)
        attempt["start" if event.state is AppState.RUNNING else "end"] = event.time
        if ending := _ending(event):
            attempt["exit"] = ending
        if event.msg:
            attempt["msg"] = self._said(event.msg)

    def _take_state(self, event: StateChanged) -> None:
        change = (str(event.state), event.time, self._said(event.msg))
        self._new.setdefault("states", []).append(change)
        if event.status is not None:
            self.over = True
            self.take_status(event.status)

    def _take_metric(self, event: Metric) -> None:
        key = (event.name, _name(event), event.attempt)
        if key in self._curves or len(self._curves) < MAX_CURVES:
            self._curves.setdefault(key, Points(MAX_POINTS)).add(event.step, event.value, event.time)

    def _take_usage(self, event: UsageSample) -> None:
        for figure in _LIVE_FIGURES:
            value = getattr(event.usage, figure)
            if value is not None:
                key = (figure, _name(event), event.attempt)
                self._usage.setdefault(key, Points(MAX_POINTS)).add(None, value, event.time)

    def _take_link(self, event: Link) -> None:
        key = (_name(event), event.name)
        if key in self._links or len(self._links) < MAX_LINKS:
            self._links[key] = self._said(event.target)

    def _take_result(self, value: object) -> None:
        text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
        self._new["result"] = cut(self._mask(text), RESULT_CHARS)

    def _take_replica(self, replica: ReplicaStatus) -> None:
        attempt = self._attempt(f"{replica.role}/{replica.id}", replica.attempt)
        attempt["state"] = str(replica.state)
        if replica.started_at is not None:
            attempt["start"] = replica.started_at
        if replica.ended_at is not None:
            attempt["end"] = replica.ended_at
        if usage := [(name, value) for name in _FINAL_FIGURES if (value := getattr(replica.usage, name))]:
            attempt["usage"] = usage
        texts = {"exit": _ending(replica), "host": replica.hostname, "log_dir": replica.log_dir}
        for name, text in {**texts, "msg": self._said(replica.msg)}.items():
            if text:
                attempt[name] = text  # type: ignore[literal-required]  # the four of them are texts

    def _attempt(self, replica: str, number: int) -> AttemptDocument:
        return self._attempts.setdefault((replica, number), {"replica": replica, "attempt": number})

    def _failure(self, status: AppStatus) -> FailureDocument:
        failure = find_failure(self._tails.explain(status))
        first = failure.replica if failure else None
        others = [replica for replica in status.failed_replicas() if replica is not first]
        of_the_app = None if failure else parse_structured_error(status.structured_error_msg)
        text = failure.text if failure else of_the_app.text if of_the_app else ""
        names = ", ".join(f"{r.role}/{r.id} ({ending(r)})" for r in others[:MAX_OTHERS])
        more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
        return {
            "headline": headline(status, failure),
            "replica": f"{first.role}/{first.id}" if first else "",
            "message": self._said(first.msg if first else status.msg),
            "error": self._said(text),
            "others": names + more,
            "log_dir": first.log_dir if first else "",
            "last": self._last_lines(first) if first else [],
            "advice": list(advise(status, self._handle)),
        }

    def _last_lines(self, first: ReplicaStatus) -> list[tuple[str, list[str]]]:
        own = self._tails.of(first.role, first.id)[-FAILURE_LINES:]
        last = [(f"{first.role}/{first.id}", own)] if own else []
        for role, number in self._tails.others(first.role, first.id)[:PEERS]:
            last.append((f"{role}/{number}", self._tails.of(role, number)[-PEER_LINES:]))
        return [(name, [as_shown(line, colours=False) for line in lines]) for name, lines in last]

    def _said(self, text: str) -> str:
        """Return what a program has said, without secrets and without what is for terminals."""
        return "" if text == NONE else self._mask(_as_shown_text(text))


class _Lines:
    """Runs of lines; the oldest go when there are too many."""

    def __init__(self) -> None:
        self.runs: deque[LineRun] = deque()
        self.left_out = 0
        self._lines = self._chars = 0

    def add(self, run: LineRun) -> None:
        self.runs.append(run)
        self._lines += len(run[-1])
        self._chars += sum(map(len, run[-1]))
        while len(self.runs) > 1 and (self._lines > MAX_LINES or self._chars > MAX_CHARS):
            lines = self.runs.popleft()[-1]
            self.left_out += len(lines)
            self._lines -= len(lines)
            self._chars -= sum(map(len, lines))


def _as_shown_text(text: str) -> str:
    """Return each line of the text as `as_shown` does, without colours."""
    return "\n".join(as_shown(line, colours=False) for line in text.split("\n"))


def _name(event: LogLines | Happening) -> str:
    return f"{event.role}/{event.replica}"


def _ending(replica: ReplicaChanged | ReplicaStatus) -> str:
    if replica.signal:
        return replica.signal
    return "" if replica.exit_code is None else str(replica.exit_code)


def _curve(key: Sequence[object], points: Points) -> CurveDocument:
    name, replica, attempt = key
    return {
        "name": str(name),
        "replica": str(replica),
        "attempt": int(str(attempt)),
        "x": [point.x for point in points.points],
        "y": [point.y for point in points.points],
        "t": [round(point.time, 3) for point in points.points],
        "steps": points.steps,
        "count": points.count,
    }
