"""What a flow run's job is to be like, as Prefect puts it together from pool, deployment and flow run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.workers.base import BaseJobConfiguration, BaseWorker

__all__ = ["configuration_of"]

C = TypeVar("C", bound="BaseJobConfiguration")


async def configuration_of(worker: BaseWorker[C, Any, Any], flow_run: FlowRun) -> C:
    """Return the configuration that the worker would submit the flow run with.

    Raises:
        ObjectNotFound: Its deployment was deleted.
    """
    kind: Any = worker.job_configuration
    if not hasattr(kind, "resolve_for_flow_run"):  # Prefect 3.6
        older: Any = worker
        return await older._get_configuration(flow_run)  # type: ignore[no-any-return]  # noqa: SLF001
    return await kind.resolve_for_flow_run(  # type: ignore[no-any-return]
        flow_run,
        client=worker.client,
        work_pool=worker.work_pool,
        worker_name=worker.name,
        worker_id=worker.backend_id,
    )
