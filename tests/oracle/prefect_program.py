"""The flows of the Prefect driver: each runs the apps of one trial, in one form.

A flow gets the trial's folder. It finds the requests there (``requests.json``), and notes there which process
began which start of the flow run (``starts``) and what came of each call (``outcomes``). The process holds a
lock as long as it lives, and notes when it finds it held: then two processes run the flow at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from prefect import flow, task, unmapped
from prefect.context import FlowRunContext
from prefect.futures import wait
from prefect.task_runners import ProcessPoolTaskRunner

from prefect_torchx import arun_app, run_app
from torchx_core import AppDef

__all__ = ["awaited", "direct", "mapped", "pooled", "submitted"]


def _add(folder: str, name: str, **facts: object) -> None:
    """Append one line of JSON by one write(2)."""
    with (Path(folder) / name).open("a") as file:
        file.write(json.dumps({"time": time.time(), "pid": os.getpid(), **facts}) + "\n")


def _begin(folder: str) -> list[int]:
    """Note that this process runs the flow now; return the numbers of the calls."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    facts = {"parent": os.getppid(), "app": os.environ.get("TORCHX_JOB_ID"), "overlap": not _lock(folder)}
    _add(folder, "starts", run=str(context.flow_run.id), number=context.flow_run.run_count, **facts)
    return list(range(len(json.loads((Path(folder) / "requests.json").read_text()))))


def _lock(folder: str) -> bool:
    """Hold the flow's lock until this process ends; return whether no other process holds it."""
    fd = os.open(Path(folder) / "flow.alive", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _request(folder: str, call: int) -> tuple[AppDef, dict[str, Any]]:
    request = json.loads((Path(folder) / "requests.json").read_text())[call]
    return AppDef.from_dict(request["app"]), request["options"]


@task(task_run_name="call-{call}")
def job(folder: str, call: int) -> Any:
    """Run the app of one call, and note what came of it."""
    app, options = _request(folder, call)
    try:
        result = run_app(app, **options)
    except BaseException as err:
        _add(folder, "outcomes", call=call, error=type(err).__name__, text=str(err))
        raise
    _add(folder, "outcomes", call=call, result=result)
    return result


@task(task_run_name="call-{call}")
async def async_job(folder: str, call: int) -> Any:
    """Run the app of one call on the event loop, and note what came of it."""
    app, options = _request(folder, call)
    try:
        result = await arun_app(app, **options)
    except BaseException as err:
        _add(folder, "outcomes", call=call, error=type(err).__name__, text=str(err))
        raise
    _add(folder, "outcomes", call=call, result=result)
    return result


def _end(errors: list[BaseException]) -> None:
    """Fail as the first call that failed."""
    if errors:
        raise errors[0]


@flow
def direct(folder: str) -> None:
    """Call a task for one app after the other."""
    errors: list[BaseException] = []
    for call in _begin(folder):
        try:
            _: Any = job(folder, call)
        except Exception as err:  # noqa: BLE001  # raised when all calls have been made
            errors.append(err)
    _end(errors)


@flow
def submitted(folder: str) -> None:
    """Submit a task for each app to threads."""
    futures = [job.submit(folder, call) for call in _begin(folder)]
    wait(futures)
    for future in futures:
        future.result()


@flow
def mapped(folder: str) -> None:
    """Map a task over the apps."""
    futures = job.map(unmapped(folder), _begin(folder))
    wait(list(futures))
    futures.result()


@flow
async def awaited(folder: str) -> None:
    """Await an async task for each app, all at once."""
    calls = [async_job(folder, call) for call in _begin(folder)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    _end([each for each in found if isinstance(each, BaseException)])


@flow(task_runner=ProcessPoolTaskRunner(max_workers=2))  # type: ignore[arg-type]  # its futures have another type
def pooled(folder: str) -> None:
    """Submit a task for each app to other processes."""
    futures = [job.submit(folder, call) for call in _begin(folder)]
    wait(futures)
    for future in futures:
        future.result()
