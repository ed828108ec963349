"""Keeps the log files of a chatty replica within a limit: the beginning and the latest part stay.

What lies between is freed in place, by holes in the files: a place in a file or in the timeline means the
same before and after, so cursors stay good. It is done in three steps,
in this order, so that a supervisor that dies between two of them leaves nothing that misleads a reader:

1. `records.DROPPED` says which stretch of the timeline loses whose lines, and how many bytes.
2. The timeline's records of those lines become zeros.
3. Their text is freed.

A reader that finds its timeline's records unchanged after it has read their text has read the text itself.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from torchx_core.supervisor import timeline
from torchx_core.supervisor.journal import Appender
from torchx_core.supervisor.reading import DamagedFile, open_regular
from torchx_core.supervisor.records import DROPPED, TIMELINE, replace_whole
from torchx_core.supervisor.timeline import Dropped
from torchx_core.supervisor.tree import libc

if TYPE_CHECKING:
    from torchx_core.supervisor.relay import Outlet, Sink

_LARGEST_STEP: Final = 8 << 20
"""At most so much goes at a time: meanwhile the supervisor does nothing else."""
_MOST_NOTES: Final = 400
"""With more of them, two that follow each other become one: the more has gone, the coarser it is told."""
_BLOCK: Final = 4096
"""A shorter hole frees nothing, so zeros are written there."""
_READ_SIZE: Final = timeline.SIZE << 12
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # <linux/falloc.h>

_Place: TypeAlias = tuple[int, int]
"""Where in the output of a replica: the attempt, and the byte of its log file."""


class _Stretch:
    """What one attempt's file still has between the beginning that stays and its end."""

    __slots__ = ("attempt", "begin", "end", "path")

    def __init__(self, path: str, attempt: int) -> None:
        self.path: str = path
        self.attempt: int = attempt
        self.begin: int = 0
        self.end: int = 0


