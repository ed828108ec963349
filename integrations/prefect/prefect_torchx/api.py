"""Requests to Prefect's API that fail at once, and say whether they may have been served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar, final
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTaskRunId,
    LogFilterTimestamp,
)
from prefect.client.schemas.objects import Log

from prefect_torchx._engine.server import Client, client_of_process, kept_connection, pages

__all__ = ["Api", "Payload", "Refused", "Unreachable"]

TIMEOUT_S = 30.0
"""For one request. A slow server serves it all the same, and is then asked what it has."""
_NOT_FOUND = 404
_REFUSALS = frozenset({400, 413, 422})
_NOT_SERVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Payload: TypeAlias = dict[str, Any]
"""A log record as Prefect's API wants it."""
T = TypeVar("T")


class Unreachable(Exception):
    """The API did not take the request; later it may."""

    def __init__(self, err: Exception, *, perhaps_served: bool) -> None:
        """Keep why."""
        super().__init__(repr(err))
        self.perhaps_served = perhaps_served
        self.status: int | None = err.response.status_code if isinstance(err, httpx.HTTPStatusError) else None
        """What the API answered, if it did."""


class Refused(Exception):
    """The API will not take the request, however often one asks."""


@final
class Api:
    """What the log shipper asks Prefect's API for; connects when it is first used."""

    def __init__(self) -> None:
        """Connect to nothing yet."""
        self._open: Final = ExitStack()
        self._client: Client | None = None

    def __enter__(self) -> Self:
        """Have requests fail at once: who makes them knows when to try again."""
        self._open.enter_context(kept_connection())
        self._client = self._open.enter_context(client_of_process())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._open.__exit__(kind, value, trace)

    def create_logs(self, payloads: Sequence[Payload]) -> None:
        """Store records."""
        self._ask(lambda client: client.create_logs(payloads))

    def missing(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Return those of the records that the server does not have; all, should it refuse to tell."""
        try:
            there = {_identity(log) for where in _filters(payloads) for log in self._logs(where)}
        except Refused:
            return list(payloads)
        return [payload for payload in payloads if _identity(payload) not in there]

    def create_artifact(self, artifact: ArtifactCreate) -> UUID:
        """Store an artifact and return its id."""
        return self._ask(lambda client: client.create_artifact(artifact).id)

    def update_artifact(self, artifact_id: UUID, artifact: ArtifactUpdate) -> None:
        """Replace what is given of an artifact.

        Raises:
            Refused: Somebody has deleted it, or the API will not have it.
            Unreachable: The API did not take it now.
        """
        try:
            self._ask(lambda client: client.update_artifact(artifact_id, artifact))
        except Unreachable as err:
            if err.status == _NOT_FOUND:
                raise Refused(str(err)) from err
            raise

    def _logs(self, where: LogFilter) -> list[Payload]:
        def read(limit: int, offset: int) -> list[Log]:
            return self._ask(lambda client: client.read_logs(where, limit=limit, offset=offset))

        return [log.model_dump(mode="json") for page in pages(read) for log in page]

    def _ask(self, request: Callable[[SyncPrefectClient], T]) -> T:
        assert self._client is not None, "enter first"
        try:
            return self._client.ask(request, TIMEOUT_S)
        except httpx.HTTPStatusError as err:
            if err.response.status_code in _REFUSALS:
                raise Refused(str(err)) from err
            raise Unreachable(err, perhaps_served=True) from err
        except httpx.TransportError as err:
            raise Unreachable(err, perhaps_served=not isinstance(err, _NOT_SERVED)) from err
        except ValueError as err:  # what JSON or UTF-8 cannot express
            raise Refused(repr(err)) from err
        except Exception as err:  # whatever Prefect's client raises, the app must not suffer from it
            raise Unreachable(err, perhaps_served=True) from err


def _filters(payloads: Sequence[Payload]) -> list[LogFilter]:
    """Return what selects at least these records."""
    times = [payload["timestamp"] for payload in payloads]
    when = LogFilterTimestamp(after_=min(times, key=_moment), before_=max(times, key=_moment))
    flow_runs = {payload["flow_run_id"] for payload in payloads} - {None}
    task_runs = {p["task_run_id"] for p in payloads if p["flow_run_id"] is None} - {None}
    filters = []
    if flow_runs:
        filters.append(LogFilter(timestamp=when, flow_run_id=LogFilterFlowRunId(any_=[*flow_runs])))
    if task_runs:
        filters.append(LogFilter(timestamp=when, task_run_id=LogFilterTaskRunId(any_=[*task_runs])))
    return filters


def _identity(log: Payload) -> tuple[object, ...]:
    return log["flow_run_id"], log["task_run_id"], log["name"], _moment(log["timestamp"]), log["message"]


def _moment(timestamp: str) -> datetime:
    return datetime.fromisoformat(timestamp)
