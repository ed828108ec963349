"""Which flow run and task run a call is made in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import final

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext, RunContext, TaskRunContext

from prefect_torchx._engine.server import ask_patiently
from prefect_torchx.naming import FlowTry

__all__ = ["Caller", "ancestors"]


@final
class Caller:
    """The flow run and task run that the present thread, or asyncio task, works for."""

    def __init__(self) -> None:
        """Look at Prefect's context once: user code may change it later."""
        self.flow = FlowRunContext.get()
        self.task = TaskRunContext.get()
        flow_run = self.flow.flow_run if self.flow else None
        of_task = self.task.task_run.flow_run_id if self.task else None
        self.flow_run_id = str(flow_run.id if flow_run else of_task or "")
        """Empty without a flow run."""
        self.task_run_id = str(self.task.task_run.id) if self.task else ""
        """Empty in the body of a flow."""
        self.task_try = self.task.task_run.run_count if self.task else 0
        """How often the task run has started, as Prefect counts."""
        self.began_ms = int(self.task.start_time.timestamp() * 1000) if self.task else 0
        """When this process began the task, in milliseconds since the epoch; 0 in the body of a flow."""
        self.is_distributed = self.flow is not None and self.flow.detached
        """Whether the task was sent to another process than its flow's."""

    def flow_tries(self) -> tuple[FlowTry, ...]:
        """Return the flow run and those that it is part of, the root first; empty without one.

        Asks Prefect's server, unless the flow run is the root itself.

        Raises:
            Exception: The server does not answer. Without the root the app of an earlier try is not found.
        """
        flow_run = self.flow.flow_run if self.flow else None
        if not self.flow_run_id or (flow_run and not is_part(flow_run)):
            return (_flow_try(flow_run),) if flow_run else ()
        return ask_patiently(lambda client: self._flow_tries(client, flow_run))

    def _flow_tries(self, client: SyncPrefectClient, flow_run: FlowRun | None) -> tuple[FlowTry, ...]:
        own = flow_run or client.read_flow_run(uuid.UUID(self.flow_run_id))
        line = [own, *ancestors(client, own)]
        return tuple(_flow_try(each) for each in reversed(line))

    def work(self, root: str) -> str:
        """Return what is the same when Prefect runs this task, or this flow, again.

        The task run's id only without a flow run: a flow run that is retried gives its tasks new ones. Not
        the task's key: that is another one where the code lies elsewhere, and a process worker fetches it
        into a new temporary folder for each start. Of a subflow's run only the name, likewise.

        Args:
            root: The id of the root of `flow_tries`; empty without one.
        """
        if not root:
            return self.task_run_id or uuid.uuid4().hex
        subflow = self.flow.flow if self.flow and root != self.flow_run_id else None
        names = [_function_name(subflow.fn)] if subflow else []
        return "\n".join([root, *names, _function_name(self.task.task.fn) if self.task else ""])

    def is_overdue(self, margin_s: float) -> bool:
        """Return whether ``timeout_seconds`` of the flow or the task have passed, and the margin as well."""
        flow_s = self.flow.flow.timeout_seconds if self.flow and self.flow.flow else None
        task_s = self.task.task.timeout_seconds if self.task else None
        return _is_over(self.flow, flow_s, margin_s) or _is_over(self.task, task_s, margin_s)


def _flow_try(flow_run: FlowRun) -> FlowTry:
    # Prefect begins to count pauses anew when it counts a run.
    pauses = len(flow_run.empirical_policy.pause_keys or ())
    return FlowTry(run=str(flow_run.id), number=flow_run.run_count, pauses=pauses)


def _function_name(function: Callable[..., object]) -> str:
    """Return the name that it was defined by; a callable object has that of its class."""
    return getattr(function, "__qualname__", type(function).__qualname__)


def _is_over(context: RunContext | None, timeout_s: float | None, margin_s: float) -> bool:
    if context is None or timeout_s is None:
        return False
    return (datetime.now(UTC) - context.start_time).total_seconds() > timeout_s + margin_s


def is_part(flow_run: FlowRun) -> bool:
    """Return whether it runs in its parent's process; the run of a deployment has its own, and own tries."""
    return flow_run.parent_task_run_id is not None and flow_run.deployment_id is None


def ancestors(client: SyncPrefectClient, flow_run: FlowRun) -> Iterator[FlowRun]:
    """Yield the flow runs that it is part of, the nearest first, as the server knows them now."""
    while is_part(flow_run) and flow_run.parent_task_run_id is not None:
        of_task = client.read_task_run(flow_run.parent_task_run_id).flow_run_id
        if of_task is None:  # a task outside of flows called it
            return
        flow_run = client.read_flow_run(of_task)
        yield flow_run
