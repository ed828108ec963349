"""Everything that touches Airflow where it is untyped, private, or differs between 3.1, 3.2 and 3.3."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import structlog
from airflow.sdk import (
    Asset,
    AssetAlias,
    BaseHook,
    BaseOperator,
    BaseOperatorLink,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
    XComArg,
)
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.log import mask_secret, redact  # type: ignore[attr-defined]  # of a private module

from airflow_torchx._engine_states import instance_of, states_of
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._tries import TaskTry
from torchx_core.schedulers.secrets import secret_parts

if TYPE_CHECKING:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowRescheduleException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralTimeout,
    )
else:
    try:
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowRescheduleException,
            AirflowSensorTimeout,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralTimeout,
        )
    except ImportError:  # 3.1
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowRescheduleException,
            AirflowSensorTimeout,
            AirflowSkipException,
            AirflowTaskTimeout,
            TaskDeferralTimeout,
        )

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "Context",
    "Level",
    "PokeReturnValue",
    "TaskDeferralTimeout",
    "TaskStateStore",
    "XComArg",
    "connection_extra",
    "deferrable_by_default",
    "describe_outlet",
    "emit",
    "ends_without_worker",
    "form_fields",
    "known_now",
    "longest_retry_delay_s",
    "mask_secrets",
    "masked",
    "note_left",
    "present_state",
    "push_link",
    "push_xcom",
    "read_note",
    "reschedule",
    "started_at",
    "supervisor_is_gone",
    "task_state_store",
    "this_try",
    "trigger_failure",
    "write_note",
]

Level: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

LONGEST_DELAY = timedelta(days=1)
"""Airflow's own limit of a delay that grows."""
MOST_DOUBLINGS = 32

MASKED_CHARS = 5
"""Airflow masks no shorter value, and says so each time."""

_log = structlog.get_logger("airflow_torchx")


def connection_extra(conn_id: str) -> Mapping[str, object]:
    """Return the extra fields of a connection.

    Raises:
        AirflowNotFoundException: There is no such connection.
    """
    extra: Mapping[str, object] = BaseHook.get_connection(conn_id).extra_dejson
    return extra


