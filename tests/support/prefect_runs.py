"""A flow run as Prefect's server knows it: what a user sees of it, and does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import Artifact, Log, State
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import LogSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling, Scheduled

from prefect_torchx._engine.position_store import apps_of_flow_run
from prefect_torchx.position import Position
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

__all__ = ["FlowRun", "ask_until"]

T = TypeVar("T")

PAGE = 200
"""The most records that the server gives at once."""
WAIT_S = 240.0
ASK_EVERY_S = 0.3


def ask_until(predicate: Callable[[], T | None], timeout_s: float) -> T:
    """Wait until it returns something true; leaves the server in peace between two questions."""

    def ask() -> T | None:
        Event().wait(ASK_EVERY_S)
        return predicate()

    return wait_until(ask, timeout_s)


class FlowRun:
    """One flow run; call it where `PrefectServer.here` holds."""

    def __init__(self, flow_run_id: UUID) -> None:
        self.id = flow_run_id

    @classmethod
    def ask(cls, deployment: str, **parameters: Any) -> FlowRun:
        """Ask for a run of a deployment, given as "flow/deployment", as soon as that is there."""
        with get_client(sync_client=True) as client:
            found = ask_until(lambda: _deployment(client, deployment), WAIT_S)
            run = client.create_flow_run_from_deployment(found.id, parameters=parameters)
        return cls(run.id)

    @property
    def state(self) -> State[Any]:
        """Its state now."""
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(self.id).state
        assert state is not None
        return state

    def wait_for(self, *names: str, timeout_s: float = WAIT_S) -> State[Any]:
        """Wait until its state has one of these names; without any, until it is final."""

        def reached() -> State[Any] | None:
            state = self.state
            return state if state.name in names or (not names and state.is_final()) else None

        return ask_until(reached, timeout_s)

    def cancel(self) -> None:
        """Ask for its end."""
        self._set(Cancelling())

    def run_again(self) -> None:
        """Have it run once more, whatever Prefect thinks of it."""
        self._set(Scheduled())

    def records(self) -> list[Log]:
        """Return every record of its log, by time."""
        only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[self.id]))
        records: list[Log] = []
        with get_client(sync_client=True) as client:
            while True:
                page = client.read_logs(only, limit=PAGE, offset=len(records), sort=LogSort.TIMESTAMP_ASC)
                records += page
                if len(page) < PAGE:
                    return records

    def lines(self) -> list[str]:
        """Return every line of every record."""
        return _lines(record.message for record in self.records())

    def artifacts(self) -> list[Artifact]:
        """Return every version of every artifact."""
        only = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[self.id]))
        with get_client(sync_client=True) as client:
            return client.read_artifacts(artifact_filter=only)

    def saved_positions(self) -> dict[AppHandle, Position | None]:
        """Return its apps, and how far its log is known to be with each."""
        with get_client(sync_client=True) as client:
            found = apps_of_flow_run(client, self.id, self.id)
        return {handle: noted.position for handle, noted in found.items()}

    def _set(self, state: State[Any]) -> None:
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(self.id, state, force=True)


def _deployment(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _lines(messages: Iterable[str]) -> list[str]:
    return [line for message in messages for line in message.splitlines()]
