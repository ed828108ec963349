"""The worker: takes flow runs from a work pool and sees each through as an app.

A flow run's app goes on without any worker. What is true after the death of the worker at each point:

======================================  ==================================================================
last step done                          what the next worker does
======================================  ==================================================================
the flow run is Pending, unlabelled     nothing: another worker may be at it (so it is with every worker)
it bears this worker's name             submits; the id is derived, and the core runs an id once
its app's handle is recorded            the same
submitted                               follows; the lease is renewed
the app has ended, nobody told          tells the server, with the last lines
======================================  ==================================================================

The next worker is one of the same name at its start, or any other of the pool that can see the app, once
Prefect's server has this one down as offline.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Final, Self, final
from uuid import UUID

import anyio
from anyio.abc import TaskGroup, TaskStatus
from httpx import HTTPError, HTTPStatusError, codes
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound, ObjectNotFound
from prefect.states import Cancelled, Crashed
from prefect.workers.base import BaseWorker, BaseWorkerResult
from typing_extensions import override

from prefect_torchx._engine.job_configuration import configuration_of
from prefect_torchx.worker.apps import Apps, Show
from prefect_torchx.worker.dispatch import Dispatch, Stage, is_app_of
from prefect_torchx.worker.job import TorchXJobConfiguration, TorchXVariables
from prefect_torchx.worker.monitor import Monitor
from prefect_torchx.worker.server import FlowRuns
from prefect_torchx.worker.submission import Submission
from torchx_core.errors import InvalidInputError, MalformedAppHandleException, NotFoundError, TorchXError
from torchx_core.schedulers import LogLines
from torchx_core.specs import parse_app_handle
from torchx_core.terminal import harmless

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

__all__ = ["TorchXWorker", "TorchXWorkerResult"]

LABEL_TRIES: Final = 8
"""Each takes Prefect's client a minute."""


class TorchXWorkerResult(BaseWorkerResult):
    """How a flow run's app ended: its handle, and its exit code; 0 also when the flow run is to go on."""


