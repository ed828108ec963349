"""Puts down the wish that an app ends, and makes the nodes look at once."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.commands import call
from torchx_core.schedulers.slurm.facts import read_facts
from torchx_core.schedulers.slurm.record import STOP, AppRecord
from torchx_core.specs import AppState

__all__ = ["ask_to_end"]

_WAITING: Final = (("--state=PENDING",),)
_BEGUN: Final = (
    ("--state=RUNNING", "--signal=CONT"),  # without the state, scancel retries for a minute when it waits
    ("--state=SUSPENDED",),  # nobody there would look
    *_WAITING,  # again, after a requeue
)
"""What scancel is told of a job, of which no more than its last state is known."""


def ask_to_end(record: AppRecord, grace_s: float | None, reason: str) -> None:
    """Write the wish, which the nodes obey within a second, and ring them; the first wish counts.

    A job that waits is taken from the queue, and one that Slurm has suspended is ended by Slurm. Slurm being
    away, the wish stands, and a job that begins later ends at once. Without room for the wish, Slurm is
    to end the job itself; the reason is lost.

    Raises:
        SchedulerError: There is no room, and Slurm is away or has no job yet; retryable.
    """
    stop: dict[str, object] = {
        "outcome": AppState.CANCELLED.name,
        "msg": reason or "cancelled",
        "grace_s": grace_s,
        "time": time.time(),
        "index": -1,
    }
    if not record.write(STOP, stop):
        _end_in_slurm(record)
        return
    facts = read_facts(record)
    if facts.job_id is not None:
        for words in _BEGUN if facts.begun else _WAITING:
            with suppress(SchedulerError):
                call(["scancel", *words, facts.job_id])


def _end_in_slurm(record: AppRecord) -> None:
    job_id = read_facts(record).job_id
    if job_id is None:
        raise SchedulerError(f"cannot cancel app {record.app_id!r}: the disk is full", retryable=True)
    call(["scancel", job_id])
