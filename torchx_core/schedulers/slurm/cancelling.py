"""Puts down the request that an app ends, and has Slurm wake whoever is to see to it."""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from typing import Final

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.commands import CommandFailed, ask, call
from torchx_core.schedulers.slurm.facts import read_facts
from torchx_core.schedulers.slurm.job import job_with, parse_queue
from torchx_core.schedulers.slurm.queue import QUESTION
from torchx_core.schedulers.slurm.record import STOP, AppRecord
from torchx_core.specs import AppState
from torchx_core.supervisor.records import read_json
from torchx_core.supervisor.shape import is_number

__all__ = ["end_in_slurm", "wake_tasks", "write_cancel_request"]

logger: Final = logging.getLogger(__name__)

_LOCK: Final = "cancel.lock"
PATIENCE_S: Final = 4.0
"""How long Slurm may take for all that it is asked to do; whoever cancels may have little time."""

_WAITING: Final = (("--state=PENDING",),)
_BEGUN: Final = (
    ("--state=RUNNING", "--signal=CONT"),  # without the state, scancel retries for a minute when it waits
    ("--state=SUSPENDED",),  # nobody there would look
    *_WAITING,  # again, after a requeue
)
"""What scancel is told of a job, of which no more than its last state is known."""


def write_cancel_request(record: AppRecord, grace_s: float | None, reason: str) -> bool:
    """Write the request, which the nodes obey within a second; return whether there was room.

    The first request counts, but for its grace period: a later one may cut it short.
    """
    stop: dict[str, object] = {
        "outcome": AppState.CANCELLED.name,
        "msg": reason or "cancelled",
        "grace_s": grace_s,
        "time": time.time(),
        "index": -1,
    }
    if not record.write(STOP, stop):
        return False
    return grace_s is None or _hasten(record, grace_s)


def _hasten(record: AppRecord, grace_s: float) -> bool:
    """Have the nodes kill what is left after this long, if the request that is there has more time."""
    with record.locked(_LOCK):
        stop = read_json(record.path(STOP))
        if stop is None:
            return True
        waiting = (stop.get("sooner_s"), stop.get("grace_s"), record.cfg.get("grace_s"))
        present = next((float(str(s)) for s in waiting if is_number(s)), math.inf)
        return grace_s >= present or record.replace(STOP, {**stop, "sooner_s": grace_s})


def wake_tasks(record: AppRecord) -> None:
    """Have Slurm make the nodes look at once, take a job that waits from its queue, end one it has suspended.

    Takes seconds at most. Slurm being away, the request stands, and a job that begins later ends at once.
    """
    deadline = time.monotonic() + PATIENCE_S
    facts = read_facts(record)
    try:
        job_id = facts.job_id or _listed_job(record)
        for words in _BEGUN if facts.begun else _WAITING:
            if job_id is not None:
                with suppress(CommandFailed):  # it has just ended
                    call(["scancel", *words, job_id], patience_s=max(0.0, deadline - time.monotonic()))
    except SchedulerError as err:
        logger.warning("app %s is to end, and Slurm cannot be told just now: %s", record.app_id, err)


def end_in_slurm(record: AppRecord) -> None:
    """Have Slurm end the job itself, for want of room for the request; the reason is lost.

    Raises:
        SchedulerError: Slurm is away, or has no job yet; retryable.
    """
    job_id = read_facts(record).job_id
    if job_id is None:
        raise SchedulerError(f"cannot cancel app {record.app_id!r}: the disk is full", retryable=True)
    call(["scancel", job_id], patience_s=PATIENCE_S)


def _listed_job(record: AppRecord) -> str | None:
    """Return the job of a submitter that died before it could write its id down."""
    job = job_with(record.comment, ask(QUESTION, parse_queue, patience_s=PATIENCE_S).values())
    return job.job_id if job else None
