"""Decides: what a try does about the app it finds, and about a kill. Functions of values only."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from airflow_torchx._record import Record
from airflow_torchx._tries import TaskTry
from torchx_core.specs import AppState, is_terminal

if TYPE_CHECKING:
    from airflow_torchx._arguments import OnWorkerShutdown

__all__ = [
    "CLEARED_REASON",
    "Finding",
    "OnKill",
    "Standing",
    "find",
    "judge_kill",
    "reason_of_user",
    "reason_of_worker",
    "stand",
]


class Standing(Enum):
    """How a try stands to the record."""

    FIRST = "no try of this task instance has come this far"
    RETRY = "the record is of this generation"
    CLEARED = "the record is of an earlier generation: the task was cleared since"
    OVERTAKEN = "a newer try has written the record"


def stand(record: Record | None, this_try: TaskTry) -> Standing:
    """Compare the try with the record.

    A generation that differs in either direction means a clear: somebody may have lowered ``retries`` in the
    DAG before clearing. Which try is newer shows in the try number alone.
    """
    if record is None:
        return Standing.FIRST
    if record.try_number > this_try.number:
        return Standing.OVERTAKEN
    return Standing.RETRY if record.generation == this_try.generation else Standing.CLEARED


class Finding(Enum):
    """What the scheduler says about the recorded app."""

    FREE = "not there and never confirmed: submit it"
    LIVE = "active, or succeeded: follow it to its end"
    OVER = "ended otherwise than SUCCEEDED: the next attempt is due"
    GONE = "unknown on the host from which it was submitted: the next attempt is due"
    LOST = "unknown here: it may run where this worker cannot see it"


def find(state: AppState | None, record: Record, *, elsewhere: bool) -> Finding:
    """Judge the recorded app.

    Args:
        state: Its state; None when the scheduler does not know it.
        record: What is remembered of it.
        elsewhere: Whether another host may know an app that this one does not.
    """
    if state is None:
        return Finding.LOST if elsewhere else Finding.GONE if record.submitted else Finding.FREE
    if is_terminal(state) and state is not AppState.SUCCEEDED:
        return Finding.OVER
    return Finding.LIVE


class OnKill(Enum):
    """What happens to the app when Airflow ends the task's process."""

    CANCEL = "cancel"
    DETACH = "detach"


_ANOTHER_TRY_COMES = frozenset(
    {"no_status", "up_for_retry", "scheduled", "queued", "up_for_reschedule", "deferred"}
)
"""States in which Airflow has given this try up, for want of heartbeats or because its scheduler died.

A scheduler that resets what another one has left behind grants one more try even to a task without retries.
"""
_UNDER_WAY = _ANOTHER_TRY_COMES | {"running"}
"""States in which nobody has asked for the task's end: only its process is to go."""
_CLEARED = _UNDER_WAY | {"restarting"}
"""What a deferred task is in once it was cleared; ``restarting`` is one that was cleared while it ran."""
CLEARED_REASON: Final = "cancelled because the Airflow task was cleared"


def judge_kill(ti_state: str | None, on_worker_shutdown: OnWorkerShutdown, *, is_last_try: bool) -> OnKill:
    """Decide by the state that the task instance has while its process is being ended.

    Args:
        ti_state: The state; None when Airflow knows the task instance no more, because its run was deleted.
            ``running`` is what a worker shutdown looks like.
        on_worker_shutdown: The user's choice.
        is_last_try: Whether no retry would take the app over.
    """
    if ti_state not in _UNDER_WAY or on_worker_shutdown == "cancel":
        return OnKill.CANCEL
    if ti_state == "running" and is_last_try:
        return OnKill.CANCEL
    return OnKill.DETACH


def reason_of_worker(ti_state: str | None) -> str:
    """Say why a task's process cancels its app, by the state in which the task instance is."""
    if ti_state in _UNDER_WAY:
        return "cancelled because the Airflow worker shut down"
    return reason_of_user(ti_state)


def reason_of_user(ti_state: str | None) -> str:
    """Say which act of a user's cancels the app of a task that is in that state."""
    if ti_state in _CLEARED:
        return CLEARED_REASON
    return f"cancelled by user action in Airflow: the task instance is {ti_state or 'deleted'}"
