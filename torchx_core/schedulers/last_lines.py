"""The last lines of a replica, of a log of any length: read when somebody must say why an app failed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from torchx_core.schedulers.events import Batch, LogLines
from torchx_core.specs import LastLines, ReplicaStatus
from torchx_core.supervisor.reading import DamagedFile, read_part

__all__ = ["LAST_BYTES", "collect_last_lines", "end_of", "read_last_lines"]

LAST_BYTES: Final = 1 << 16
"""About how much is read."""
MAX_LINES: Final = 500
MAX_LOG_CHARS: Final = 1 << 26
"""The longest log that is read through for its end, where a backend has no other way."""


def read_last_lines(directory: str, files_of: Callable[[str, str], Sequence[str]] | None = None) -> LastLines:
    """Return what the log files of one attempt end with; nothing of one that cannot be read.

    Args:
        directory: The attempt's.
        files_of: Returns, for the directory and the name of a log, the files that make up its end, in order;
            None where a log is one file.
    """
    files_of = files_of or _one_file
    return LastLines(*(_last_of(files_of(directory, name)) for name in ("combined.log", "stderr.log")))


def _one_file(directory: str, name: str) -> Sequence[str]:
    return [os.path.join(directory, name)]


def _last_of(paths: Sequence[str]) -> list[str]:
    data, is_whole = b"", True
    with suppress(DamagedFile, OSError):
        for path in reversed(paths):
            left = LAST_BYTES - len(data)
            begin = max(0, os.stat(path).st_size - left)
            data = read_part(path, begin, left) + data
            if begin:
                is_whole = False  # the first line may lack its beginning
                break
    text = data.decode("utf-8", "replace")
    whole = text if is_whole else text.partition("\n")[2]
    return whole.removesuffix("\n").split("\n") if whole else []


def collect_last_lines(batches: Iterable[Batch], replica: ReplicaStatus) -> LastLines:
    """Return what the replica's attempt has printed last; nothing where the log is too long to be read."""
    both, stderr = deque[str](maxlen=MAX_LINES), deque[str](maxlen=MAX_LINES)
    size = 0
    for event in (event for batch in batches for event in batch.events):
        if not isinstance(event, LogLines):
            continue
        size += sum(map(len, event.lines))
        if size > MAX_LOG_CHARS:
            return LastLines((), ())
        if (event.replica, event.attempt) == (replica.id, replica.attempt):
            both.extend(event.lines)
            stderr.extend(event.lines if event.stream == "stderr" else ())
    return LastLines(end_of(both), end_of(stderr))


def end_of(lines: Sequence[str]) -> list[str]:
    """Return the last lines, as many as anybody reads: some may be very long."""
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line) + 1
        if size > LAST_BYTES:
            break
        kept.append(line)
    return kept[::-1]
