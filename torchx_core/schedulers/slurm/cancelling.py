"""Puts down the wish that an app ends, and makes the nodes look at once."""

from __future__ import annotations

import time
from contextlib import suppress

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.commands import call
from torchx_core.schedulers.slurm.facts import Facts, read_facts
from torchx_core.schedulers.slurm.record import STOP, AppRecord
from torchx_core.specs import AppState
from torchx_core.supervisor.records import write_once

__all__ = ["ask_to_end"]


def ask_to_end(record: AppRecord, grace_s: float | None, reason: str) -> None:
    """Write the wish, which the nodes obey within a second, and ring them; the first wish counts.

    A job that has not begun is taken from the queue. Slurm being away, the wish stands, and a job that begins
    later ends at once.
    """
    stop: dict[str, object] = {
        "outcome": AppState.CANCELLED.name,
        "msg": reason or "cancelled",
        "grace_s": grace_s,
        "time": time.time(),
        "index": -1,
    }
    write_once(record.directory, STOP, stop)
    facts = read_facts(record)
    if facts.job_id is not None:
        with suppress(SchedulerError):
            call(_command(facts, facts.job_id))


def _command(facts: Facts, job_id: str) -> list[str]:
    return ["scancel", "--signal=CONT", job_id] if facts.begun else ["scancel", "--state=PENDING", job_id]
