"""What a program prints, in files: as it came, and in whole lines with an index."""

from __future__ import annotations

import os
import struct
import time
from typing import Callable  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import patiently, write_all

RECORD = struct.Struct("<dqBB6x")
"""When, where the run ends in ``combined.log``, stream (1 stdout, 2 stderr), whether a newline ends it."""

STDOUT, STDERR = 1, 2
MAX_LINE = 1 << 16
"""Longer lines are cut into pieces."""
_CONTINUED = 0b1000_0000
"""The upper bits of a byte that goes on with a letter of UTF-8."""


class Output:
    """The files of one attempt's output."""

    def __init__(self, folder: str, wait_for_room: Callable[[], None]) -> None:
        self._wait = wait_for_room
        self._combined = self._open(folder, "combined.log")
        self._index = self._open(folder, "index")
        self._raw = {STDOUT: self._open(folder, "stdout.log"), STDERR: self._open(folder, "stderr.log")}
        self._rest = {STDOUT: b"", STDERR: b""}
        self._end = 0

    @staticmethod
    def _open(folder: str, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return patiently(lambda: os.open(os.path.join(folder, name), flags, 0o600))

    def take(self, stream: int, data: bytes) -> None:
        """Take what a program wrote; whole lines are shown at once."""
        write_all(self._raw[stream], data, self._wait)
        whole, newline, rest = (self._rest[stream] + data).rpartition(b"\n")
        if newline:
            self._show(stream, whole + newline, eol=True)
        while len(rest) > MAX_LINE:
            cut = _letter_start(rest, MAX_LINE)
            self._show(stream, rest[:cut], eol=False)
            rest = rest[cut:]
        self._rest[stream] = rest

    def close(self) -> None:
        """Show what no newline has ended."""
        for stream, rest in self._rest.items():
            if rest:
                self._show(stream, rest, eol=False)
        for fd in (self._combined, self._index, *self._raw.values()):
            os.close(fd)

    def _show(self, stream: int, data: bytes, *, eol: bool) -> None:
        write_all(self._combined, data, self._wait)
        self._end += len(data)
        write_all(self._index, RECORD.pack(time.time(), self._end, stream, eol), self._wait)


def _letter_start(data: bytes, place: int) -> int:
    """Return where the letter begins that the place is in: UTF-8 takes up to four bytes for one."""
    for start in range(place, place - 4, -1):
        if data[start] & 0b1100_0000 != _CONTINUED:
            return start
    return place  # not UTF-8
