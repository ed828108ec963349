"""Reads what a replica reports: JSON lines from the pipe named in ``TORCHX_REPORT_FILE``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import cast

from torchx_core.supervisor.records import Json

MAX_REPORT = 1 << 20
"""Bytes of one report; a longer one is refused aloud."""


class ReportPipe:
    """The reading end of one attempt's report pipe.

    It is a FIFO, so that a report wakes the supervisor; writers use it like a file opened for appending.
    Opened for reading and writing, so that neither side ever waits for the other to open it.
    """

    def __init__(self, path: str) -> None:
        """Create the pipe; its file system must be able to hold one (the log directory's may not)."""
        self.path = path
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        self.fd: int = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""
        self._dry = False

    def read(self) -> list[bytes]:
        """Return the complete lines that have arrived."""
        try:
            data = self._rest + os.read(self.fd, 1 << 16)
        except BlockingIOError:
            self._dry = True
            return []
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > MAX_REPORT:
            lines.append(self._rest)
            self._rest = b""
        return [line for line in lines if line.strip()]

    def remove(self) -> None:
        """Take the name away; the descriptor stays."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def read_all(self) -> list[bytes]:
        """Return the complete lines until nothing is left, and a last one without its newline."""
        self._dry = False
        lines: list[bytes] = []
        while not self._dry:
            lines += self.read()
        if self._rest.strip():
            lines.append(self._rest)
        return lines


class BadReport(Exception):
    """A line that is no report; says why."""


def parse_report(line: bytes) -> Json:
    """Return the report as ``{"type": "progress" | "metric" | "result", …}`` with checked fields.

    Raises:
        BadReport: The line is not one.
    """
    if len(line) > MAX_REPORT:
        raise BadReport(f"longer than {MAX_REPORT} bytes")
    try:
        value = cast("object", json.loads(line))
    except (ValueError, RecursionError) as err:
        raise BadReport(f"not JSON ({err})") from err
    if not isinstance(value, dict):
        raise BadReport("not a JSON object")
    try:
        return _checked(cast("Json", value))
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
    raise BadReport(f"type must be progress, metric or result: {kind!r}")


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
