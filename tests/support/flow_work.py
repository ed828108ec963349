"""Does a piece of work in a flow of this process."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from prefect import flow
from prefect.context import FlowRunContext
from prefect_runs import FlowRun

__all__ = ["in_a_flow"]


def in_a_flow(work: Callable[[], object]) -> FlowRun:
    """Do the work in a flow run's body, to its end; return the flow run."""
    ids: list[UUID] = []

    @flow
    def pipeline() -> None:
        context = FlowRunContext.get()
        assert context is not None
        assert context.flow_run is not None
        ids.append(context.flow_run.id)
        work()

    pipeline()
    return FlowRun(ids[0])