class _Kept:
    """The files of one name of a replica, one for each attempt that has printed, oldest first."""

    def __init__(self, share: int) -> None:
        self._head_left = share // 4
        self._most = share - share // 4
        self.step: int = min(share // 8, _LARGEST_STEP)
        self.head_end: _Place = (0, 0)
        """The beginning ends here; it is never freed."""
        self.start: _Place = (0, 0)
        """From here on the latest part is kept."""
        self.size: int = 0
        """Bytes of the latest part."""
        self._stretches: deque[_Stretch] = deque()

    def grow(self, outlet: Outlet, attempt: int) -> None:
        """Take notice of what has been written."""
        if not outlet.end:
            return
        if not self._stretches or self._stretches[-1].attempt != attempt:
            self._stretches.append(_Stretch(outlet.path, attempt))
        last = self._stretches[-1]
        grown, last.end = outlet.end - last.end, outlet.end
        if self._head_left > 0:
            self._head_left -= grown
            last.begin = last.end
            self.head_end = self.start = (attempt, last.end)
        else:
            self.size += grown

    @property
    def is_too_much(self) -> bool:
        """Whether a step is due."""
        return self.size >= self._most

    @property
    def is_nearly_too_much(self) -> bool:
        """Whether one will be soon."""
        return self.size >= self._most - self.step // 2

    def drop_step(self) -> Iterator[tuple[str, int, int]]:
        """Let go of the oldest of the latest part; yield path, begin and end of what can be freed."""
        left = self.step
        while left > 0 and self._stretches:
            first = self._stretches[0]
            size = min(left, first.end - first.begin)
            is_over = len(self._stretches) > 1 and first.begin + size == first.end
            if size:
                # The last block of a file that does not grow any more can go as a whole.
                yield first.path, first.begin, first.begin + size + (_BLOCK if is_over else 0)
            first.begin += size
            left -= size
            self.size -= size
            self.start = (first.attempt, first.begin)
            if not is_over:
                break
            self._stretches.popleft()


class _Replica(NamedTuple):
    """One replica's files: half of its limit is for what readers follow, half for the files as printed."""

    combined: _Kept
    raw: dict[int, _Kept]

    @classmethod
    def within(cls, limit: int) -> _Replica:
        return cls(_Kept(limit // 2), {kind: _Kept(limit // 4) for kind in timeline.TEXTS})


class LogLimit:
    """Sees to it that no replica's log files take more than the limit."""

    def __init__(self, app_dir: str, limit_bytes: int, line: Appender) -> None:
        """Free nothing yet: most apps stay far below their limit.

        Args:
            app_dir: The app's directory.
            limit_bytes: What a replica's log files may take together, over all attempts.
            line: The timeline.
        """
        self._dir = app_dir
        self._line = line
        self._replicas: dict[int, _Replica] = {}
        self._limit = limit_bytes
        self._from: dict[int, int] = {}  # by replica: where the timeline may have records that are to go
        self._dropped: list[Dropped] = []
        self._texts: list[tuple[str, int, int]] = []  # path, begin and end of what is to be freed

    def mind(self, sinks: Collection[Sink]) -> None:
        """Free what is too much, now that these have written."""
        if self._line.deleted:
            return  # another app may be in our place by now
        for sink in sinks:
            if sink.replica not in self._replicas:
                self._replicas[sink.replica] = _Replica.within(self._limit)
            replica = self._replicas[sink.replica]
            replica.combined.grow(sink.combined, sink.attempt)
            for kind, outlet in sink.raw.items():
                replica.raw[kind].grow(outlet, sink.attempt)
                while replica.raw[kind].is_too_much:
                    _free(replica.raw[kind].drop_step())
        whose = {sink.replica for sink in sinks}
        while any(self._replicas[k].combined.is_too_much for k in whose) and not self._line.blocked:
            self._drop_lines()

    def _drop_lines(self) -> None:
        """Free a step of every replica that is due, or nearly: the timeline is gone through once for them.

        What cannot be written down on a full disk stays until the next step.
        """
        due = {i: kept for i, (kept, _) in self._replicas.items() if kept.is_nearly_too_much}
        for kept in due.values():
            self._texts.extend(kept.drop_step())
        with suppress(OSError, DamagedFile):
            self._forget(due)
            _free(self._texts)
            self._texts.clear()

    def _forget(self, due: dict[int, _Kept]) -> None:
        """Write down what goes, and take its records out of the timeline.

        Raises:
            OSError, DamagedFile: It cannot be written down, and stays.
        """
        with _opened(os.path.join(self._dir, TIMELINE)) as fd:
            going = _Going(due, self._from)
            going.read(fd)
            dropped = _fewer([*self._dropped, *going.dropped.values()])
            replace_whole(self._dir, DROPPED, {"dropped": [each._asdict() for each in dropped]})
            self._dropped = dropped
            for begin, end in going.runs:
                _free_part(fd, begin, end)
        self._from.update(going.next_from)


class _Going:
    """What goes from the timeline: the records of lines that are let go of, and are still there."""

    def __init__(self, due: dict[int, _Kept], begin: dict[int, int]) -> None:
        self._due = due
        self._begin = min(begin.get(index, 0) for index in due)
        self.dropped: dict[tuple[int, int], Dropped] = {}
        """By replica and attempt."""
        self.runs: list[tuple[int, int]] = []
        """Begin and end of each run of records that follow each other."""
        self.next_from: dict[int, int] = {}
        """By replica: where its first record is that stays."""

    def read(self, timeline_fd: int) -> None:
        """Find all of it."""
        at = self._begin
        while len(self.next_from) < len(self._due) and (data := os.pread(timeline_fd, _READ_SIZE, at)):
            for time_us, offset, size, replica, attempt, kind, *_ in timeline.rows_of(data):
                if kind in timeline.TEXTS and replica in self._due and replica not in self.next_from:
                    kept, place = self._due[replica], (attempt, offset)
                    if place >= kept.start:
                        self.next_from[replica] = at
                    elif place >= kept.head_end:
                        self._take(Dropped(time_us, at, at, size, replica, attempt))
                at += timeline.SIZE
        self.next_from.update(dict.fromkeys(self._due.keys() - self.next_from.keys(), at))

    def _take(self, going: Dropped) -> None:
        begin, end = going.last, going.last + timeline.SIZE
        if self.runs and self.runs[-1][1] == begin:
            begin, _ = self.runs.pop()
        self.runs.append((begin, end))
        before = self.dropped.get(going[-2:])
        self.dropped[going[-2:]] = _joined(before, going) if before else going


def _fewer(dropped: list[Dropped]) -> list[Dropped]:
    """Return them, or, if they are many, one for each two of an attempt."""
    if len(dropped) <= _MOST_NOTES + 2 * len({each[-2:] for each in dropped}):
        return dropped
    merged: list[Dropped] = []
    odd: dict[tuple[int, int], Dropped] = {}
    for each in dropped:
        before = odd.pop(each[-2:], None)
        if before is None:
            odd[each[-2:]] = each
        else:
            merged.append(_joined(before, each))
    return [*merged, *odd.values()]


def _joined(before: Dropped, after: Dropped) -> Dropped:
    return before._replace(last=after.last, size=before.size + after.size)


@contextmanager
def _opened(path: str) -> Generator[int]:
    fd = open_regular(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)


def _free(texts: Iterable[tuple[str, int, int]]) -> None:
    for path, begin, end in texts:
        with suppress(OSError, DamagedFile), _opened(path) as fd:  # somebody may have deleted or moved it
            _free_part(fd, begin, end)


def _free_part(fd: int, begin: int, end: int) -> None:
    """Make zeros of it; the block in which it begins goes with it, if what comes before has gone already."""
    block = begin - begin % _BLOCK
    if not any(os.pread(fd, begin - block, block)):
        begin = block
    if end - begin < _BLOCK:
        os.pwrite(fd, bytes(end - begin), begin)
    else:
        _punch(fd, begin, end)


def _punch(fd: int, begin: int, end: int) -> None:
    """Make a hole, which reads as zeros and takes no space; the file's size stays.

    Source: fallocate(2), ``FALLOC_FL_PUNCH_HOLE``.

    Raises:
        OSError: The file system has no holes.
    """
    at, size = ctypes.c_int64(begin), ctypes.c_int64(end - begin)
    if libc().fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, at, size):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def can_free_parts(directory: str) -> bool:
    """Return whether files in the directory can be freed in part: NFS before 4.2 and FAT cannot.

    Raises:
        OSError: No file can be made there.
    """
    import tempfile  # here: a supervisor has no need of it

    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(_BLOCK))
        file.flush()
        try:
            _punch(file.fileno(), 0, _BLOCK)
        except OSError:
            return False
    return True
