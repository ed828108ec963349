"""Flows whose tasks run in the workers of a Dask or a Ray cluster; started as a program it serves them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prefect import flow, serve, task, unmapped
from prefect_dask import DaskTaskRunner  # pyright: ignore[reportMissingImports]  # has its own environment
from prefect_flows import CODE, SERVED, note_start
from prefect_ray import RayTaskRunner  # pyright: ignore[reportMissingImports]  # likewise

from prefect_torchx import run_app
from torchx_core import AppDef, Role

__all__ = ["dask", "ray"]

LAST_PART = 9
"""The number of the line that an app writes when it is told to end."""

LAST_WORDS = f"""
import signal, sys

def end(*_):
    print("line", sys.argv[1], {LAST_PART}, flush=True)
    sys.exit(1)

signal.signal(signal.SIGTERM, end)
"""


@task
def job(folder: str, options: dict[str, Any], name: str) -> Any:
    """Run an app, and write down in which process."""
    with (Path(folder) / "workers").open("a") as file:
        file.write(f"{os.getpid()}\n")
    args = ["-S", "-c", LAST_WORDS + CODE, name, folder, "1"]
    app = AppDef(name, [Role("r", image="", entrypoint="python3", args=args)])
    return run_app(app, **options)


def _run(folder: str, options: dict[str, Any]) -> None:
    note_start(folder)
    job.map(unmapped(folder), unmapped(options), ["a", "b"]).result()


@flow(task_runner=DaskTaskRunner(cluster_kwargs={"n_workers": 2, "threads_per_worker": 1}))
def dask(folder: str, options: dict[str, Any]) -> None:
    """Run two apps in two Dask workers."""
    _run(folder, options)


@flow(task_runner=RayTaskRunner(init_kwargs={"num_cpus": 2, "include_dashboard": False}))
def ray(folder: str, options: dict[str, Any]) -> None:
    """Run two apps in two Ray workers."""
    _run(folder, options)


if __name__ == "__main__":
    deployments: list[Any] = [each.to_deployment(SERVED) for each in (dask, ray)]
    serve(*deployments)
