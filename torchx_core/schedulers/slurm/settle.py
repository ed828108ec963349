"""Looks how an app stands, and writes its end down for good when it has come."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.decide import Verdict, decide
from torchx_core.schedulers.slurm.facts import Attempt, Facts, job_id_of, last_result, read_facts
from torchx_core.schedulers.slurm.queue import Job, JobQueue, Snapshot
from torchx_core.schedulers.slurm.record import FINAL, AppRecord
from torchx_core.schedulers.slurm.view import dump_final, final_attempts, load_final, status
from torchx_core.specs import AppState, AppStatus
from torchx_core.supervisor.records import Json, write_once

__all__ = ["Standing", "exists", "look", "settle"]

_FRESH_S = 1.0
"""How old Slurm's answer may be for somebody who asks how an app stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an app stands at this moment."""

    state: AppState
    ended_at: float | None
    """Set when it is over."""
    status: AppStatus
    attempts: list[list[Attempt]]


def settle(record: AppRecord, queue: JobQueue) -> Standing:
    """Look, asking Slurm if its own files do not say it all; a controller that is away changes nothing."""
    final = record.read(FINAL)
    if final is not None:
        return _over(record, final)
    facts = read_facts(record)
    standing = _judge(record, facts, None, None)
    if standing.ended_at is not None:
        return standing
    try:
        snapshot = queue.ask(at_most_s_old=_FRESH_S)
    except SchedulerError:
        return standing
    return _judge(record, facts, snapshot, time.monotonic() - snapshot.asked_at)


def look(record: AppRecord, queue: JobQueue, *, asked_after: float) -> Standing:
    """Look without ever waiting for Slurm.

    Args:
        record: The app.
        queue: Its newest answer is taken.
        asked_after: Only if it was asked later than that, on the monotonic clock: an older one may not know
            the job yet.
    """
    final = record.read(FINAL)
    if final is not None:
        return _over(record, final)
    facts = read_facts(record)
    snapshot = queue.poll()
    if snapshot.asked_at < asked_after:
        return _judge(record, facts, None, None)
    return _judge(record, facts, snapshot, time.monotonic() - snapshot.asked_at)


def _judge(
    record: AppRecord, facts: Facts, snapshot: Snapshot | None, listed_for_s: float | None
) -> Standing:
    job = _job(record, snapshot)
    verdict = decide(record, facts, job, listed_for_s=listed_for_s, now=time.time())
    if verdict.state in {AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED}:
        return _over(record, _finished(record, verdict))
    attempts = [list(rows) for rows in facts.attempts]
    told = status(record, verdict, attempts, num_restarts=facts.num_restarts, result=last_result(record))
    return Standing(state=verdict.state, ended_at=None, status=told, attempts=attempts)


def _job(record: AppRecord, snapshot: Snapshot | None) -> Job | None:
    """Find the app's job by its id, or by its comment when nobody had the time to write the id down."""
    if snapshot is None:
        return None
    job_id = job_id_of(record)
    if job_id is not None:
        return snapshot.jobs.get(job_id)
    return next((job for job in snapshot.jobs.values() if job.comment.startswith(record.comment)), None)


def _finished(record: AppRecord, verdict: Verdict) -> Json:
    """Write the end down, unless somebody was faster; return what counts."""
    facts = read_facts(record)  # once more: what the nodes wrote before the job was over is all there now
    final = dump_final(verdict, facts, ended_at=_ended_at(facts), result=last_result(record))
    write_once(record.directory, FINAL, final)
    return record.read(FINAL) or final


def _ended_at(facts: Facts) -> float:
    ends = [a[-1].ended_at for a in facts.attempts if a and a[-1].ended_at is not None]
    return max(ends) if ends and len(ends) == len(facts.attempts) else time.time()


def _over(record: AppRecord, final: Json) -> Standing:
    return Standing(
        state=AppState[str(final["state"])],
        ended_at=cast("float", final["ended_at"]),
        status=load_final(record, final),
        attempts=final_attempts(final),
    )


def exists(record: AppRecord) -> bool:
    """Return whether the app was not deleted meanwhile."""
    return os.path.isdir(record.directory)
