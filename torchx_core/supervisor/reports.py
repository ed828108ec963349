"""Reads what a replica reports: JSON lines from the pipe named in ``TORCHX_REPORT_FILE``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from io import FileIO
from typing import cast

from torchx_core.supervisor.records import Json
from torchx_core.supervisor.spawn import pipe_size

MAX_REPORT = 1 << 20
"""Bytes of one report; a longer one is refused aloud."""

_READ_SIZE = 1 << 16
_YEAR_10000 = 253_402_300_800
"""Seconds since the epoch, UTC: of what comes later there is no date."""


class ReportPipe:
    """The reading end of one attempt's report pipe.

    It is a FIFO, so that a report wakes the supervisor; writers use it like a file opened for appending.
    Opened for reading and writing, so that neither side ever waits for the other to open it.
    """

    def __init__(self, path: str) -> None:
        """Create the pipe; its file system must be able to hold one (the log directory's may not).

        What an earlier attempt has put there gives way: a regular file cannot wake anybody.
        """
        self.path = path
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            self.remove()
            os.mkfifo(path, 0o600)
        self.pipe: FileIO = FileIO(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._rest = b""

    def read(self) -> list[bytes]:
        """Return the complete lines that have arrived."""
        return self._lines(self.pipe.read(_READ_SIZE) or b"")

    def _lines(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_REPORT:
            lines.append(self._rest)
            self._rest = b""
        return [line for line in lines if line.strip()]

    def remove(self) -> None:
        """Take the name away; the descriptor stays."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def read_all(self) -> list[bytes]:
        """Return the complete lines that are there now, and a last one without its newline.

        What was written by now fits into the pipe; whoever goes on writing is not waited for.
        """
        lines: list[bytes] = []
        left = max(pipe_size(self.pipe), _READ_SIZE)
        while left > 0 and (data := self.pipe.read(min(left, _READ_SIZE))):
            lines += self._lines(data)
            left -= len(data)
        if self._rest.strip():
            lines.append(self._rest)
        return lines


class BadReport(Exception):
    """A line that is no report; says why."""


def parse_report(line: bytes) -> Json:
    """Return the report as ``{"type": "progress" | "metric" | "result" | "link", …}`` with checked fields.

    When it was made is not among them: the supervisor notes when it has arrived, in line with the output.

    Raises:
        BadReport: The line is not one.
    """
    return parse_timed_report(line)[0]


def parse_timed_report(line: bytes) -> tuple[Json, float | None]:
    """Return the report as `parse_report` does, and when it was made by the program's own clock.

    That is in seconds since the epoch; None where the program does not say, or says what is no time of day.

    Raises:
        BadReport: The line is not a report.
    """
    if len(line) > MAX_REPORT:
        raise BadReport(f"longer than {MAX_REPORT} bytes")
    try:
        report = cast("object", json.loads(line))
    except (ValueError, RecursionError) as err:
        raise BadReport(f"not JSON ({err})") from err
    if not isinstance(report, dict):
        raise BadReport("not a JSON object")
    report = cast("Json", report)
    try:
        return _checked(report), _time(report)
    except (OverflowError, RecursionError) as err:
        raise BadReport(str(err)) from err


def _checked(report: Json) -> Json:
    kind = report.get("type")
    if kind == "result":
        return {"type": kind, "value": _strict(report.get("value"))}
    if kind == "progress":
        message = str(report.get("message") or "")
        return {"type": kind, "fraction": _number(report, "fraction"), "message": message}
    if kind == "metric":
        step = report.get("step")
        if step is not None and not isinstance(step, int):
            raise BadReport(f"step must be a whole number: {step!r}")
        return {
            "type": kind,
            "name": str(report.get("name")),
            "value": _number(report, "value"),
            "step": step,
        }
    if kind == "link":
        return {"type": kind, "name": str(report.get("name")), "target": str(report.get("target"))}
    raise BadReport(f"type must be progress, metric, result or link: {kind!r}")


def _time(report: Json) -> float | None:
    value = report.get("time")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _YEAR_10000:
        return None
    return float(value)


def _strict(value: object) -> object:
    """Return the value with what JSON has no number for (NaN, infinities) as None.

    Python's ``json`` writes such numbers; databases and other languages refuse them.
    """
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def _number(report: Json, key: str) -> float:
    value = report.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadReport(f"{key} must be a number: {value!r}")
    return float(value)
