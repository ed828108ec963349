"""The journal: every event of the state machine, one JSON line each, appended before it is acted on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import get_args

from torchx_core.supervisor import machine
from torchx_core.supervisor.reading import DamagedFile, parse_object, read_bytes
from torchx_core.supervisor.records import dumps
from torchx_core.supervisor.shape import Misshapen, build

MAX_JOURNAL_BYTES = 1 << 30
"""An event may carry an error file, and an app may be restarted thousands of times."""

_TYPES: dict[str, type[machine.Event]] = {kind.__name__: kind for kind in get_args(machine.Event)}


def encode_event(event: machine.Event) -> bytes:
    """Return the event's line."""
    return dumps({"event": type(event).__name__, **event._asdict()}) + b"\n"


def decode_event(line: bytes) -> machine.Event | None:
    """Return the line's event, or None when the line is torn or no event of this version."""
    try:
        fields = parse_object(line, "")
    except DamagedFile:
        return None
    kind = _TYPES.get(str(fields.pop("event", "")))
    try:
        return build(kind, fields) if kind else None
    except Misshapen:
        return None


def read_journal(path: str) -> Iterator[machine.Event]:
    """Yield the events on disk; a last line without its newline is still being written and is left out.

    Raises:
        DamagedFile: It is no journal at all.
    """
    try:
        data = read_bytes(path, MAX_JOURNAL_BYTES)
    except FileNotFoundError:
        return
    yield from decode_events(data[: data.rfind(b"\n") + 1])


def decode_events(lines: bytes) -> Iterator[machine.Event]:
    """Yield the events of whole lines, without those that are none of this version."""
    for line in lines.splitlines():
        event = decode_event(line)
        if event is not None:
            yield event


class Appender:
    """Appends lines to a file and knows where each one went; a full disk delays lines, in order."""

    def __init__(self, path: str, after: Sequence[Appender] = ()) -> None:
        """Open the file for appending; it is created when absent.

        Args:
            path: The file.
            after: Files this one speaks of: while they wait for space, this one waits as well.
        """
        self._after = after
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._end = os.fstat(self._fd).st_size
        self._backlog: list[bytes] = []
        self._written = self._end

    @property
    def blocked(self) -> bool:
        """Whether lines wait for space."""
        return bool(self._backlog)

    @property
    def deleted(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        """Close the file; what waits is lost."""
        os.close(self._fd)

    def append(self, line: bytes) -> int:
        """Append the line and return its offset; on a full disk it waits in memory."""
        offset = self._end
        self._end += len(line)
        self._backlog.append(line)
        self.retry()
        return offset

    def retry(self) -> None:
        """Write what waits, at its own place, so that a half written line is written over."""
        while self._backlog and not any(other.blocked for other in self._after):
            line = self._backlog[0]
            try:
                if os.pwrite(self._fd, line, self._written) < len(line):
                    return
            except OSError:
                return
            self._written += len(line)
            self._backlog.pop(0)
