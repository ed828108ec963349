"""What Slurm says of this user's jobs: one question for all of them, asked at most once a second."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, Final, cast

from torchx_core.schedulers.slurm.commands import call, failure

__all__ = ["Job", "JobQueue", "Snapshot", "is_over", "is_waiting", "shared_queue"]

logger: Final = logging.getLogger(__name__)

INTERVAL_S = 1.0
"""The least time between two questions of this process."""
LONGEST_INTERVAL_S = 30.0
_REST = 4
"""A question that takes a second is asked every 4: a slow controller is a busy one."""

QUESTION: Final = ("squeue", "--json", "--me", "--states=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; of a heterogeneous one, all components together."""

    job_id: str
    state: str
    comment: str = ""
    reason: str = ""
    nodes: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What Slurm said."""

    jobs: Mapping[str, Job] = field(default_factory=dict[str, Job])
    asked_at: float = float("-inf")
    """When it was asked, on the monotonic clock."""


class JobQueue:
    """Asks for everybody in this process who follows an app; costs no thread."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._lock = Lock()
        self._snapshot = Snapshot()
        self._next_at = 0.0
        self._interval = INTERVAL_S
        self._question: _Question | None = None
        self._followers = 0

    def join(self) -> None:
        """Say that somebody is about to `poll`."""
        with self._lock:
            self._followers += 1

    def leave(self) -> None:
        """Say that he is not any more; when nobody is left, no question stays open."""
        with self._lock:
            self._followers -= 1
            if not self._followers and self._question is not None:
                self._question.drop()
                self._question = None

    def poll(self) -> Snapshot:
        """Return the newest answer there is; ask again when it is time. Never waits."""
        with self._lock:
            if self._question is not None:
                self._take_answer(self._question)
            if self._question is None and time.monotonic() >= self._next_at:
                self._question = _Question()
            return self._snapshot

    def ask(self, *, at_most_s_old: float = 0.0) -> Snapshot:
        """Return an answer that is so fresh, waiting for one if need be.

        Raises:
            SchedulerError: Slurm does not answer.
        """
        asked_at = time.monotonic()
        with self._lock:
            if self._snapshot.asked_at >= asked_at - at_most_s_old:
                return self._snapshot
        jobs = _jobs(call(QUESTION))
        with self._lock:
            if asked_at > self._snapshot.asked_at:
                self._snapshot = Snapshot(jobs, asked_at)
            return self._snapshot

    def _take_answer(self, question: _Question) -> None:
        answer = question.answer()
        if answer is None:
            return
        self._question = None
        took_s = time.monotonic() - question.asked_at
        if isinstance(answer, Exception):
            logger.warning("cannot ask Slurm just now: %s", answer)
            self._interval = min(2 * self._interval, LONGEST_INTERVAL_S)
        else:
            self._snapshot = Snapshot(answer, question.asked_at)
            self._interval = min(max(INTERVAL_S, _REST * took_s), LONGEST_INTERVAL_S)
        self._next_at = question.asked_at + self._interval


class _Question:
    """A question on its way: a process whose end is looked for, not waited for."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        # Files: a pipe would fill up while nobody reads.
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the answer)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                QUESTION, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors, cwd="/"
            )
        except OSError as err:
            self._failure: OSError = err

    def drop(self) -> None:
        """Forget it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._output.close()
        self._errors.close()

    def answer(self) -> dict[str, Job] | Exception | None:
        """Return the jobs, or why there is no answer, or None as long as there is none."""
        if self._process is None:
            self.drop()
            return self._failure
        code = self._process.poll()
        if code is None:
            return None
        with self._output, self._errors:
            for file in (self._output, self._errors):
                file.seek(0)
            if code:
                return failure(QUESTION[0], self._errors.read())
            try:
                return _jobs(self._output.read())
            except ValueError as err:
                return err


_queues: Final[dict[str, JobQueue]] = {}
_queues_lock: Final = Lock()


def shared_queue() -> JobQueue:
    """Return this process's queue of the cluster that Slurm's commands would ask."""
    key = f"{os.getpid()} {os.environ.get('SLURM_CONF', '')}"  # a fork inherits no question
    with _queues_lock:
        return _queues.setdefault(key, JobQueue())


def _jobs(text: str | bytes) -> dict[str, Job]:
    """Read squeue's JSON; of a heterogeneous job the first component has the name, all have a say.

    Source: seen with 22.05; newer versions wrap numbers and give a list of states.
    """
    found: dict[str, Job] = {}
    for row in _rows(text):
        het = _number(row.get("het_job_id"))
        job_id = str(het or _number(row["job_id"]))
        job = Job(
            job_id=job_id,
            state=_state(row["job_state"]),
            comment=str(row.get("comment") or ""),
            reason=str(row.get("state_reason") or ""),
            nodes=str(row.get("nodes") or ""),
            restarts=_number(row.get("restart_cnt")),
        )
        before = found.get(job_id)
        found[job_id] = job if before is None else _both(before, job)
    return found


def _rows(text: str | bytes) -> Iterator[dict[str, object]]:
    value = cast("dict[str, object]", json.loads(text))
    yield from cast("list[dict[str, object]]", value.get("jobs") or [])


def _both(a: Job, b: Job) -> Job:
    """Return two components as one job: what still runs counts more, then what went wrong."""
    worse = max(a, b, key=lambda j: (j.state in _ON_NODES, is_waiting(j), j.state != "COMPLETED"))
    return Job(
        job_id=a.job_id,
        state=worse.state,
        comment=a.comment or b.comment,
        reason=worse.reason,
        nodes=",".join(filter(None, (a.nodes, b.nodes))),
        restarts=max(a.restarts, b.restarts),
    )


_WAITING: Final = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_ON_NODES: Final = frozenset(
    {"CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "COMPLETING"}
)


def is_waiting(job: Job) -> bool:
    """Return whether it has no nodes yet."""
    return job.state in _WAITING


def is_over(job: Job) -> bool:
    """Return whether nothing comes of it any more."""
    return job.state not in _WAITING | _ON_NODES


def _state(value: object) -> str:
    if isinstance(value, list):
        return str(cast("list[object]", value)[0])
    return str(value)


def _number(value: object) -> int:
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("number")
    return value if isinstance(value, int) else 0
