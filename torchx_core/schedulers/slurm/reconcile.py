"""Looks how an app stands, and writes its end down for good when it has come."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.paths import name_of
from torchx_core.schedulers.slurm.accounting import JobName
from torchx_core.schedulers.slurm.decide import Decision, decide, is_new, may_be_listed_yet
from torchx_core.schedulers.slurm.facts import Facts, last_result, read_facts
from torchx_core.schedulers.slurm.job import UNLISTED, Job, is_over, job_with
from torchx_core.schedulers.slurm.queue import JobQueue, Snapshot
from torchx_core.schedulers.slurm.record import FINAL, JOB, AppRecord, JobFile
from torchx_core.schedulers.slurm.view import FinalFile, Standing, dump_final, load_final, status
from torchx_core.specs import is_terminal
from torchx_core.supervisor.reading import DamagedFile, is_there
from torchx_core.supervisor.records import read_json
from torchx_core.supervisor.shape import Misshapen, read_shaped

__all__ = ["Look", "Standing", "ask_about_all", "exists", "is_known_over", "jobs_left", "look", "reconcile"]

logger: Final = logging.getLogger(__name__)

_FRESH_S = 1.0
"""How old Slurm's answer may be for somebody who asks how an app stands."""


def reconcile(record: AppRecord, queue: JobQueue) -> Standing:
    """Look, asking Slurm if its own files do not say it all; a controller that is away changes nothing."""
    with record.naming_damage():
        return _reconcile(record, queue)


def _reconcile(record: AppRecord, queue: JobQueue) -> Standing:
    final = record.read(FINAL, FinalFile)
    if final is not None:
        return _over(record, final)
    facts = read_facts(record)
    decision = decide(record, facts, None)
    if not is_terminal(decision.state):
        with suppress(SchedulerError):
            decision = _decided(record, facts, _asked(record, facts, queue))
    return _standing(record, facts, decision)


class Look(NamedTuple):
    """What a look at an app has shown."""

    decision: Decision
    standing: Standing | None
    """Set when it is over."""


def look(record: AppRecord, queue: JobQueue, *, asked_after: float) -> Look:
    """Look without ever waiting for Slurm, and without asking it what the app's own files say.

    Args:
        record: The app.
        queue: Its newest answer is taken.
        asked_after: Only if it was asked later than that, on the monotonic clock: an older one may not know
            the job yet.
    """
    final = record.read(FINAL, FinalFile)
    if final is not None:
        standing = _over(record, final)
        return Look(Decision(standing.state, standing.status.msg), standing)
    facts = read_facts(record)
    decision = decide(record, facts, None)
    if not is_terminal(decision.state):
        decision = _decided(record, facts, _listed_since(record, facts, queue, asked_after))
    return Look(decision, _standing(record, facts, decision) if is_terminal(decision.state) else None)


def _decided(record: AppRecord, facts: Facts, job: Job | None) -> Decision:
    """Decide; should Slurm say that it is over, then by what the nodes have written by now.

    While Slurm was asked the app may have ended well, and files that were read before do not say so.
    """
    decision = decide(record, facts, job)
    is_last = is_terminal(decision.state) and decision.for_good
    return decide(record, read_facts(record), job) if is_last else decision


def _listed_since(record: AppRecord, facts: Facts, queue: JobQueue, asked_after: float) -> Job | None:
    snapshot = queue.poll()
    if snapshot.asked_at < asked_after:
        return None
    job = _listed(record, facts, snapshot)
    if job is not None and _is_forgotten(job):
        return _ours(record, queue.accounting.poll(JobName(job.job_id, record.app_id)))
    return job


def is_known_over(record: AppRecord) -> bool:
    """Return whether the app's own files say that it is over; Slurm is not asked."""
    return record.read(FINAL, FinalFile) is not None or is_terminal(
        decide(record, read_facts(record), None).state
    )


def ask_about_all(directories: Iterable[str], queue: JobQueue) -> None:
    """See that accounting is asked once for all apps that `reconcile` is about to look at."""
    jobs = dict(_open_jobs(directories))
    if jobs:
        with suppress(SchedulerError):
            snapshot = queue.ask(at_most_s_old=_FRESH_S)
            old = [job for job, at in jobs.items() if not is_new(at, snapshot.asked_time)]
            queue.accounting.ask([job for job in old if job.job_id not in snapshot.jobs])


