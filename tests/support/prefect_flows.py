"""Flows that run an app in every form in which a user may: to serve, to deploy, or to run as a script.

Arguments of the script: the form, then the flow's parameters as JSON; without any it serves all forms.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from prefect import flow, serve, task, unmapped
from prefect.context import FlowRunContext
from prefect.task_runners import ProcessPoolTaskRunner

from prefect_torchx import run_app
from torchx_core import AppDef, Role

__all__ = ["CODE", "SERVED", "note_start"]

SERVED = "serve"
"""The deployments' name."""

Options = dict[str, Any]
"""What `run_app` is told besides the app."""

# Writes part i as soon as the test has made the file i; its own name tells it from the app beside it.
CODE = """
import os, sys, time
name, folder, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
for i in range(4):
    while not os.path.exists(f"{folder}/{i}"):
        time.sleep(0.02)
    for j in range(i * each, i * each + each):
        print("line", name, j)
    sys.stdout.flush()
"""


def _app(name: str, folder: str, each: int = 1) -> AppDef:
    args = ["-S", "-c", CODE, name, folder, str(each)]
    return AppDef(name, [Role("r", image="", entrypoint="python3", args=args)])


@task
def job(folder: str, options: Options, name: str = "a") -> Any:
    """Run an app."""
    return run_app(_app(name, folder), **_options(options, name))


@task
async def async_job(folder: str, options: Options, name: str = "a") -> Any:
    """Run an app without blocking."""
    from prefect_torchx import arun_app

    return await arun_app(_app(name, folder), **_options(options, name))


def _options(options: Options, name: str) -> Options:
    """Give every app a key of its own, should there be one."""
    key = options.get("idempotency_key")
    return {**options, "idempotency_key": f"{key}-{name}"} if key else options


def _limited(made: Any, limit_s: float | None) -> Any:
    return made.with_options(timeout_seconds=limit_s)


def note_start(folder: str) -> None:
    """Write down, in a line, which process runs which flow run."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    with (Path(folder) / "starts").open("a") as file:
        file.write(f"{os.getpid()} {context.flow_run.id}\n")


@flow
def direct(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Call a task."""
    note_start(folder)
    _limited(job, limit_s)(folder, options)


@flow
def submitted(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Submit a task to threads."""
    note_start(folder)
    _limited(job, limit_s).submit(folder, options).result()


@flow
def mapped(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Map a task over two apps."""
    note_start(folder)
    limited = _limited(job, limit_s)
    limited.map(unmapped(folder), unmapped(options), ["a", "b"]).result()


@flow
async def async_direct(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Await an async task."""
    note_start(folder)
    await _limited(async_job, limit_s)(folder, options)


@flow
async def async_submitted(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Submit an async task to threads."""
    note_start(folder)
    _limited(async_job, limit_s).submit(folder, options).result()


@flow
async def sync_in_async(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Call a sync task, which blocks the event loop."""
    note_start(folder)
    _limited(job, limit_s)(folder, options)


@flow
def body(folder: str, options: Options, limit_s: float | None = None, each: int = 1) -> None:
    """Run an app in the flow itself, or in one below it that has a limit; so many lines at a time."""
    if limit_s is not None:
        body.with_options(timeout_seconds=limit_s)(folder, options)
        return
    note_start(folder)
    run_app(_app("a", folder, each), **options)


@flow(task_runner=ProcessPoolTaskRunner(max_workers=1))  # type: ignore[arg-type]  # its futures have another type
def pooled(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Submit a task to another process."""
    note_start(folder)
    _limited(job, limit_s).submit(folder, options).result()


@flow
def part(folder: str, options: Options, limit_s: float | None) -> None:
    """Call a task."""
    _limited(job, limit_s)(folder, options)


@flow
def nested(folder: str, options: Options, limit_s: float | None = None) -> None:
    """Call another flow."""
    note_start(folder)
    part(folder, options, limit_s)


FLOWS: tuple[Any, ...] = (
    direct,
    submitted,
    mapped,
    async_direct,
    async_submitted,
    sync_in_async,
    body,
    pooled,
    nested,
)


def _run(form: str, parameters: dict[str, Any]) -> None:
    [chosen] = [each for each in FLOWS if each.fn.__name__ == form]
    result: Any = chosen(**parameters)
    if asyncio.iscoroutine(result):
        asyncio.run(result)


def _serve() -> None:
    deployments: list[Any] = [each.to_deployment(SERVED) for each in FLOWS]
    serve(*deployments)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _run(sys.argv[1], json.loads(sys.argv[2]))
    else:
        _serve()
