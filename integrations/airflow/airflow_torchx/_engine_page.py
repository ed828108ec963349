"""What touches Airflow's web server, which is private to it: who may read a log, and which app a task has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_torchx.hooks.torchx import read_connection
from torchx_core.launch import Target

if TYPE_CHECKING:
    from torchx_core.runner import Runner

__all__ = ["FoundApp", "NoConnectionError", "TaskPlace", "find_app", "log_readers", "reach"]

HANDLE_KEY = "handle"
CONNECTION_KEY = "torchx_conn_id"
"""XComs of the operator: which app it is, and by which connection it is reached."""

_OWNER = re.compile(r"airflow-try-\d+-(?P<ti_id>[0-9a-f-]{36})")


def log_readers() -> Callable[..., None]:
    """Return what FastAPI lets through requests of those alone who may read the logs of ``dag_id``.

    Others are answered with 401 or 403, by Airflow's own check.
    """
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag

    return requires_access_dag("GET", DagAccessEntity.TASK_LOGS)


class NoConnectionError(Exception):
    """The web server cannot read the connection."""


class TaskPlace(NamedTuple):
    """Which task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundApp:
    """What is known of a task instance's latest app."""

    handle: str
    conn_id: str | None
    ti_ids: frozenset[str]
    """Of all tries of the task instance."""

    def is_of(self, owner: str | None) -> bool:
        """Return whether the app's owner is a try of this task instance."""
        found = _OWNER.match(owner or "")
        return found is not None and found["ti_id"] in self.ti_ids


def find_app(place: TaskPlace) -> FoundApp | None:
    """Return the latest app of the task instance, or None when it has none."""
    from airflow.models.taskinstance import TaskInstance  # noqa: TID251  (the web server is of Airflow)
    from airflow.models.taskinstancehistory import TaskInstanceHistory  # noqa: TID251  (likewise)
    from airflow.utils.session import create_session

    with create_session() as session:
        texts = {key: _text(session, place, key) for key in (HANDLE_KEY, CONNECTION_KEY)}
        handle = texts[HANDLE_KEY]
        if handle is None:
            return None
        ids = [
            *session.scalars(_of(place, TaskInstance, TaskInstance.id)),
            *session.scalars(_of(place, TaskInstanceHistory, TaskInstanceHistory.task_instance_id)),
        ]
        return FoundApp(handle=handle, conn_id=texts[CONNECTION_KEY], ti_ids=frozenset(map(str, ids)))


def _of(place: TaskPlace, table: Any, column: Any) -> Any:  # noqa: ANN401
    from sqlalchemy import select

    return select(column).where(
        table.dag_id == place.dag_id,
        table.run_id == place.run_id,
        table.task_id == place.task_id,
        table.map_index == place.map_index,
    )


def _text(session: Any, place: TaskPlace, key: str) -> str | None:  # noqa: ANN401
    from airflow.models.xcom import XComModel  # noqa: TID251  (likewise)

    query = XComModel.get_many(
        key=key,
        run_id=place.run_id,
        dag_ids=place.dag_id,
        task_ids=place.task_id,
        map_indexes=place.map_index,
        limit=1,
    )
    found = session.scalars(query).first()
    value = None if found is None else XComModel.deserialize_value(found)
    return value if isinstance(value, str) else None


def reach(conn_id: str | None) -> Runner:
    """Return a runner that reaches what the connection says; without one, what this host's defaults say.

    Raises:
        NoConnectionError: There is no such connection.
        InvalidInputError: It is of another kind.
    """
    if conn_id is None:
        return Target().runner()
    from airflow.exceptions import AirflowNotFoundException  # type: ignore[attr-defined]  # made on demand
    from airflow.models.connection import Connection  # noqa: TID251  (likewise)

    try:
        extra = Connection.get_connection_from_secrets(conn_id).extra_dejson
    except AirflowNotFoundException as err:
        raise NoConnectionError(str(err)) from err
    return read_connection(conn_id, extra).runner()
