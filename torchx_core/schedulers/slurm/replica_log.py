"""Reads what one attempt of one replica wrote, from a place in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, cast

from torchx_core.schedulers.events import LogLines, Report
from torchx_core.schedulers.reports import read_reports
from torchx_core.schedulers.responses import Stream
from torchx_core.schedulers.slurm.cursor import ReplicaPlace
from torchx_core.schedulers.slurm.node.output import RECORD
from torchx_core.schedulers.slurm.record import Planned
from torchx_core.supervisor.reading import read_part

__all__ = ["new_reports", "read_lines"]

_NAMES: Final[Mapping[int, Literal["stdout", "stderr"]]] = {1: "stdout", 2: "stderr"}
_WANTED: Final = {Stream.STDOUT: (1,), Stream.STDERR: (2,), Stream.COMBINED: (1, 2)}


class _Run(NamedTuple):
    time: float
    end: int
    stream: int
    eol: bool


def read_lines(planned: Planned, place: ReplicaPlace, streams: Stream, budget: int) -> Iterator[LogLines]:
    """Yield what follows the place, about so many bytes of it, and move the place along.

    What the file system does not show yet, though the index has it, comes the next time.
    """
    folder = os.path.join(planned.log_dir, str(place.attempt))
    runs = _runs(os.path.join(folder, "index"), place.runs, place.offset, budget)
    if not runs:
        return
    data = read_part(os.path.join(folder, "combined.log"), place.offset, runs[-1].end - place.offset)
    start = place.offset
    for run in runs:
        text = data[place.offset - start : run.end - start]
        if len(text) < run.end - place.offset:
            return
        place.runs, place.offset = place.runs + 1, run.end
        if run.stream in _WANTED[streams]:
            yield _lines(planned, place.attempt, run, text)


def new_reports(planned: Planned, place: ReplicaPlace, began_at: float) -> Iterator[Report]:
    """Yield the reports that follow the place, and move the place along."""
    path = os.path.join(planned.log_dir, str(place.attempt), "reports.jsonl")
    whole, newline, _ = read_part(path, place.reports, _MOST_REPORTS).rpartition(b"\n")
    place.reports += len(whole) + len(newline)
    yield from read_reports(whole.splitlines(), planned.role, planned.replica, place.attempt, began_at)


def _runs(path: str, number: int, offset: int, budget: int) -> list[_Run]:
    data = read_part(path, number * RECORD.size, _MOST * RECORD.size)
    runs: list[_Run] = []
    for fields in RECORD.iter_unpack(data[: len(data) - len(data) % RECORD.size]):
        time, end, stream, eol = cast("tuple[float, int, int, int]", fields)
        if runs and end - offset > budget:
            break
        runs.append(_Run(time, end, stream, bool(eol)))
    return runs


_MOST: Final = 4096
"""Runs read at once."""
_MOST_REPORTS: Final = 16 << 20
"""Bytes read at once; more than the longest report that counts."""


def _lines(planned: Planned, attempt: int, run: _Run, data: bytes) -> LogLines:
    text = data.decode("utf-8", "replace")
    lines = text[:-1].split("\n") if run.eol else text.split("\n")
    return LogLines(
        planned.role, planned.replica, attempt, _NAMES[run.stream], tuple(lines), run.time, run.eol
    )
