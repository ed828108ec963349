"""The flow of `prefect_host_flows`: deployed for the workers of a pool, and begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import prefect_host_flows
from docker_images import PYTHON_IMAGE
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect_jobs import Job
from prefect_runs import FlowRun

__all__ = ["begin_followed", "deploy_followed"]

PROGRAM = Path(prefect_host_flows.__file__)


def deploy_followed(pool: WorkPoolCreate, job_variables: dict[str, Any] | None = None) -> None:
    """Make the pool, and a deployment of its name for it, on the server that this process talks to."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(pool, overwrite=True)
        client.create_deployment(
            client.create_flow_from_name(prefect_host_flows.followed.name),
            pool.name,
            work_pool_name=pool.name,
            path=str(PROGRAM.parent),
            entrypoint=f"{PROGRAM.name}:followed",
            job_variables=job_variables,
        )


def begin_followed(job: Job, pool: str) -> None:
    """Run it for the job, until the first line of its app is in the log for good."""
    image = PYTHON_IMAGE if job.scheduler == "local_docker" else ""
    parameters = {"folder": str(job.folder), "scheduler": job.scheduler, "image": image}
    FlowRun.ask(f"followed/{pool}", **parameters, session=job.session)
    job.write(1)
    job.wait_for_lines(1)
    job.wait_for_saved_positions()
