"""Decides how an app stands: from its own files, then from what Slurm says; pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from torchx_core.schedulers.slurm.exits import exit_of
from torchx_core.schedulers.slurm.facts import Facts
from torchx_core.schedulers.slurm.queue import Job, is_over, is_waiting
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.specs import AppState

__all__ = ["Verdict", "decide", "exit_words"]

_UNSEEN_S: Final = 60.0
"""How long a job that Slurm does not list is taken for one that is about to be."""
_TOLD: Final = {
    "NODE_FAIL": "node {nodes} failed",
    "BOOT_FAIL": "node {nodes} did not boot",
    "PREEMPTED": "the job was preempted and not started again",
    "TIMEOUT": "the job ran into Slurm's time limit",
    "DEADLINE": "the job could not end before its deadline in Slurm",
    "OUT_OF_MEMORY": "the job ran out of memory on {nodes}",
    "REVOKED": "the job was revoked",
}


class Verdict(NamedTuple):
    """How the app stands."""

    state: AppState
    msg: str = ""


def decide(
    record: AppRecord, facts: Facts, job: Job | None, *, listed_for_s: float | None, now: float
) -> Verdict:
    """Return the app's state; a terminal one is for good.

    Args:
        record: What was submitted.
        facts: Its files.
        job: What Slurm says of its job; None when Slurm does not list it, or was not asked.
        listed_for_s: How long ago Slurm was asked; None when it does not answer.
        now: Seconds since the epoch.
    """
    if facts.all_left:
        verdict = _by_the_nodes(record, facts)
        if verdict is not None:
            return verdict
    if facts.job_id is None and job is None:
        return _without_a_job(record, facts, listed_for_s, now)
    if job is None:
        if listed_for_s is None or now - record.created_at < _UNSEEN_S:
            return _alive(facts)
        return _over(record, facts, Job(job_id=facts.job_id or "", state="UNLISTED"))
    if not is_over(job):
        waits = is_waiting(job) and job.restarts >= len(facts.runs)  # else Slurm said so before it began
        return Verdict(AppState.PENDING, _waiting(job)) if waits else _alive(facts)
    return _over(record, facts, job)


def _by_the_nodes(record: AppRecord, facts: Facts) -> Verdict | None:
    """Return the outcome when every task has come to its end and it is clear why."""
    if facts.stop is not None:
        return _stopped(record, facts)
    if all(attempts and attempts[-1].code == 0 and not attempts[-1].told for attempts in facts.attempts):
        return Verdict(AppState.SUCCEEDED)
    return None


def _stopped(record: AppRecord, facts: Facts) -> Verdict:
    stop = facts.stop
    assert stop is not None
    state = AppState[stop.outcome]
    if stop.index < 0:
        return Verdict(state, stop.msg)
    planned = record.replicas[stop.index]
    attempts = facts.attempts[stop.index]
    how = exit_words(attempts[-1].code) if attempts else "did not start"
    return Verdict(state, f"{planned.role}/{planned.replica} failed: {how}")


def _without_a_job(record: AppRecord, facts: Facts, listed_for_s: float | None, now: float) -> Verdict:
    """Judge an app that was not handed to Slurm; if its submitter died, only a submit of its id can help."""
    if facts.submitting or now - record.created_at < _UNSEEN_S or listed_for_s is None:
        return Verdict(AppState.SUBMITTED)
    return Verdict(AppState.FAILED, "its submitter ended before the job was handed to Slurm; submit it again")


def _alive(facts: Facts) -> Verdict:
    if not any(facts.attempts):
        return Verdict(AppState.PENDING)
    return Verdict(AppState.RUNNING, f"stopping: {facts.stop.msg}" if facts.stop and facts.stop.msg else "")


def _waiting(job: Job) -> str:
    return f"waiting in Slurm's queue: {job.reason}" if job.reason not in {"", "None"} else ""


def _over(record: AppRecord, facts: Facts, job: Job) -> Verdict:
    """Judge an app whose job is over: Slurm's state first, exit codes second."""
    if facts.stop is not None:
        return _stopped(record, facts)
    if job.state == "CANCELLED":
        return Verdict(AppState.CANCELLED, f"job {job.job_id} was cancelled in Slurm")
    if job.state in _TOLD:
        return Verdict(AppState.FAILED, _TOLD[job.state].format(nodes=_lost_nodes(facts) or job.nodes))
    bad = [
        (index, attempts[-1] if attempts else None)
        for index, attempts in enumerate(facts.attempts)
        if not attempts or attempts[-1].code != 0
    ]
    if not bad:
        return Verdict(AppState.SUCCEEDED)
    index, attempt = bad[0]
    planned = record.replicas[index]
    how = exit_words(attempt.code) if attempt else "did not start"
    said = "Slurm no longer lists its job" if job.state == "UNLISTED" else f"Slurm says {job.state}"
    return Verdict(AppState.FAILED, f"{planned.role}/{planned.replica} failed: {how}; {said}")


def _lost_nodes(facts: Facts) -> str:
    """Return the hosts of the latest run on which a replica has not ended."""
    last = len(facts.runs) - 1
    hosts = {a[-1].host for a in facts.attempts if a and a[-1].run == last and a[-1].code is None}
    everybody = {a[-1].host for a in facts.attempts if a}
    return ",".join(sorted(hosts)) if hosts != everybody or len(hosts) == 1 else ""


def exit_words(code: int | None) -> str:
    """Return how an attempt ended, for people."""
    if code is None:
        return "nobody saw its end"
    exit_code, name = exit_of(code)
    return f"exit code {exit_code}" if name is None else f"killed by {name}"
