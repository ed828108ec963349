"""What a program prints, in files: as it came, and in whole lines with an index."""

from __future__ import annotations

import os
import time
from typing import Callable  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import patiently, wait_for_room, write_all
from torchx_core.schedulers.slurm.node.parts import COMBINED, INDEX, RECORD, Kept, part_path

STDOUT, STDERR = 1, 2
MAX_LINE = 1 << 16
"""Longer lines are cut into pieces."""
_CONTINUED = 0b1000_0000
"""The upper bits of a byte that goes on with a letter of UTF-8."""


class Output:
    """The files of one attempt's output."""

    def __init__(self, folder: str, wait_for_room: Callable[[], None], limit: int | None = None) -> None:
        """Make them, once there is room for them.

        Args:
            folder: The attempt's directory; its name is the attempt's number.
            wait_for_room: Called again and again while later on the disk is full.
            limit: About how many bytes of the replica's output are kept, over all attempts; None for all.
        """
        self._combined = _Log(folder, COMBINED, wait_for_room, limit and limit // 2)
        self._raw = {
            stream: _Log(folder, name, wait_for_room, limit and limit // 4)
            for stream, name in ((STDOUT, "stdout.log"), (STDERR, "stderr.log"))
        }
        self._rest = {STDOUT: b"", STDERR: b""}

    def take(self, stream: int, data: bytes) -> None:
        """Take what a program wrote; whole lines are shown at once."""
        self._raw[stream].write(data)
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
        for log in (self._combined, *self._raw.values()):
            log.close()

    def _show(self, stream: int, data: bytes, *, eol: bool) -> None:
        self._combined.write(data)
        self._combined.note(stream, eol=eol)


class _Log:
    """One log: a file, or with a limit the parts of it that are kept; the combined one has an index."""

    def __init__(self, folder: str, name: str, wait: Callable[[], None], most: int | None) -> None:
        self._folder = folder
        self._name = name
        self._wait = wait
        self._end = 0
        self._runs = 0
        self._kept = None
        if most is not None:
            self._kept = Kept(os.path.dirname(folder), int(os.path.basename(folder)), name, most)
        self._open(wait_for_room)

    def _open(self, wait: Callable[[], None]) -> None:
        """Begin a part, which is found by its index: that comes last."""
        self._begin, self._size = self._end, 0
        self._text = _made(part_path(self._folder, self._name, self._end), wait)
        if self._name == COMBINED:
            self._index = _made(part_path(self._folder, INDEX, self._end, self._runs), wait)

    def write(self, data: bytes) -> None:
        """Write all of it into one part."""
        if self._kept is not None and self._size and self._size + len(data) > self._kept.part_size:
            self.close()
            self._kept.store(self._folder, self._begin)
            self._open(self._wait)
        write_all(self._text, data, self._wait)
        self._end += len(data)
        self._size += len(data)

    def note(self, stream: int, *, eol: bool) -> None:
        """Have the index say what has just been written: whole lines of that stream, or a piece of one."""
        write_all(self._index, RECORD.pack(time.time(), self._end, stream, eol), self._wait)
        self._runs += 1
        self._size += RECORD.size

    def close(self) -> None:
        """Write no more."""
        os.close(self._text)
        if self._name == COMBINED:
            os.close(self._index)


def _made(path: str, wait: Callable[[], None]) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return patiently(lambda: os.open(path, flags, 0o600), wait)


def _letter_start(data: bytes, place: int) -> int:
    """Return where the letter begins that the place is in: UTF-8 takes up to four bytes for one."""
    for start in range(place, place - 4, -1):
        if data[start] & 0b1100_0000 != _CONTINUED:
            return start
    return place  # not UTF-8
