"""What the nodes wrote into the app's directory, read as it is at this moment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from torchx_core.schedulers.locks import is_locked
from torchx_core.schedulers.slurm.node.files import refresh
from torchx_core.schedulers.slurm.record import JOB, STOP, SUBMIT_LOCK, AppRecord, JobFile
from torchx_core.specs import AppState, is_terminal
from torchx_core.supervisor.reading import (
    DamagedFile,
    is_there,
    parse_object,
    read_bytes,
    read_error_file,
)
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.shape import read_shaped

__all__ = [
    "OUTCOMES",
    "Attempt",
    "Facts",
    "Figures",
    "Run",
    "RunFile",
    "Stop",
    "error_of",
    "find_attempt",
    "last_result",
    "read_facts",
    "read_stop",
]

OUTCOMES = frozenset(state.name for state in AppState if is_terminal(state))
_MAX_REPORTS_FILE = 1 << 30


class Figures(NamedTuple):
    """What an attempt has used."""

    cpu_s: float | None = None
    peak_mb: int | None = None
    """The most memory that one of its processes had."""
    oom: bool = False
    """The kernel killed something of it for want of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of one replica."""

    number: int
    run: int
    host: str
    started_at: float
    ended_at: float | None = None
    code: int | None = None
    """As a shell has it, 128 and more for signals; None when it has not ended, or nobody saw it."""
    told: bool = False
    """It ended after it was told to."""
    figures: Figures = Figures()  # noqa: RUF009  # it is frozen

    @property
    def cpu_s(self) -> float | None:
        """CPU time of all its processes."""
        return self.figures.cpu_s

    @property
    def peak_mb(self) -> int | None:
        """The most memory that one of its processes had."""
        return self.figures.peak_mb


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the job; there is another after each requeue."""

    started_at: float
    nodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why the app ends."""

    outcome: str
    msg: str
    index: int
    """The replica whose failure it is, or -1."""
    time: float = 0.0
    """When that was written down, by the clock of whoever did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How the app stands, as its own files have it."""

    job_id: str | None
    submitted_at: float
    """When that was written down; 0.0 when it was not."""
    submitting: bool
    """Whether somebody is about to hand the job to Slurm."""
    runs: Sequence[Run]
    attempts: Sequence[Sequence[Attempt]]
    """By the replica's index."""
    restarts: int
    """How often several replicas were started again together."""
    stop: Stop | None
    all_left: bool
    """Whether every task of the latest run has come to its end."""

    @property
    def begun(self) -> bool:
        """Whether the job has ever run."""
        return bool(self.runs)

    @property
    def num_restarts(self) -> int:
        """How often something was started again: by Slurm, by a policy for several, or one replica alone."""
        together = len(self.runs[1:]) + self.restarts
        alone = [max(0, len(attempts) - 1 - together) for attempts in self.attempts]
        return together + sum(alone)


class RunFile(NamedTuple):
    """The content of a file that says that a run of the job has begun."""

    time: float
    nodes: str


@dataclass(frozen=True)
class _StopFile:
    outcome: str
    msg: str
    index: int
    time: float


class _StartFile(NamedTuple):
    time: float
    host: str
    run: int


class _EndFile(NamedTuple):
    code: int
    told: bool
    time: float
    cpu_s: float | None = None
    peak_mb: int | None = None
    oom: bool = False


def read_facts(record: AppRecord) -> Facts:
    """Read everything.

    Raises:
        CorruptRecordError: A file cannot be used.
    """
    with record.naming_damage():
        return _read_facts(record)


def _read_facts(record: AppRecord) -> Facts:
    refresh(record.directory)
    runs = list(_runs(record))
    job = record.read(JOB, JobFile)
    job_id = job.job_id if job else None
    return Facts(
        job_id=job_id,
        submitted_at=job.time if job else 0.0,
        submitting=job_id is None and is_locked(record.path(SUBMIT_LOCK)),
        runs=runs,
        attempts=[list(_attempts(replica.log_dir)) for replica in record.replicas],
        restarts=_count(record, "restart.{}.json"),
        stop=read_stop(record),
        all_left=bool(runs) and _left(record, len(runs) - 1) == len(record.replicas),
    )


