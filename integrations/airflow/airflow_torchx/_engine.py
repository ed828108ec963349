"""Everything that touches Airflow where it is untyped, private, or differs between 3.1, 3.2 and 3.3."""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import structlog
from airflow.sdk import BaseOperator, Context, XComArg
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.log import mask_secret

from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._tries import TaskTry

if TYPE_CHECKING:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout
else:
    try:
        from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout
    except ImportError:  # 3.1
        from airflow.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowTaskTimeout",
    "BaseOperator",
    "Context",
    "Level",
    "TaskStateStore",
    "XComArg",
    "emit",
    "longest_retry_delay_s",
    "mask_secrets",
    "present_state",
    "push_xcom",
    "started_at",
    "supervisor_is_gone",
    "task_state_store",
    "this_try",
]

Level: TypeAlias = Literal["info", "warning", "error"]

LONGEST_DELAY = timedelta(days=1)
"""Airflow's own limit of a delay that grows."""
MOST_DOUBLINGS = 32

MASKED_CHARS = 5
"""Airflow masks no shorter value, and says so each time."""

_log = structlog.get_logger("airflow_torchx")


def this_try(context: Context) -> TaskTry:
    """Return which try of which task instance runs."""
    ti = _task_instance(context)
    return TaskTry(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        ti_id=str(ti.id),
        number=ti.try_number,
        generation=ti.max_tries,
    )


def started_at(context: Context) -> float:
    """Return when this try started, in seconds since the epoch."""
    ti = _task_instance(context)
    start: datetime = ti.start_date
    return start.timestamp()


def longest_retry_delay_s(operator: BaseOperator) -> float:
    """Return how long Airflow may wait between two tries of the task, in seconds; 0 when it never retries."""
    if not operator.retries:
        return 0.0
    delay = operator.retry_delay.total_seconds()
    # Airflow adds up to as much again at random. In 3.1 the multiplier is a bool, and True stands for 2.
    multiplier = float(operator.retry_exponential_backoff)
    if multiplier:
        delay *= 2 * max(multiplier, 2.0) ** min(operator.retries, MOST_DOUBLINGS)
    limit = operator.max_retry_delay or LONGEST_DELAY
    return min(delay, limit.total_seconds() if isinstance(limit, timedelta) else float(limit))


def push_xcom(context: Context, key: str, value: object) -> None:
    """Push an XCom of this task instance."""
    ti = _task_instance(context)
    ti.xcom_push(key=key, value=value)


def present_state(context: Context) -> str | None:
    """Return the state that Airflow's server has for this task instance now; None when it knows none.

    An API call: never from `on_kill`, which runs in a signal handler and would dead-lock with a call that it
    interrupted.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    ti = _task_instance(context)
    mapped = ti.map_index is not None and ti.map_index >= 0
    try:
        states = ti.get_task_states(
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=ti.map_index if mapped else None,
        )
    except AirflowRuntimeError as err:
        raise AirflowUnavailableError(str(err)) from err
    of_run: Mapping[str, Any] = states.get(ti.run_id) or {}
    # The server calls a mapped task instance "task_0".
    state = of_run.get(f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id)
    return None if state is None else str(getattr(state, "value", state))


def emit(level: Level, message: str, time: float | None = None) -> None:
    """Write one record into the task's log, with the time at which it was written in the app.

    The record may have many lines: each one costs as much as any other, so a hundred lines in one are written
    thirty times as fast.
    """
    extra = (
        {} if time is None else {"timestamp": f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
    )
    getattr(_log, level)(message, **extra)


def mask_secrets(env: Mapping[str, str]) -> None:
    """Hide the values whose names Airflow takes for secrets' in everything logged and shown from now on."""
    mask_secret({name: value for name, value in env.items() if len(value) >= MASKED_CHARS})


def supervisor_is_gone() -> bool:
    """Return whether the process that watches this task has died; never true in ``dag.test()``.

    Without it nothing that we do arrives anywhere. Airflow itself finds out with its next log line only.
    """
    from airflow.sdk.execution_time import task_runner  # a second of imports that parsing a DAG need not pay

    channel = getattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket", None)
    if not isinstance(channel, socket.socket):
        return False
    if not select.select([channel], [], [], 0)[0]:
        return False
    # Between calls the supervisor sends nothing, so readable means closed; look, but do not take.
    return channel.recv(1, socket.MSG_PEEK) == b""


def _task_instance(context: Context) -> Any:  # noqa: ANN401  (its type is private, and differs)
    return context["ti"]  # pyright: ignore[reportTypedDictNotRequiredAccess]  # always there while a task runs


class TaskStateStore:
    """JSON values of one task instance that outlive its tries; Airflow 3.3 and later."""

    def __init__(self, accessor: Any) -> None:  # noqa: ANN401  (3.3 only, so not to be imported)
        self._accessor = accessor

    def get(self, key: str) -> object:
        """Return the value, or None.

        Raises:
            AirflowUnavailableError: The server did not answer.
        """
        try:
            return self._accessor.get(key)
        except AirflowRuntimeError as err:
            raise AirflowUnavailableError(str(err)) from err

    def set(self, key: str, value: object) -> None:
        """Write the value; once this returns it is stored.

        Raises:
            AirflowUnavailableError: The server did not answer.
        """
        try:
            self._accessor.set(key, value)
        except AirflowRuntimeError as err:
            raise AirflowUnavailableError(str(err)) from err


def task_state_store(context: Context) -> TaskStateStore | None:
    """Return the store of this task instance, or None in an Airflow that has none."""
    accessor: Any = context.get("task_state_store")
    return None if accessor is None else TaskStateStore(accessor)
