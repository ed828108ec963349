"""Which Prefect run the code works for."""

from __future__ import annotations

from prefect.context import FlowRunContext, TaskRunContext

__all__ = ["run_ids"]


def run_ids() -> tuple[str, str]:
    """Return the ids of the flow run and the task run; empty where there is none."""
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    flow_run_id = flow.flow_run.id if flow and flow.flow_run else task.task_run.flow_run_id if task else None
    return str(flow_run_id or ""), str(task.task_run.id if task else "")
