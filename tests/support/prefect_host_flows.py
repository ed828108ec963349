"""A flow that runs an app on the scheduler that it is told, for workers on several hosts."""

from __future__ import annotations

from prefect import flow, task
from prefect_flows import CODE, note_start

from prefect_torchx import run_app
from torchx_core import AppDef, Role
from torchx_core.specs import BindMount

__all__ = ["LEASE_S", "followed"]

LEASE_S = 60.0


@task
def job(folder: str, scheduler: str, image: str, session: str) -> None:
    """Run the app, which sees the folder."""
    role = Role("r", image=image, entrypoint="python3", args=["-S", "-c", CODE, "a", folder, "1"])
    if image:
        role.mounts.append(BindMount(folder, folder, read_only=True))
    run_app(AppDef("a", [role]), scheduler=scheduler, cfg={"grace_s": 1.0}, session=session, lease_s=LEASE_S)


@flow
def followed(folder: str, scheduler: str, image: str, session: str) -> None:
    """Call a task."""
    note_start(folder)
    job(folder, scheduler, image, session)
