"""Which flow runs a flow run is part of.

Prefect makes a new run of a subflow when its parent is run again, at times also when the first one has merely
lost its process. So an app of a subflow is the business of the flow run at the root, the only one that is the
same for every try, and is over when that is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun

__all__ = ["ancestors", "is_part"]


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
