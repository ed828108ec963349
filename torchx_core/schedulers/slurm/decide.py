"""Decides how an app stands: from its own files, then from what Slurm says; pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from torchx_core.schedulers.slurm.facts import Attempt, Facts, Stop
from torchx_core.schedulers.slurm.job import UNLISTED, Job, is_over, is_waiting
from torchx_core.schedulers.slurm.record import SLURM_LOG, AppRecord
from torchx_core.specs import AppState
from torchx_core.supervisor.signals import exit_of
from torchx_core.supervisor.usage import out_of_memory

__all__ = ["Decision", "decide", "exit_words", "is_new", "may_be_listed_yet"]

UNSEEN_S: Final = 60.0
"""How long a job that Slurm does not list is taken for one that is about to be."""
CLOCKS_DIFFER_S: Final = 60.0
"""By how much, at most, the clocks of the cluster's hosts."""
_TOLD: Final = {
    "NODE_FAIL": "node {nodes} failed",
    "BOOT_FAIL": "node {nodes} did not boot",
    "PREEMPTED": "the job was preempted and not started again",
    "TIMEOUT": "the job ran into Slurm's time limit",
    "DEADLINE": "the job could not end before its deadline in Slurm",
    "REVOKED": "the job was revoked",
}
_HALTED: Final = {"SUSPENDED": "suspended in Slurm", "STOPPED": "stopped in Slurm"}


class Decision(NamedTuple):
    """How the app stands."""

    state: AppState
    msg: str = ""
    for_good: bool = True
    """Whether it stays so, being terminal; else a submit of the app's id still makes it run."""


def decide(record: AppRecord, facts: Facts, job: Job | None) -> Decision:
    """Return how the app stands.

    Args:
        record: What was submitted.
        facts: Its files.
        job: What Slurm says of its job, which may be that it knows of none (`UNLISTED`); None when Slurm
            does not answer, or may not know it yet.
    """
    if facts.all_left:
        decision = _by_the_nodes(record, facts)
        if decision is not None:
            return decision
    if job is None:
        return _alive(facts) if facts.job_id is not None else Decision(AppState.SUBMITTED)
    if facts.job_id is None and job.state == UNLISTED:
        return _without_a_job(facts)
    if not is_over(job):
        waits = is_waiting(job) and job.restarts >= len(facts.runs)  # else Slurm said so before it began
        return Decision(AppState.PENDING, _waiting(facts, job)) if waits else _alive(facts, job)
    return _over(record, facts, job)


def may_be_listed_yet(record: AppRecord, facts: Facts, asked_at: float) -> bool:
    """Return whether a job that Slurm did not list, when it was asked, may have been too new for it."""
    if facts.job_id is None and (facts.submitting or facts.stop is not None):
        return facts.submitting  # whoever finds the app stopped submits nothing
    return is_new(max(record.created_at, facts.submitted_at), asked_at)


def is_new(submitted_at: float, asked_at: float) -> bool:
    """Return whether Slurm, when it was asked, may not have listed a job that was submitted at that time."""
    return asked_at - submitted_at < UNSEEN_S


def _by_the_nodes(record: AppRecord, facts: Facts) -> Decision | None:
    """Return the outcome when every task has come to its end and it is clear why."""
    if facts.stop is not None:
        return None if _came_too_late(facts.stop, _last_end(facts)) else _stopped(record, facts)
    if all(attempts and _is_good(attempts[-1]) for attempts in facts.attempts):
        return Decision(AppState.SUCCEEDED)
    return None


def _stopped(record: AppRecord, facts: Facts) -> Decision:
    stop = facts.stop
    assert stop is not None
    state = AppState[stop.outcome]
    if stop.index < 0:
        return Decision(state, stop.msg)
    why = f"; {stop.msg}" if stop.msg else ""
    return Decision(state, f"{_failure(record, facts, stop.index)}{why}")


def _without_a_job(facts: Facts) -> Decision:
    """Judge an app that was not handed to Slurm: its submitter died, so only a submit of its id can help."""
    if facts.stop is not None:
        return Decision(AppState[facts.stop.outcome], facts.stop.msg)
    why = "its submitter ended before the job was handed to Slurm; submit it again"
    return Decision(AppState.FAILED, why, for_good=False)


def _alive(facts: Facts, job: Job | None = None) -> Decision:
    if not any(facts.attempts):
        return Decision(AppState.PENDING)
    if facts.stop and facts.stop.msg:
        return Decision(AppState.RUNNING, f"stopping: {facts.stop.msg}")
    return Decision(AppState.RUNNING, _HALTED.get(job.state, "") if job else "")


def _waiting(facts: Facts, job: Job) -> str:
    again = " again" if facts.begun else ""
    return f"waiting in Slurm's queue{again}: {job.reason}" if job.reason not in {"", "None"} else ""


def _over(record: AppRecord, facts: Facts, job: Job) -> Decision:
    """Judge an app whose job is over: Slurm's state first, exit codes second."""
    if facts.stop is not None and not _came_too_late(facts.stop, job.ended_at):
        return _stopped(record, facts)
    if job.state == "CANCELLED":
        by = f" by {job.ended_by}" if job.ended_by else ""
        return Decision(AppState.CANCELLED, f"job {job.job_id} was cancelled in Slurm{by}")
    nodes = _lost_nodes(facts) or job.nodes
    if job.state == "OUT_OF_MEMORY":
        return Decision(AppState.FAILED, f"{_out_of_memory(record, facts)}, on {nodes}")
    if job.state in _TOLD:
        return Decision(AppState.FAILED, _TOLD[job.state].format(nodes=nodes))
    lost = [i for i, attempts in enumerate(facts.attempts) if not attempts or not _is_good(attempts[-1])]
    if not lost:
        return Decision(AppState.SUCCEEDED)
    said = "Slurm no longer lists its job" if job.state == UNLISTED else f"Slurm says {job.state}"
    more = record.path(SLURM_LOG)
    return Decision(AppState.FAILED, f"{_failure(record, facts, lost[0])}; {said}; see {more}")


def _came_too_late(stop: Stop, ended_at: float) -> bool:
    """Return whether it is a request to end what was over: whoever cancels does not ask Slurm first."""
    return stop.index < 0 and bool(ended_at) and stop.time > ended_at + CLOCKS_DIFFER_S


def _last_end(facts: Facts) -> float:
    return max((a[-1].ended_at or 0.0 for a in facts.attempts if a), default=0.0)


def _is_good(attempt: Attempt) -> bool:
    return attempt.code == 0 and not attempt.told


def _out_of_memory(record: AppRecord, facts: Facts) -> str:
    """Say what of the replicas that did not end well is known to have had most."""
    ends = [
        (attempts[-1].peak_mb or 0, planned.role)
        for planned, attempts in zip(record.replicas, facts.attempts, strict=True)
        if attempts and not _is_good(attempts[-1])
    ]
    peak_mb, role = max(ends, default=(0, record.replicas[0].role))
    return out_of_memory(peak_mb or None, record.memory_limit_mb(role))


def _failure(record: AppRecord, facts: Facts, index: int) -> str:
    planned, attempts = record.replicas[index], facts.attempts[index]
    how = exit_words(attempts[-1].code) if attempts else "did not start"
    if attempts and attempts[-1].figures.oom:
        how += f" ({out_of_memory(attempts[-1].peak_mb, record.memory_limit_mb(planned.role))})"
    told = " after Slurm told it to end" if facts.stop is None and attempts and attempts[-1].told else ""
    return f"{planned.role}/{planned.replica} failed: {how}{told}"


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
