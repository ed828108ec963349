"""Carries what replicas print from their pipes to log files and the timeline.

Per replica and attempt it writes ``stdout.log`` and ``stderr.log`` as printed, and ``combined.log`` in
whole lines, so that two streams never meet within a line. What arrives is gathered and written when the
supervisor is idle or has gathered enough; a line is therefore on disk within a few milliseconds and a
fast writer costs few system calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from io import FileIO
from time import monotonic, time
from typing import TYPE_CHECKING

from torchx_core.supervisor import timeline
from torchx_core.supervisor.journal import Appender
from torchx_core.supervisor.timeline import Entry, pack

if TYPE_CHECKING:
    from torchx_core.supervisor.log_limit import LogLimit

MAX_LINE = 1 << 20
"""A longer line is cut into pieces of at most this many bytes, each but the last marked as unfinished."""

READ_SIZE = 1 << 16
FLUSH_AT = 1 << 18
FLUSH_AFTER_S = 0.002
"""What arrives without a pause is written at least this often."""

NAMES = {timeline.STDOUT: "stdout.log", timeline.STDERR: "stderr.log"}


class Outlet:
    """One file that grows at a known place; knows what could not be stored."""

    def __init__(self, path: str) -> None:
        """Open nothing yet: a replica that prints nothing on a stream leaves no descriptor open."""
        self.path = path
        self._fd = -1
        self.end: int = 0

    def write(self, data: bytes) -> bool:
        """Store all of the data, or nothing, and say which; a half written end is written over later."""
        try:
            if self._fd < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
            if os.pwrite(self._fd, data, self.end) < len(data):
                return False
        except OSError:
            return False
        self.end += len(data)
        return True

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Run:
    """Whole lines of one stream that follow each other in combined.log."""

    __slots__ = ("eol", "kind", "parts", "time_us")

    def __init__(self, kind: int, part: bytes, time_us: int, *, eol: bool) -> None:
        """Start a run with its first bytes."""
        self.kind: int = kind
        self.parts: list[bytes] = [part]
        self.time_us: int = time_us
        self.eol: bool = eol


class Channel:
    """One output stream of one attempt: the pipe's reading end and the line not finished yet."""

    def __init__(self, pipe: FileIO, kind: int, sink: Sink) -> None:
        """Read from the pipe, which never blocks; whoever watches it closes it."""
        self.pipe = pipe
        self.kind = kind
        self.sink = sink
        self._open_line: list[bytes] = []
        self._open_size = 0

    def read(self) -> bool:
        """Take one read's worth of output; false at the end of the stream."""
        data = self.pipe.read(READ_SIZE)
        if data:
            self._take(data)
        return data != b""  # None: nothing is there just now

    def finish_line(self) -> None:
        """Hand on an unfinished last line."""
        if self._open_line:
            self.sink.add(self.kind, b"".join(self._open_line), eol=False)
            self._open_line, self._open_size = [], 0

    def _take(self, data: bytes) -> None:
        self.sink.add_raw(self.kind, data)
        cut = data.rfind(b"\n") + 1
        if cut:
            self._open_line.append(data[:cut])
            whole = b"".join(self._open_line)
            self._open_line, self._open_size = [], 0
            self.sink.add(self.kind, whole, eol=True)
        if cut < len(data):
            self._open_line.append(data[cut:])
            self._open_size += len(data) - cut
            if self._open_size > MAX_LINE:
                self._cut_long_line()

    def _cut_long_line(self) -> None:
        line = b"".join(self._open_line)
        cut = MAX_LINE
        while cut > MAX_LINE - 4 and _continues(line[cut]):
            cut -= 1
        self.sink.add(self.kind, line[:cut], eol=False)
        self._open_line, self._open_size = [line[cut:]], len(line) - cut


def _continues(byte: int) -> bool:
    """Return whether the byte is not the first of a UTF-8 character."""
    return 0x80 <= byte < 0xC0  # noqa: PLR2004  # RFC 3629: 10xxxxxx