def form_fields(fields: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the text fields of a connection's form, given their labels and explanations.

    Only Airflow 3.1 asks, with stand-ins for ``wtforms`` in place.
    """
    text: Any = import_module("wtforms").StringField
    return {name: text(label, description=description) for name, (label, description) in fields.items()}


def deferrable_by_default() -> bool:
    """Return what ``[operators] default_deferrable`` says."""
    try:
        from airflow.sdk.configuration import conf
    except ImportError:  # 3.1
        from airflow.configuration import conf

    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def known_now(value: object) -> object:
    """Return the value, or None where it holds what Airflow puts in only when the task runs, as an XCom."""
    from airflow.sdk.definitions._internal.mixins import ResolveMixin

    def comes_later(part: object) -> bool:
        if isinstance(part, Mapping):
            return any(map(comes_later, part.values()))
        if isinstance(part, list | tuple):
            return any(map(comes_later, part))
        return isinstance(part, ResolveMixin)

    return None if comes_later(value) else value


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
        is_rescheduled=bool(context.get("task_reschedule_count", 0)),
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


def ends_without_worker(operator: BaseOperator) -> bool:
    """Return whether a success needs nothing that only a worker does.

    That is: no callback, outlet, hook or split result, no task that is mapped over the result and no DAG that
    returns it, for which a trigger cannot mark it, and no XCom backend of the user's, which a trigger would
    pass by. Then a trigger may end the task. Listeners of plugins, which run in the task's process, do not
    hear of it.
    """
    from airflow.sdk.bases.xcom import BaseXCom
    from airflow.sdk.execution_time.xcom import XCom

    after = [
        operator.has_on_success_callback,
        operator.outlets,
        operator.multiple_outputs,
        operator._post_execute_hook,  # noqa: SLF001  (given as an argument of the operator; has no public name)
        type(operator).post_execute is not BaseOperator.post_execute,
        next(iter(operator.iter_mapped_dependants()), None),
        getattr(operator, "returns_dag_result", False),  # 3.3
        getattr(operator, "overwrite_rtif_after_execution", False),
        XCom is not BaseXCom,
    ]
    return bool(operator.do_xcom_push) and not any(after)


def reschedule(delay_s: float) -> AirflowRescheduleException:
    """Return what ends this process without ending its try, which Airflow starts again, perhaps elsewhere."""
    return AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=delay_s))  # type: ignore[no-untyped-call]


def push_xcom(context: Context, key: str, value: object) -> None:
    """Push an XCom of this task instance."""
    ti = _task_instance(context)
    ti.xcom_push(key=key, value=value)


def push_link(context: Context, key: str, url: str) -> None:
    """Push the XCom that a link of the task's page reads.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    try:
        push_xcom(context, key, url)
    except AirflowRuntimeError as err:
        raise AirflowUnavailableError(str(err)) from err


def describe_outlet(context: Context, outlet: object, extra: dict[str, Any]) -> None:
    """Give the event of an outlet asset its metadata; other outlets have none."""
    if isinstance(outlet, Asset | AssetAlias):
        context["outlet_events"][outlet].extra.update(extra)  # pyright: ignore[reportTypedDictNotRequiredAccess]


def present_state(context: Context) -> str | None:
    """Return the state that Airflow's server has for this task instance now; see `states_of`.

    An API call: never from `on_kill`, which runs in a signal handler and would dead-lock with a call that it
    interrupted.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    instance = instance_of(_task_instance(context))
    return states_of({instance})[instance]


def note_left(context: Context, key: str) -> str | None:
    """Return what the trigger of this task has left; None also where the server does not answer."""
    try:
        return read_note(_task_instance(context), key)
    except AirflowUnavailableError:
        return None


def read_note(ti: Any, key: str) -> str | None:  # noqa: ANN401
    """Return the text that an XCom of the task instance holds, or None.

    Raises:
        AirflowUnavailableError: The server did not answer.
    """
    from airflow.sdk.execution_time.xcom import XCom

    try:
        found = XCom.get_one(
            key=key, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
        )
    except AirflowRuntimeError as err:
        raise AirflowUnavailableError(str(err)) from err
    return found if isinstance(found, str) else None


def write_note(ti: Any, key: str, value: str) -> None:  # noqa: ANN401
    """Write such an XCom; raises as `read_note` does."""
    from airflow.sdk.execution_time.xcom import XCom

    try:
        XCom.set(key, value, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index)
    except AirflowRuntimeError as err:
        raise AirflowUnavailableError(str(err)) from err


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
    """Hide what looks secret, to Airflow or to the core, in everything logged from now on.

    Each of their lines too: output is logged line by line.
    """
    parts: dict[str, Any] = {name: _parts_to_mask(value) for name, value in env.items()}
    secrets = [secret for variable in env.items() for secret in secret_parts(*variable)]
    certain: list[Any] = [part for secret in secrets for part in _parts_to_mask(secret)]
    if certain:
        mask_secret(certain)
    if parts:
        mask_secret(parts)


def _parts_to_mask(value: str) -> list[str]:
    """Return the value, its lines, and how each of them stands in JSON, as in an app's error message."""
    lines = [value, *value.splitlines()]
    parts = dict.fromkeys([*lines, *(json.dumps(line)[1:-1] for line in lines)])
    return [part for part in parts if len(part) >= MASKED_CHARS]


def masked(text: str) -> str:
    """Return the text with every secret hidden that Airflow knows of."""
    return str(redact(text))


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


def trigger_failure(next_method: str, next_kwargs: Mapping[str, Any] | None) -> str | None:
    """Return why a task is resumed to be failed, if that is not that its trigger took too long.

    Its trigger could not begin: the triggerer has not this package, or not the connection.
    """
    if next_method != "__fail__":
        return None
    given = next_kwargs or {}
    if str(getattr(given.get("error"), "value", given.get("error"))) == "Trigger timeout":
        return None
    traceback: list[str] = given.get("traceback") or [str(given.get("error"))]
    return traceback[-1].strip()


def task_state_store(context: Context) -> TaskStateStore | None:
    """Return the store of this task instance, or None in an Airflow that has none."""
    accessor: Any = context.get("task_state_store")
    return None if accessor is None else TaskStateStore(accessor)
