"""What the worker asks of Prefect's server, and tells it, about flow runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, final
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import StateCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
    LogFilter,
    LogFilterFlowRunId,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType, WorkerStatus
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import LogSort
from prefect.exceptions import ObjectNotFound

from prefect_torchx._engine.server import PAGE
from prefect_torchx.worker.adoption import WORKER_LABEL, Crew
from prefect_torchx.worker.dispatch import Dispatch, latest_dispatch
from torchx_core.specs import AppHandle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun, State

__all__ = ["FlowRuns"]

_WITH_AN_APP = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]


@final
class FlowRuns:
    """The flow runs of one work pool."""

    def __init__(self, client: PrefectClient, pool: str) -> None:
        """Take the worker's client, which outlives this."""
        self._client = client
        self._pool = pool

    async def active(self) -> list[FlowRun]:
        """Return those that may have an app: taken by a worker, and not over."""
        wanted = FlowRunFilter(
            state=FlowRunFilterState.model_validate(
                {
                    "operator": "or_",
                    "type": FlowRunFilterStateType(any_=_WITH_AN_APP),
                    "name": FlowRunFilterStateName(any_=["AwaitingRetry"]),
                }
            )
        )
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[self._pool]))
        found: list[FlowRun] = []
        while True:
            page = await self._client.read_flow_runs(
                flow_run_filter=wanted, work_pool_filter=pool, limit=PAGE, offset=len(found)
            )
            found += page
            if len(page) < PAGE:
                return found

    async def crew(self, me: str) -> Crew:
        """Return who works for the pool."""
        workers = await self._client.read_workers_for_work_pool(self._pool)
        online = {worker.name for worker in workers if worker.status is WorkerStatus.ONLINE}
        return Crew(me=me, others=online - {me})

    async def read(self, flow_run_id: UUID) -> FlowRun | None:
        """Return the flow run as it is now; None when it was deleted."""
        try:
            return await self._client.read_flow_run(flow_run_id)
        except ObjectNotFound:
            return None

    async def reconcile(self, flow_run_id: UUID) -> Dispatch:
        """Return the flow run's latest dispatch; give the flow run its end back, if a late worker took it."""
        dispatch = latest_dispatch(await self._client.read_flow_run_states(flow_run_id))
        now = await self.read(flow_run_id) if dispatch.end else None
        end = dispatch.due(now.state) if now is not None and now.state is not None else None
        if end is not None:
            await self._give_back(flow_run_id, end)
        return dispatch

    async def record(self, flow_run_id: UUID, handle: AppHandle) -> None:
        """Write down which app is the flow run's, or is about to be."""
        await self._client.update_flow_run(flow_run_id, infrastructure_pid=handle)

    async def claim(self, flow_run_id: UUID, worker: str) -> None:
        """Mark the flow run as that worker's."""
        await self._client.update_flow_run_labels(flow_run_id, {WORKER_LABEL: worker})

    async def end(self, flow_run_id: UUID, state: State) -> bool:
        """Propose a final state; return whether the server took it. What has ended keeps its state."""
        result = await self._client.set_flow_run_state(flow_run_id, state)
        return result.status is SetStateStatus.ACCEPT

    async def messages(self, flow_run_id: UUID) -> Collection[str]:
        """Return the latest records in the flow run's log."""
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id]))
        logs = await self._client.read_logs(wanted, limit=PAGE, sort=LogSort.TIMESTAMP_DESC)
        return [log.message for log in logs]

    async def _give_back(self, flow_run_id: UUID, end: State) -> None:
        """Set a state that the flow run had; the client's own method forgets where its result is stored."""
        state = StateCreate(
            type=end.type,
            name=end.name,
            message=end.message,
            data=end.data,
            state_details=end.state_details,
        )
        await self._client.request(
            "POST",
            "/flow_runs/{id}/set_state",
            path_params={"id": flow_run_id},
            json={"state": state.model_dump(mode="json", serialize_as_any=True), "force": True},
        )
