"""What `_engine` is for tasks, for triggers: DAG files need none of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Generic, TypeVar, final

import structlog
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_torchx._engine import mask_secrets, read_note, write_note
from airflow_torchx._engine_states import Instance, instance_of, states_of

__all__ = [
    "KILLS_REACH_TRIGGERS",
    "BaseTrigger",
    "TaskSuccessEvent",
    "Together",
    "TriggerEvent",
    "ask_airflow",
    "hide_secrets",
    "is_users_act",
    "load_note",
    "make_event",
    "present_state_of",
    "save_note",
    "unread_log",
]

KILLS_REACH_TRIGGERS = hasattr(BaseTrigger, "on_kill")
"""Whether a trigger is told that a user has ended its task: since 3.3."""

Answer = TypeVar("Answer")
Key = TypeVar("Key")


@final
class Together(Generic[Key, Answer]):
    """Asks one question at a time, for all who want to know something.

    Whoever comes while a question is under way is part of the next one: no answer is older than the wish to
    have it.
    """

    def __init__(self, ask: Callable[[Collection[Key]], Awaitable[Mapping[Key, Answer]]]) -> None:
        """Ask nothing yet.

        Args:
            ask: Answers for all keys at once.
        """
        self._ask = ask
        self._next: tuple[set[Key], asyncio.Task[Mapping[Key, Answer]]] | None = None
        self._latest: asyncio.Task[Mapping[Key, Answer]] | None = None

    async def answer(self, key: Key) -> Answer:
        """Return the answer for this key; raise what the question raised."""
        keys, answers = self._joinable()
        keys.add(key)
        return (await asyncio.shield(answers))[key]  # one who leaves takes the answer from nobody

    def _joinable(self) -> tuple[set[Key], asyncio.Task[Mapping[Key, Answer]]]:
        """Return the question that is not asked yet."""
        if self._next is None or self._next[1].done():  # done before it was asked: its event loop has ended
            keys: set[Key] = set()
            self._latest = asyncio.create_task(self._ask_after(self._latest, keys))
            self._next = keys, self._latest
        return self._next

    async def _ask_after(
        self, earlier: asyncio.Task[Mapping[Key, Answer]] | None, keys: set[Key]
    ) -> Mapping[Key, Answer]:
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        self._next = None
        return await self._ask(keys)


async def ask_airflow(ask: Callable[..., Answer], *args: object) -> Answer:
    """Call in a thread what may ask Airflow's server for something: the only way to do so from a trigger.

    A triggerer and its triggers share one pipe. Airflow 3.1 knows of two threads that use it properly: the
    event loop's, and one that `sync_to_async` has started. Any other, as `asyncio.to_thread` starts it, reads
    answers that are another's, and so does whoever comes after a question that was cancelled half-way: the
    triggerer notices, and dies with all its triggers. Hence the shield.
    """
    asking = asyncio.create_task(sync_to_async(ask, thread_sensitive=False)(*args))
    return await asyncio.shield(asking)


async def _ask_states(instances: Collection[Instance]) -> Mapping[Instance, str | None]:
    return await ask_airflow(states_of, instances)


_STATES: Together[Instance, str | None] = Together(_ask_states)
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
    return None if ti is None else await ask_airflow(read_note, ti, key)


async def save_note(trigger: BaseTrigger, key: str, value: str) -> None:
    """Leave something to the next run of this trigger: an XCom is all that a trigger can write.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    ti: Any = trigger.task_instance
    if ti is not None:
        await ask_airflow(write_note, ti, key, value)


async def hide_secrets(env: Mapping[str, str]) -> None:
    """Do what `_engine.mask_secrets` does, which tells Airflow's own process too."""
    await ask_airflow(mask_secrets, env)


def unread_log() -> int:
    """Return whether Airflow has yet to read some of this process's log: not 0 then; 0 where nobody can tell.

    A triggerer reads the log of its triggers in pieces of 4 KB, one each time it has gone through its other
    work, and closes the log of a trigger that has ended. What it reads of that later is in its own log alone.
    """
    output: Any = getattr(structlog.get_config()["logger_factory"], "io", None)
    try:
        return int.from_bytes(ioctl(output.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    except (AttributeError, OSError, ValueError):
        return 0
