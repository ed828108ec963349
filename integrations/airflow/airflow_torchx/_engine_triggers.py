"""What `_engine` is for tasks, for triggers: DAG files need none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_torchx._engine import read_note, write_note
from airflow_torchx._engine_states import Instance, instance_of, states_of
from airflow_torchx._together import Together

__all__ = [
    "KILLS_REACH_TRIGGERS",
    "BaseTrigger",
    "TaskSuccessEvent",
    "TriggerEvent",
    "is_users_act",
    "load_note",
    "make_event",
    "present_state_of",
    "save_note",
]

KILLS_REACH_TRIGGERS = hasattr(BaseTrigger, "on_kill")
"""Whether a trigger is told that a user has ended its task: since 3.3."""


_STATES: Together[Instance, str | None] = Together(states_of)
"""A triggerer puts one question after the other to Airflow's server; three hundred of them take a minute."""


async def present_state_of(trigger: BaseTrigger) -> str | None:
    """Return what `_engine.present_state` returns, for the deferred task of a trigger.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    return await _STATES.answer(instance_of(trigger.task_instance))


def is_users_act(cancelled: asyncio.CancelledError) -> bool:
    """Return whether a trigger was cancelled for a user's act; a triggerer that stops gives no reason."""
    return bool(cancelled.args)


def make_event(payload: Mapping[str, object]) -> TriggerEvent:
    """Return the event that resumes the task with this payload."""
    return TriggerEvent(dict(payload))  # type: ignore[no-untyped-call]


async def load_note(trigger: BaseTrigger, key: str) -> str | None:
    """Return what an earlier run of this trigger has left; None in ``dag.test()``, where there is no task.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    ti: Any = trigger.task_instance
    return None if ti is None else await asyncio.to_thread(read_note, ti, key)


async def save_note(trigger: BaseTrigger, key: str, value: str) -> None:
    """Leave something to the next run of this trigger: an XCom is all that a trigger can write.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    ti: Any = trigger.task_instance
    if ti is not None:
        await asyncio.to_thread(write_note, ti, key, value)