@final
class TorchXWorker(BaseWorker[TorchXJobConfiguration, TorchXVariables, TorchXWorkerResult]):
    """Runs each flow run as an app that survives the worker."""

    type = "torchx"
    job_configuration = TorchXJobConfiguration
    job_configuration_variables = TorchXVariables
    _display_name = "TorchX"
    _description = (
        "Execute flow runs as TorchX-style apps on any scheduler: local processes, Docker, and others. "
        "They go on when the worker stops, and the next worker takes them up again."
    )
    _documentation_url = "https://docs.prefect.io/v3/concepts/workers"

    @override
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._own = AsyncExitStack()
        self._adopting: TaskGroup | None = None
        self._suspects: set[UUID] | None = None

    @override
    async def run(
        self,
        flow_run: FlowRun,
        configuration: TorchXJobConfiguration,
        task_status: TaskStatus[Any] | None = None,
    ) -> TorchXWorkerResult:
        """Submit the flow run's app, or find it, and see it through to its end."""
        self._monitor.track(flow_run.id)
        try:
            handle = await self._submission.submit(flow_run, configuration)
            if task_status is not None:
                task_status.started(handle)  # None: what is recorded of the flow run stays as it is
            show = _shower(flow_run, configuration)
            see_through = self._monitor.see_through
            code = await see_through(flow_run, handle, show, configuration) if handle else 0
        finally:
            self._monitor.untrack(flow_run.id)
        return TorchXWorkerResult(identifier=handle or "", status_code=code)

    @override
    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: TorchXJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Ask for the end of a flow run's app, and return; its scheduler serves the grace period.

        Prefect calls it for a flow run that was cancelled before it started, and for one that is still
        Cancelling after five minutes. It may be repeated.

        Raises:
            InfrastructureNotFound: The id is no app handle, so no worker of this type can do anything.
            InfrastructureNotAvailable: The app cannot be seen from here.
        """
        try:
            parse_app_handle(infrastructure_pid)
        except MalformedAppHandleException as err:
            raise InfrastructureNotFound(str(err)) from err
        try:
            found = await self._monitor.kill(infrastructure_pid, grace_seconds)
        except TorchXError as err:
            raise InfrastructureNotAvailable(f"cannot stop {infrastructure_pid}: {err}") from err
        if not found:
            raise InfrastructureNotAvailable(f"no app {infrastructure_pid} can be seen from this worker")

    @override
    async def __aenter__(self) -> Self:
        """Start, and take up what earlier workers left."""
        await super().__aenter__()
        self._flow_runs = FlowRuns(self.client, self._work_pool_name)
        self._apps = Apps()
        self._own.callback(self._apps.close)
        self._submission = Submission(self._flow_runs, self._apps, self.get_flow_run_logger)
        self._monitor = Monitor(self._flow_runs, self._apps, self.get_flow_run_logger)
        self._adopting = await self._own.enter_async_context(anyio.create_task_group())
        await self._sweep(self._adopting)
        return self

    @override
    async def __aexit__(self, *exc_info: Any) -> None:  # noqa: PYI036  (as Prefect has it)
        """Leave all apps to go on, unless this worker was to see its runs to their ends (``--run-once``)."""
        try:
            await self._own.__aexit__(*exc_info)
        finally:
            await super().__aexit__(*exc_info)

    @override
    async def sync_with_backend(self) -> None:
        """Send a heartbeat, as every worker; then look for flow runs that need a worker."""
        await super().sync_with_backend()
        if self._adopting is not None:
            await self._sweep(self._adopting)

    async def _sweep(self, adopting: TaskGroup) -> None:
        """Take up orphans, and stop what should have stopped; never fails.

        A flow run that bears this worker's name is taken up at the start; later only when it was unattended
        in two sweeps: between its label and `run` it is without for a moment.
        """
        try:
            active = await self._flow_runs.active()
            crew = await self._flow_runs.crew(self.name)
            orphans = {
                flow_run.id: flow_run for flow_run in crew.orphans(active, self._monitor.looked_after(active))
            }
            for flow_run in orphans.values():
                if self._suspects is None or flow_run.id in self._suspects:
                    self._monitor.track(flow_run.id)
                    mine = crew.is_mine(flow_run)
                    adopting.start_soon(partial(self._adopt, flow_run, mine=mine))
            self._suspects = set(orphans)
            await self._monitor.stop_cancelled(active)
        except Exception:  # whatever it is, this worker's own runs must not suffer from it
            self._logger.exception("cannot look for flow runs to take up; trying again later")

    async def _adopt(self, flow_run: FlowRun, *, mine: bool) -> None:
        try:
            seen = await self._sees_app_of(flow_run)
            if not (mine or seen or (flow_run.state and flow_run.state.is_pending())):
                return
            dispatch = await self._flow_runs.reconcile(flow_run.id)
            mine = mine and not dispatch.late  # whose name it bears does not tell where its app is, then
            if dispatch.stage is not Stage.OVER and (mine or seen):
                with self._slot(flow_run.id):
                    await self._take_up(flow_run, dispatch, mine=mine)
        except Exception:  # its app goes on, and the next sweep comes back to it
            self._logger.exception("cannot take up flow run %s; trying again later", flow_run.id)
        finally:
            self._monitor.untrack(flow_run.id)

    async def _sees_app_of(self, flow_run: FlowRun) -> bool:
        handle = flow_run.infrastructure_pid
        return handle is not None and is_app_of(flow_run.id, handle) and await self._apps.sees(handle)

    async def _take_up(self, flow_run: FlowRun, dispatch: Dispatch, *, mine: bool) -> None:
        self.get_flow_run_logger(flow_run).info("worker %r takes up this flow run", self.name)
        if not mine:
            await self._flow_runs.claim(flow_run.id, self.name)
        configuration = await self._configuration(flow_run)
        handle = flow_run.infrastructure_pid
        if dispatch.stage is Stage.TAKEN:
            await self._submit_again(flow_run, configuration)
        elif handle and is_app_of(flow_run.id, handle):
            show = _shower(flow_run, configuration, since=time()) if configuration else None
            await self._monitor.see_through(flow_run, handle, show, configuration)
        else:
            self._monitor.rest(flow_run)

    async def _submit_again(self, flow_run: FlowRun, configuration: TorchXJobConfiguration | None) -> None:
        """Settle what was half submitted, or not at all; what is there already is found."""
        if configuration is None:
            await self._flow_runs.end(flow_run.id, Cancelled(message="its deployment was deleted"))
            return
        try:
            await self.run(flow_run, configuration)
        except (InvalidInputError, NotFoundError) as err:  # nor will it work the next time
            await self._flow_runs.end(flow_run.id, Crashed(message=f"cannot submit this flow run: {err}"))

    async def _configuration(self, flow_run: FlowRun) -> TorchXJobConfiguration | None:
        """Return the flow run's job; None when its deployment was deleted."""
        with suppress(ObjectNotFound):
            return await configuration_of(self, flow_run)
        return None

    @override
    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Mark the flow run as this worker's, however busy the server is.

        Prefect repeats a request that is answered with 503, but not for long, and crashes the flow run then.
        A server on SQLite answers so while others write between its reading of the labels and its writing.
        """
        for more_tries in reversed(range(LABEL_TRIES)):
            try:
                await super()._give_worker_labels_to_flow_run(flow_run_id)
            except HTTPStatusError as err:
                if err.response.status_code != codes.SERVICE_UNAVAILABLE or not more_tries:
                    raise
                self._logger.warning("the server is too busy to take flow run %s's labels", flow_run_id)
            else:
                return

    @override
    async def _propose_crashed_state(
        self, flow_run: FlowRun, message: str, client: PrefectClient | None = None
    ) -> None:
        """Crash what cannot be submitted. Prefect would crash what it fails to submit too late, as well."""
        with suppress(HTTPError):  # the server is away: Prefect's own method copes with that
            if (await self._flow_runs.reconcile(flow_run.id)).stage is not Stage.TAKEN:
                return
        await super()._propose_crashed_state(flow_run, message, client)

    @contextmanager
    def _slot(self, flow_run_id: UUID) -> Iterator[None]:
        """Count a flow run in this worker's ``--limit``. One too many is cared for all the same: it runs."""
        with ExitStack() as stack:
            with suppress(RuntimeError, anyio.WouldBlock):  # there is no limit, or it is reached
                self.limiter.acquire_on_behalf_of_nowait(flow_run_id)
                stack.callback(self.limiter.release_on_behalf_of, flow_run_id)
            yield


def _shower(flow_run: FlowRun, job: TorchXJobConfiguration, since: float = 0) -> Show | None:
    """Return what shows a flow run's lines in the output of the worker; None when it should not."""
    if not job.stream_output:
        return None

    def show(run: LogLines) -> None:
        if run.time >= since:
            text = "".join(f"{flow_run.name} | {line}\n" for line in run.lines)
            sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()

    return show
