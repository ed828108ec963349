"""A log in parts: with a limit, its beginning and its latest part stay, and what lies between is deleted.

Whole files are deleted, as few shared file systems can free a part of one. The name of each says where in the
attempt's output it begins, so that a reader can tell from the names how much has gone: ``combined.log`` is
followed by ``combined.log.000000000065536``, and its ``index`` by ``index.000000000065536.000000001024``,
before which there were so many runs of lines.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from torchx_core.schedulers.slurm.node.files import refresh
from torchx_core.supervisor.reading import DamagedFile, read_part

RECORD = struct.Struct("<dqBB6x")
"""When, where the run ends in ``combined.log``, stream (1 stdout, 2 stderr), whether a newline ends it."""

_LATER = re.compile(r"\.([0-9]{15})(?:\.([0-9]{12}))?")
"""What follows the log's name in that of a later part."""
INDEX = "index"
COMBINED = "combined.log"


class Part(NamedTuple):
    """One file of a log, or of its index."""

    offset: int
    """Where in the attempt's output it begins."""
    runs: int
    """How many runs of lines come before it; only an index says it."""
    path: str


def part_path(folder: str, name: str, offset: int, runs: int | None = None) -> str:
    """Return where the part lies that begins there; the first one has the name of the log."""
    numbers = "" if not offset else f".{offset:015}" if runs is None else f".{offset:015}.{runs:012}"
    return os.path.join(folder, name + numbers)


def parts_of(folder: str, name: str) -> list[Part]:
    """Return what is there of an attempt's log, or of its index, in order."""
    refresh(folder)
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [Part(0, 0, os.path.join(folder, name))] if name in entries else []
    for entry in entries:
        numbers = _LATER.fullmatch(entry[len(name) :]) if entry.startswith(name) else None
        if numbers is not None:
            found.append(Part(int(numbers[1]), int(numbers[2] or 0), os.path.join(folder, entry)))
    return sorted(found)


class _Stored(NamedTuple):
    """A part that does not grow any more."""

    folder: str
    text: str
    index_part: Part | None
    size: int


class Kept:
    """The parts of one log of a replica, over all its attempts: the oldest go, but for the beginning."""

    def __init__(self, log_dir: str, attempt: int, name: str, most: int) -> None:
        """Find what earlier attempts have left, which may have run on other nodes.

        Args:
            log_dir: The replica's directory.
            attempt: The one that begins.
            name: The log.
            most: How many bytes may stay, about, those of its index included.
        """
        self.part_size: int = most // 8
        """About so much goes into a part, and goes at a time."""
        self._name = name
        self._head_left = most // 4
        self._most = most - most // 4 - self.part_size
        self._size = 0
        self._stored: deque[_Stored] = deque()
        for number in range(attempt):
            folder = os.path.join(log_dir, str(number))
            for part in parts_of(folder, name):
                self.store(folder, part.offset)

    def store(self, folder: str, offset: int) -> None:
        """Take notice of a part that does not grow any more; delete the oldest ones, if that is too much."""
        text, index = part_path(folder, self._name, offset), self._index(folder, offset)
        size = file_size(text) + (0 if index is None else file_size(index.path))
        if self._head_left > self.part_size // 2:
            self._head_left -= size
            return
        self._stored.append(_Stored(folder, text, index, size))
        self._size += size
        while self._size > self._most:
            self._delete(self._stored.popleft())

    def _delete(self, stored: _Stored) -> None:
        """Delete a part, its index first: a reader would wait for text that an index tells of.

        A task that dies in between leaves text that nobody reads, which the next attempt finds.
        """
        self._size -= stored.size
        is_last = not self._stored or self._stored[0].folder != stored.folder
        if stored.index_part is not None:
            if is_last and not _leave_end(stored.folder, stored.index_part):
                return
            _delete(stored.index_part.path)
        _delete(stored.text)

    def _index(self, folder: str, offset: int) -> Part | None:
        """Return the index of the part, if it has one."""
        if self._name != COMBINED:
            return None
        return next((part for part in parts_of(folder, INDEX) if part.offset == offset), None)


def _leave_end(folder: str, index: Part) -> bool:
    """Have an empty part of the index say where an attempt's output has ended; return whether it does."""
    runs = file_size(index.path) // RECORD.size
    if not runs:
        return False
    try:
        end = RECORD.unpack(read_part(index.path, (runs - 1) * RECORD.size, RECORD.size))[1]
        path = part_path(folder, INDEX, end, index.runs + runs)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except (OSError, DamagedFile, struct.error):
        return False  # as on a full disk: the next attempt will find the part still there
    return True


def file_size(path: str) -> int:
    """Return how many bytes it has; none if somebody has deleted it."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _delete(path: str) -> None:
    with suppress(FileNotFoundError):  # somebody has deleted it by hand
        os.unlink(path)
