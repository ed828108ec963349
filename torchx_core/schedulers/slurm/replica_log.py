"""Reads what one attempt of one replica wrote, from a place in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, cast

from torchx_core.schedulers.events import LogLines, LogsLost, Report
from torchx_core.schedulers.reports import read_reports
from torchx_core.schedulers.responses import Stream
from torchx_core.schedulers.slurm.cursor import ReplicaPlace
from torchx_core.schedulers.slurm.node.parts import (
    COMBINED,
    INDEX,
    RECORD,
    Part,
    file_size,
    part_path,
    parts_of,
)
from torchx_core.schedulers.slurm.record import Planned
from torchx_core.supervisor.reading import DamagedFile, read_part

__all__ = ["latest_files", "new_reports", "read_lines"]

ZEROS_STAY_S: Final = 5.0
"""After how long zeros are taken for what a program has printed."""
_NAMES: Final[Mapping[int, Literal["stdout", "stderr"]]] = {1: "stdout", 2: "stderr"}
_WANTED: Final = {Stream.STDOUT: (1,), Stream.STDERR: (2,), Stream.COMBINED: (1, 2)}


class _Run(NamedTuple):
    time: float
    end: int
    stream: int
    eol: bool


def read_lines(
    planned: Planned, place: ReplicaPlace, streams: Stream, budget: int, *, in_parts: bool, closed: bool
) -> Iterator[LogLines | LogsLost]:
    """Yield what follows the place, about so many bytes of it, and move the place along.

    What the file system does not show yet, though the index has it, comes the next time.

    Args:
        planned: Whose it is.
        place: From where on.
        streams: What is wanted.
        budget: About how many bytes.
        in_parts: The log has a limit, so that what lies in the middle of it may be gone.
        closed: The attempt had ended before: its files are as they will stay.
    """
    folder = os.path.join(planned.log_dir, str(place.attempt))
    part = Part(0, 0, os.path.join(folder, INDEX))
    parts = parts_of(folder, INDEX) if in_parts else [part]
    part = max((each for each in parts if each.offset <= place.offset), default=part)
    runs = _runs(part, place, budget)
    later = min((each for each in parts if each.offset > place.offset), default=None)
    if later is not None and not runs:
        yield _lost(planned, place, part, later)
        place.runs, place.offset = later.runs, later.offset
        part, runs = later, _runs(later, place, budget)
    if not runs:
        return
    path = part_path(folder, COMBINED, part.offset)
    data = read_part(path, place.offset - part.offset, runs[-1].end - place.offset)
    start = place.offset
    for run in runs:
        text = data[place.offset - start : run.end - start]
        if len(text) < run.end - place.offset or (not closed and _may_come_later(text, place)):
            return
        place.runs, place.offset = place.runs + 1, run.end
        if run.stream in _WANTED[streams]:
            yield _lines(planned, place.attempt, run, text)


def _may_come_later(data: bytes, place: ReplicaPlace) -> bool:
    """Return whether zeros stand where the file system does not show yet what another host has written.

    NFS may know how long a file is before it has all of it, for it writes pieces in any order. A program may
    print zeros as well: what stays as it is for some seconds is what it has printed.
    """
    now = time.monotonic()
    if place.zeros_since is not None and now >= place.zeros_since + ZEROS_STAY_S:
        return False  # this program prints them: it is not made to wait for each of its lines
    if b"\0" not in data:
        place.zeros_since = None
        return False
    place.zeros_since = place.zeros_since or now
    return True


def new_reports(planned: Planned, place: ReplicaPlace, began_at: float, *, closed: bool) -> Iterator[Report]:
    """Yield the reports that follow the place, and move the place along.

    Args:
        planned: Whose they are.
        place: From where on.
        began_at: When the attempt began, in seconds since the epoch.
        closed: The attempt had ended before; until then what the file system shows as zeros may come later.
    """
    path = os.path.join(planned.log_dir, str(place.attempt), "reports.jsonl")
    data = read_part(path, place.reports, _MOST_REPORTS)
    if not closed:
        data = data.partition(b"\0")[0]  # JSON has none
    whole, newline, _ = data.rpartition(b"\n")
    place.reports += len(whole) + len(newline)
    yield from read_reports(whole.splitlines(), planned.role, planned.replica, place.attempt, began_at)


def latest_files(folder: str, name: str) -> list[str]:
    """Return the files of an attempt's log, or with a limit those that come after what has gone."""
    paths: list[str] = []
    begin = None
    for part in reversed(parts_of(folder, name)):
        if begin is not None and part.offset + file_size(part.path) != begin:
            break
        begin = part.offset
        paths.insert(0, part.path)
    return paths


def _runs(part: Part, place: ReplicaPlace, budget: int) -> list[_Run]:
    """Return the runs that follow the place, up to one that is damaged.

    Raises:
        DamagedFile: It is the first: it would end before it begins.
    """
    data = read_part(part.path, (place.runs - part.runs) * RECORD.size, _MOST * RECORD.size)
    runs: list[_Run] = []
    for fields in RECORD.iter_unpack(data[: len(data) - len(data) % RECORD.size]):
        at, end, stream, eol = cast("tuple[float, int, int, int]", fields)
        if not any(fields):
            break  # another host's write: some file systems show how long it is before they show what it is
        if runs and (end - place.offset > budget or end <= runs[-1].end):
            break
        if end <= place.offset:
            raise DamagedFile(part.path, f"says that a run of lines ends at {end}")
        runs.append(_Run(at, end, stream, bool(eol)))
    return runs


_MOST: Final = 4096
"""Runs read at once."""
_MOST_REPORTS: Final = 16 << 20
"""Bytes read at once; more than the longest report that counts."""


def _lost(planned: Planned, place: ReplicaPlace, before: Part, after: Part) -> LogsLost:
    """Tell that what lies between two parts has gone: since the last line before it, if that is there."""
    return LogsLost(
        role=planned.role,
        replica=planned.replica,
        attempt=place.attempt,
        size_bytes=after.offset - place.offset,
        reason="over log_max_mb",
        time=_changed_at(before.path) or _changed_at(after.path) or time.time(),
    )


def _changed_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return None


def _lines(planned: Planned, attempt: int, run: _Run, data: bytes) -> LogLines:
    text = data.decode("utf-8", "replace")
    lines = text[:-1].split("\n") if run.eol else text.split("\n")
    return LogLines(
        planned.role, planned.replica, attempt, _NAMES[run.stream], tuple(lines), run.time, run.eol
    )
