"""Decides: what a try does about the app it finds, and about a kill. Functions of values only."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from airflow_torchx._record import Record
from airflow_torchx._tries import TaskTry
from torchx_core.specs import AppState, is_terminal

__all__ = ["Finding", "OnWorkerShutdown", "Standing", "Verdict", "find", "judge_kill", "stand"]

OnWorkerShutdown: TypeAlias = Literal["detach", "cancel"]


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
    LOST = "confirmed once and unknown now: it may run where this worker cannot see it"


def find(record: Record, state: AppState | None) -> Finding:
    """Judge the recorded app by its state; None when the scheduler does not know it."""
    if state is None:
        return Finding.LOST if record.submitted else Finding.FREE
    if is_terminal(state) and state is not AppState.SUCCEEDED:
        return Finding.OVER
    return Finding.LIVE


class Verdict(Enum):
    """What happens to the app when Airflow ends the task's process."""

    CANCEL = "cancel"
    DETACH = "detach"


_INFRASTRUCTURE = frozenset(
    {"running", "up_for_retry", "scheduled", "queued", "up_for_reschedule", "deferred"}
)
"""States in which nobody has asked for the task's end: only its process is to go.

``running`` is what a worker shutdown looks like; the others mean that Airflow has given this try up, for want
of heartbeats, and that another one is coming.
"""


def judge_kill(ti_state: str | None, on_worker_shutdown: OnWorkerShutdown, *, is_last_try: bool) -> Verdict:
    """Decide by the state that the task instance has while its process is being ended.

    Args:
        ti_state: The state; None when Airflow knows the task instance no more, because its run was deleted.
        on_worker_shutdown: The user's choice.
        is_last_try: Whether no retry would take the app over.
    """
    if ti_state not in _INFRASTRUCTURE:
        return Verdict.CANCEL
    if on_worker_shutdown == "cancel" or is_last_try:
        return Verdict.CANCEL
    return Verdict.DETACH
