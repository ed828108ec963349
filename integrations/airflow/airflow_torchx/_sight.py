"""Says of an app that it is not seen from here, where it was submitted, and what helps. Knows no Airflow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from socket import gethostname
from time import time

from airflow_torchx._record import Record
from airflow_torchx._tries import TaskTry
from torchx_core.errors import TorchXError
from torchx_core.launch import runs_on_this_host
from torchx_core.specs import AppState, AppStatus, parse_app_handle, split_place

__all__ = [
    "LOOK_AGAIN_S",
    "LostAppError",
    "OutOfSightError",
    "ends_with_task",
    "kept_end",
    "look_elsewhere",
    "may_be_elsewhere",
    "may_run_elsewhere",
    "noted_end",
    "this_host",
    "with_end",
]

LOOK_AGAIN_S = 30.0
"""How long after a look for the app on a wrong host the next one is due, perhaps on the right one.

Not below `Deferral.not_before`'s 8 s, for the same reason: Airflow would fail the task.
"""
LOOK_FOR_S = 1800.0
"""How long to look where no lease says by when the app is over."""
LONGEST_END = 20_000
"""How many characters of JSON are kept of an app's end."""
OWN_CONTAINER = ("AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER")
"""What is set where an executor gives each try a container: Kubernetes, and those of ECS and Batch."""
ADVICE = "give the task a queue that the workers of one host serve"


def ends_with_task(app: str) -> bool:
    """Return whether the app ends with the process of this try, whose container is there for it alone.

    Args:
        app: Its handle; words that say that there is none yet are true of no app.
    """
    is_alone = any(os.environ.get(name) for name in OWN_CONTAINER)
    return is_alone and runs_on_this_host(app.partition("://")[0])


def this_host() -> str:
    """Return the name by which records know the host."""
    return gethostname()


def with_end(record: Record, status: AppStatus | None) -> Record:
    """Return the record with how the app ended, if it has.

    Of a success the whole status is kept, for a try that sees nothing of the app.
    """
    if status is None:
        return record
    return replace(record, ended=status.state.name, final_status=kept_end(status))


def kept_end(status: AppStatus | None) -> dict[str, object] | None:
    """Return what is kept of how an app ended, as JSON: a success that is not too long; otherwise None."""
    if status is None or status.state is not AppState.SUCCEEDED:
        return None
    end = status.to_json()
    return end if len(json.dumps(end)) <= LONGEST_END else None


def noted_end(record: Record, say: Callable[[str], None]) -> AppStatus | None:
    """Return how an app that is unknown here has succeeded, as was written down, and say so; or None."""
    if not record.final_status:
        return None
    say(f"{record.handle} has succeeded, and is unknown here: its result is taken")
    return AppStatus.from_json(record.final_status)


def may_be_elsewhere(record: Record) -> bool:
    """Return whether an app that is unknown here may be known where it was submitted, and is of use there.

    One that failed is of none, wherever it is: the next attempt is due.
    """
    if record.host == this_host() or record.ended not in {"", AppState.SUCCEEDED.name}:
        return False
    scheduler, place = split_place(parse_app_handle(record.handle).scheduler_backend)
    return record.submitted or (scheduler.startswith("local_") and place is None and record.host != "")


def why_gone(record: Record) -> str:
    """Say why an app that is unknown here is not looked for elsewhere."""
    if record.ended:
        return f"{record.handle} ended {record.ended} on host {record.host}"
    return f"{record.handle} is gone: it was deleted on this host, {this_host()}, where it was submitted"


def may_run_elsewhere(record: Record, this_try: TaskTry) -> bool:
    """Return whether an app of an earlier generation, unknown here, may still run where it was submitted.

    A user who clears a task again after it has failed for just this doubt says that it does not.
    """
    is_answered = record.reported_lost not in {None, this_try.generation}
    return may_be_elsewhere(record) and not record.ended and not is_answered


def look_elsewhere(record: Record, this_try: TaskTry, save: Callable[[Record], None]) -> None:
    """Have the try started again until the app that we cannot see must have ended, its lease not renewed.

    Waiting here would take a slot, and failing a retry; and no other worker could look.

    Raises:
        OutOfSightError: It may still run.
        LostAppError: Nobody can tell.
    """
    since = record.missed_since or time()
    until = look_until(record, since)
    save(replace(record, missed_since=since))
    if time() < until:
        raise OutOfSightError(record, until)
    if record.lease_s is None:
        save(replace(record, missed_since=None, reported_lost=this_try.generation))
        raise LostAppError(record)


def look_until(record: Record, since: float) -> float:
    """Return when an app that was first not seen at `since` must be over; both in seconds since the epoch."""
    return since + (record.lease_s or LOOK_FOR_S)


class LostAppError(TorchXError):
    """The app was submitted and the scheduler does not know it any more."""

    def __init__(self, record: Record) -> None:
        """Name the app."""
        super().__init__(
            f"{_whereabouts(record)}; without a lease nobody can tell whether it still runs; end it there"
            f" (torchx-core cancel '{record.handle}') and clear the task to run it afresh, or {ADVICE}"
        )


class OutOfSightError(TorchXError):
    """The app was submitted from another host, it seems, and a worker there may get this try yet."""

    def __init__(self, record: Record, until: float) -> None:
        """Name the app, its host and this one."""
        then = "its lease is over, and a new app is started" if record.lease_s else "the try gives up"
        super().__init__(
            f"{_whereabouts(record)}; looking again in {LOOK_AGAIN_S:g} s, perhaps there; in"
            f" {max(0.0, until - time()):.0f} s {then}; {ADVICE}"
        )


def _whereabouts(record: Record) -> str:
    return (
        f"{record.handle} was submitted on host {record.host or 'unknown'} by an earlier process of this"
        f" task, and is unknown on this one, {this_host()}"
    )