class Sink:
    """Where one attempt's output goes."""

    def __init__(
        self, directory: str, replica: int, attempt: int, mark_dirty: Callable[[Sink], None]
    ) -> None:
        """`mark_dirty` is called whenever something waits to be written."""
        self.replica = replica
        self.attempt = attempt
        self.raw: dict[int, Outlet] = {
            kind: Outlet(os.path.join(directory, name)) for kind, name in NAMES.items()
        }
        self._raw_parts: dict[int, list[bytes]] = {kind: [] for kind in NAMES}
        self.combined: Outlet = Outlet(os.path.join(directory, "combined.log"))
        self._runs: list[Run] = []
        self._mark_dirty = mark_dirty
        self._lost = 0
        self.waiting: int = 0

    def add_raw(self, kind: int, data: bytes) -> None:
        """Take bytes as printed."""
        self._raw_parts[kind].append(data)
        self.waiting += len(data)
        self._mark_dirty(self)

    def add(self, kind: int, data: bytes, *, eol: bool) -> None:
        """Take whole lines, or a piece of a long one."""
        last = self._runs[-1] if self._runs else None
        if last and last.kind == kind and last.eol:
            last.parts.append(data)
            last.eol = eol
        else:
            self._runs.append(Run(kind, data, int(time() * 1e6), eol=eol))
        self._mark_dirty(self)

    def flush(self) -> list[bytes]:
        """Write what waits and return the timeline records that speak of it."""
        for kind, parts in self._raw_parts.items():
            if parts:
                self.raw[kind].write(b"".join(parts))
                parts.clear()
        runs, self._runs, self.waiting = self._runs, [], 0
        if not runs:
            return []
        texts = [b"".join(run.parts) for run in runs]
        offset = self.combined.end
        if not self.combined.write(b"".join(texts)):
            self._lost += sum(map(len, texts))
            return []
        records = self._lost_record(runs[0].time_us)
        for run, text in zip(runs, texts, strict=True):
            flags = timeline.EOL if run.eol else 0
            entry = Entry(run.time_us, offset, len(text), self.replica, self.attempt, run.kind, flags)
            records.append(pack(entry))
            offset += len(text)
        return records

    def _lost_record(self, time_us: int) -> list[bytes]:
        if not self._lost:
            return []
        entry = Entry(time_us, 0, min(self._lost, 2**32 - 1), self.replica, self.attempt, timeline.LOST)
        self._lost = 0
        return [pack(entry)]

    def close(self) -> list[bytes]:
        """Write the rest, close the files and return the last records."""
        records = self.flush() + self._lost_record(int(time() * 1e6))
        for outlet in (*self.raw.values(), self.combined):
            outlet.close()
        return records


class Relay:
    """All sinks of an app, and the timeline they share."""

    def __init__(self, line: Appender, app_dir: str = "", log_max_mb: int | None = None) -> None:
        """Write nothing yet.

        Args:
            line: The timeline's file.
            app_dir: The app's directory.
            log_max_mb: What the log files of one replica may take there; None for no limit.
        """
        self._line = line
        self.limit: LogLimit | None = None
        if log_max_mb is not None:
            from torchx_core.supervisor.log_limit import LogLimit  # ctypes: few apps have need of it

            self.limit = LogLimit(app_dir, log_max_mb << 20, line)
        self._dirty: dict[Sink, None] = {}
        self._dirty_since = 0.0

    def sink(self, directory: str, replica: int, attempt: int) -> Sink:
        """Return the place for one attempt's output."""
        return Sink(directory, replica, attempt, self._mark)

    @property
    def dirty(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._dirty)

    @property
    def overdue(self) -> bool:
        """Whether something has waited long enough."""
        return bool(self._dirty) and monotonic() - self._dirty_since > FLUSH_AFTER_S

    def _mark(self, sink: Sink) -> None:
        if not self._dirty:
            self._dirty_since = monotonic()
        self._dirty[sink] = None
        if sink.waiting >= FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits: first the text, then the records that speak of it."""
        dirty, self._dirty = self._dirty, {}
        self._put([record for sink in dirty for record in sink.flush()], dirty)

    def close(self, sink: Sink) -> None:
        """Finish with one attempt's output."""
        self._dirty.pop(sink, None)
        self._put(sink.close(), [sink])

    def _put(self, records: list[bytes], sinks: Collection[Sink]) -> None:
        """Put records after all that is there, of output that these have written."""
        if records:
            self._line.append(b"".join(records))
        if self.limit is not None:
            self.limit.mind(sinks)

    def mark(self, entry: Entry) -> None:
        """Put a record of another kind after all output gathered so far."""
        self.flush()
        self._line.append(pack(entry))
