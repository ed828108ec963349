"""A worker in this process, and what a test does to its flow runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from prefect import get_client
from prefect.client.schemas.objects import State
from prefect_pool import Pool
from prefect_runs import FlowRun

from prefect_torchx.worker import TorchXWorker
from prefect_torchx.worker.adoption import WORKER_LABEL
from prefect_torchx.worker.dispatch import app_id
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppState, make_app_handle
from torchx_core.testing import wait_until

__all__ = ["at_work", "handle_of", "running_app", "set_state", "until"]

WAIT_S = 240.0
T = TypeVar("T")


@asynccontextmanager
async def at_work(pool: Pool, name: str = "me", limit: int | None = None) -> AsyncIterator[TorchXWorker]:
    """Yield a worker that has started, and stop it as SIGTERM does."""
    started: asyncio.Future[TorchXWorker] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with TorchXWorker(pool.name, name=name, limit=limit) as worker:
            started.set_result(worker)
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    task.add_done_callback(lambda ended: started.done() or started.cancel(str(ended)))
    try:
        yield await started
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(predicate: Callable[[], T | None]) -> T:
    """Wait in a thread: the worker needs this one."""
    return await asyncio.to_thread(wait_until, predicate, WAIT_S)


async def running_app(runner: Runner) -> AppHandle:
    """Return the newest app once it runs."""

    def newest() -> AppHandle | None:
        apps = runner.list("local_cwd")
        return apps[-1].app_handle if apps and apps[-1].state is AppState.RUNNING else None

    return await until(newest)


def set_state(run: FlowRun, state: State[Any], *, worker: str | None = None) -> None:
    """Set the flow run's state by force, and the name of the worker that took it."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, state, force=True)
        if worker:
            client.update_flow_run_labels(run.id, {WORKER_LABEL: worker})


def handle_of(run: FlowRun, dispatch: int = 1) -> AppHandle:
    """Return the handle of its app."""
    return make_app_handle("local_cwd", "torchx", app_id(run.id, dispatch))