def _open_jobs(directories: Iterable[str]) -> Iterator[tuple[JobName, float]]:
    """Yield the jobs of the apps that are not known to be over, and when they were submitted."""
    for directory in directories:
        with suppress(DamagedFile, OSError):  # whoever looks at that app says so
            if not is_there(os.path.join(directory, FINAL)):
                job = read_shaped(JobFile, os.path.join(directory, JOB))
                if job is not None:
                    yield JobName(job.job_id, name_of(os.path.basename(directory))), job.time


def _asked(record: AppRecord, facts: Facts, queue: JobQueue) -> Job | None:
    job = _listed(record, facts, queue.ask(at_most_s_old=_FRESH_S))
    if job is not None and _is_forgotten(job):
        name = JobName(job.job_id, record.app_id)
        queue.accounting.ask([name])
        return _ours(record, queue.accounting.poll(name))
    return job


def _standing(record: AppRecord, facts: Facts, decision: Decision) -> Standing:
    if is_terminal(decision.state):
        return _over(record, _finished(record, decision))
    attempts = [list(rows) for rows in facts.attempts]
    told = status(record, decision, attempts, num_restarts=facts.num_restarts, result=last_result(record))
    return Standing(state=decision.state, ended_at=None, status=told, attempts=attempts)


def _listed(record: AppRecord, facts: Facts, snapshot: Snapshot) -> Job | None:
    """Find the app's job by its id, or by its comment when nobody had the time to write the id down.

    None: the answer may be too old to know of it.
    """
    if facts.job_id is not None:
        job = _ours(record, snapshot.jobs.get(facts.job_id))
    else:
        job = job_with(record.comment, snapshot.jobs.values())
    job = job or Job(job_id=facts.job_id or "", state=UNLISTED)
    too_old = job.state == UNLISTED and may_be_listed_yet(record, facts, snapshot.asked_time)
    return None if too_old else job


def _ours(record: AppRecord, job: Job | None) -> Job | None:
    """Return the job, but none that has come by the id after the controller lost its state."""
    if job is None or job.comment.startswith(record.comment):
        return job
    if job.name == record.app_id and not job.comment.startswith("torchx:"):
        return job  # somebody has changed its comment, or accounting keeps none
    return Job(job_id=job.job_id, state=UNLISTED)


def _is_forgotten(job: Job) -> bool:
    """Return whether only accounting can say how the job ended."""
    return job.state == UNLISTED and bool(job.job_id)


def _finished(record: AppRecord, decision: Decision) -> FinalFile:
    """Write the end down if it is for good, unless somebody was faster; return what counts."""
    facts = read_facts(record)  # once more: what the nodes wrote before the job was over is all there now
    final = dump_final(decision, facts, ended_at=_ended_at(facts), result=last_result(record))
    known = FinalFile(**{name: final[name] for name in FinalFile._fields})  # type: ignore[arg-type]  # our own
    if not decision.for_good:
        return known
    if not record.write(FINAL, final):
        logger.warning("no room to write down how app %s ended", record.app_id)
    return record.read(FINAL, FinalFile) or known


def _ended_at(facts: Facts) -> float:
    ends = [a[-1].ended_at for a in facts.attempts if a and a[-1].ended_at is not None]
    return max(ends) if ends and len(ends) == len(facts.attempts) else time.time()


def _over(record: AppRecord, final: FinalFile) -> Standing:
    with record.naming_damage():
        try:
            return load_final(record, final)
        except Misshapen as err:
            raise DamagedFile(record.path(FINAL), str(err)) from err


def jobs_left(directory: str, queue: JobQueue) -> list[str]:
    """Return Slurm's jobs for an app whose record cannot be used, by what is left: its id, their comment.

    Raises:
        SchedulerError: Slurm does not answer.
    """
    job = read_json(os.path.join(directory, JOB)) or {}
    session, app_id = map(name_of, directory.rsplit(os.sep, 2)[1:])
    comment = f"torchx:{session}/{app_id}:"
    jobs = queue.ask().jobs.values()
    known = [j for j in jobs if j.comment.startswith(comment) or j.job_id == job.get("job_id")]
    return sorted(j.job_id for j in known if not is_over(j))


def exists(record: AppRecord) -> bool:
    """Return whether the app was not deleted meanwhile."""
    return is_there(record.directory)
