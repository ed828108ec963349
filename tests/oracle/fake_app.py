"""An app of the fake scheduler that carries out a witness's script, and notes what it did."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from truth import Copy, Said
from witness import line

from torchx_core.schedulers.events import StreamName
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import machine
from torchx_core.testing import FakeHost
from torchx_core.testing.fake.app import FakeApp
from torchx_core.testing.steps import (
    Exit,
    Hold,
    Print,
    Raise,
    ReportMetric,
    ReportProgress,
    ReportResult,
    Step,
)

__all__ = ["NotedApp", "NotedHost"]

_Noted = tuple[Step, Callable[[Copy], None]]
"""A step, and what is true when it has been carried out."""
_STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")


class NotedApp(FakeApp):
    """Its copies are the truth of a trial: what was carried out, whatever the stream then shows of it."""

    def __init__(self, *arguments: Any) -> None:
        """Start nothing yet; the script's file is named by the replicas' arguments, as a witness's is."""
        super().__init__(*arguments)
        self.truth: list[Copy] = []
        self._running: dict[int, Copy] = {}
        self._notes: dict[int, deque[Callable[[Copy], None]]] = {}
        self._order = count(1.0)
        self._scripts = [list(script) for script in self._scripts]
        self._attempts = _read_script(Path(self.record.plan.replicas[0].argv[4]) / "script.json")

    def _start(self, replica: int, attempt: int) -> None:
        role, index = self.state.replicas[replica].role, self.state.replicas[replica].replica_id
        number = sum(copy.key == (role, index, attempt) for copy in self.truth)
        copy = Copy(role, index, attempt, number, pid=1, started=next(self._order))
        copy.overlap = replica in self._running
        self.truth.append(copy)
        self._running[replica] = copy
        attempts = self._attempts[f"{role}/{index}"]
        steps = _Translation(copy, attempts[min(attempt, len(attempts) - 1)]).steps
        self._scripts[replica] = [step for step, _ in steps]  # type: ignore[index]  # a list, see above
        self._notes[replica] = deque(note for _, note in steps)
        super()._start(replica, attempt)

    def _take_step(self, replica: int, left: deque[Step]) -> None:
        copy, before = self._running[replica], len(left)
        notes = self._notes[replica]
        if left and isinstance(left[0], Exit | Raise):
            notes[0](copy)  # before the end is told of
        elif not left:
            copy.exit_code = 0
        super()._take_step(replica, left)
        if len(left) < before and notes and replica in self._running:
            notes.popleft()(copy)
            copy.last = next(self._order)

    def _exit(self, replica: int, code: int | None, signal: str | None = None) -> None:
        copy = self._running.pop(replica, None)
        if copy is not None:
            copy.last = next(self._order)
            if (copy.exit_code, copy.signal) != (code, signal):
                copy.told = True  # somebody else ended it
        super()._exit(replica, code, signal)

    def kill(self, signal: str, number: int) -> None:
        """Have one of the running replicas die of a signal from outside."""
        if running := sorted(self._running):
            replica = running[number % len(running)]
            self._running[replica].told = False
            self._exit(replica, None, signal)

    def lose(self) -> None:
        """Have the supervisor die, and with it all that runs."""
        if not self.ended:
            self._left.clear()
            self._running.clear()
            self._todo.clear()
            self._feed(machine.Lost(self._clock(), "the supervisor was killed"))
            if not any(getattr(event, "status", None) for event in self.stream):
                self._finish()


class NotedHost(FakeHost):
    """Where such apps live."""

    def create(self, record: AppRecord) -> NotedApp:
        """Return a new app."""
        return NotedApp(record, [self.script(replica) for replica in record.plan.replicas], self.clock)


@cache
def _read_script(path: Path) -> dict[str, list[list[list[Any]]]]:
    script: dict[str, list[list[list[Any]]]] = json.loads(path.read_text())
    return script


class _Translation:
    """Turns a witness's steps into those of the fake scheduler; time and grandchildren it does not have."""

    def __init__(self, copy: Copy, script: list[list[Any]]) -> None:
        self._who = f"{copy.role}/{copy.replica}/{copy.attempt}"
        self._next: dict[str, int] = {}
        self._is_deaf = any(name == "deaf" for name, *_ in script)
        self.steps = [step for name, *args in script for step in getattr(self, f"_{name}", _nothing)(*args)]

    def _said(self, stream: str, kind: str, size: int, *, eol: bool = True, whole: bool = True) -> Said:
        number = self._next[stream] = self._next.get(stream, -1) + 1
        text = line(self._who, stream, number, kind, min(size, 5000)).decode("utf-8", "replace")
        return Said(stream, number, text, eol, sure=True, whole=whole)

    def _print(
        self, stream: StreamName, total: int, per_write: int, size: int, kind: str = "plain"
    ) -> Iterator[_Noted]:
        total = min(total, 60)
        for first in range(0, total, per_write):
            lines = [self._said(stream, kind, size) for _ in range(min(per_write, total - first))]
            yield Print("\n".join(each.text for each in lines), stream), _says(*lines)

    def _both(self, count: int) -> Iterator[_Noted]:
        for i in range(count):
            stream = _STREAMS[i % 2]
            said = self._said(stream, "plain", 8)
            yield Print(said.text, stream), _says(said)

    def _cut(self, stream: StreamName, size: int, at: int, kind: str) -> Iterator[_Noted]:
        said = self._said(stream, kind, size, whole=False)
        yield Print(said.text[:at], stream, eol=False), _says(said._replace(sure=False))
        yield Print(said.text[at:], stream), _makes_sure

    def _open(self, stream: StreamName) -> Iterator[_Noted]:
        said = self._said(stream, "plain", 8, eol=False)
        yield Print(said.text, stream, eol=False), _says(said)

    def _progress(self, fraction: float) -> Iterator[_Noted]:
        message = f"{self._who} is at {fraction}"
        report = {"type": "progress", "fraction": fraction, "message": message}
        yield ReportProgress(fraction, message), _reports(report)

    def _metric(self, step: int) -> Iterator[_Noted]:
        value = 1.0 / (step + 1)
        report = {"type": "metric", "name": "loss", "value": value, "step": step}
        yield ReportMetric("loss", value, step), _reports(report)

    def _result(self, value: object) -> Iterator[_Noted]:
        report = {"type": "result", "value": [self._who, value]}
        yield ReportResult([self._who, value]), _reports(report)

    def _hold(self) -> Iterator[_Noted]:
        yield Hold(ignore_term=self._is_deaf), lambda _: None

    def _exit(self, code: int) -> Iterator[_Noted]:
        yield Exit(code), _ends(code, None)

    def _die(self, signal: str) -> Iterator[_Noted]:
        yield Raise(signal), _ends(None, signal)


def _nothing(*_: object) -> Iterator[_Noted]:
    return iter(())


def _says(*lines: Said) -> Callable[[Copy], None]:
    return lambda copy: copy.said.extend(lines)


def _makes_sure(copy: Copy) -> None:
    copy.said[-1] = copy.said[-1]._replace(sure=True)


def _reports(report: dict[str, Any]) -> Callable[[Copy], None]:
    return lambda copy: copy.reports.append((report, True))


def _ends(code: int | None, signal: str | None) -> Callable[[Copy], None]:
    def note(copy: Copy) -> None:
        copy.exit_code, copy.signal = code, signal

    return note