def find_attempt(log_dir: str, number: int, run: int = 0) -> Attempt | None:
    """Return the first attempt from this number on, and from this run of the job on, that has begun.

    Two things are skipped. A task on a node that was cut off may have claimed a number after a later run
    began, and does nothing with it. And where a task of an earlier version of this library died at the wrong
    moment, there is a directory without a start.
    """
    attempt = _read_attempt(log_dir, number)
    if attempt is None and is_there(os.path.join(log_dir, str(number))):
        later = find_attempt(log_dir, number + 1, run)
        attempt = later and (_read_attempt(log_dir, number) or later)  # both may have begun since we looked
    if attempt is not None and attempt.run < run:
        return find_attempt(log_dir, attempt.number + 1, run)
    return attempt


def error_of(log_dir: str, number: int) -> str:
    """Return the error file of an attempt, if it is JSON."""
    return read_error_file(os.path.join(log_dir, str(number), "error.json"))


def last_result(record: AppRecord) -> object:
    """Return the last result that any replica reported, or None; the file written last counts."""
    files: list[tuple[float, str]] = []
    for replica in record.replicas:
        for attempt in _attempts(replica.log_dir):
            path = os.path.join(replica.log_dir, str(attempt.number), "reports.jsonl")
            with suppress(FileNotFoundError):
                files.append((os.stat(path).st_mtime, path))
    result: object = None
    for _, path in sorted(files):
        for report in _reports(path):
            if report.get("type") == "result":
                result = report.get("value")
    return result


def _reports(path: str) -> Iterator[Json]:
    with suppress(FileNotFoundError, DamagedFile):
        for line in read_bytes(path, _MAX_REPORTS_FILE).splitlines():
            with suppress(DamagedFile):
                yield parse_object(line, path)


def _attempts(log_dir: str) -> Iterator[Attempt]:
    attempt = find_attempt(log_dir, 0)
    while attempt is not None:
        yield attempt
        attempt = find_attempt(log_dir, attempt.number + 1, attempt.run)


def _read_attempt(log_dir: str, number: int) -> Attempt | None:
    refresh(log_dir)
    folder = os.path.join(log_dir, str(number))
    refresh(folder)
    start = read_shaped(_StartFile, os.path.join(folder, "start.json"))
    if start is None:
        return None
    end = read_shaped(_EndFile, os.path.join(folder, "end.json"))
    attempt = Attempt(number=number, run=start.run, host=start.host, started_at=start.time)
    if end is None:
        return attempt
    figures = Figures(end.cpu_s, end.peak_mb, end.oom)
    return replace(attempt, ended_at=end.time, code=end.code, told=end.told, figures=figures)


def _runs(record: AppRecord) -> Iterator[Run]:
    number = 0
    while run := record.read(f"run.{number}.json", RunFile):
        yield Run(started_at=run.time, nodes=run.nodes)
        number += 1


def _count(record: AppRecord, pattern: str) -> int:
    number = 0
    while is_there(record.path(pattern.format(number))):
        number += 1
    return number


def read_stop(record: AppRecord) -> Stop | None:
    """Return why the app ends; None while nothing says that it does.

    Raises:
        DamagedFile: The file says what no version of ours writes.
    """
    stop = record.read(STOP, _StopFile)
    if stop is None:
        return None
    if stop.outcome not in OUTCOMES or not -1 <= stop.index < len(record.replicas):
        raise DamagedFile(record.path(STOP), f"says {stop.outcome!r} of replica {stop.index}")
    return Stop(outcome=stop.outcome, msg=stop.msg, index=stop.index, time=stop.time)


def _left(record: AppRecord, run: int) -> int:
    try:
        names = os.listdir(record.path("left"))
    except FileNotFoundError:
        return 0
    return sum(name.startswith(f"{run}.") and name.count(".") == 1 for name in names)
