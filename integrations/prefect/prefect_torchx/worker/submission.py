"""Makes an app of a flow run, once, or finds that another worker has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import anyio
from prefect.logging.loggers import PrefectLogAdapter

from prefect_torchx.off_loop import in_daemon_thread
from prefect_torchx.worker.adoption import NOBODY
from prefect_torchx.worker.apps import Apps, follow_to_end
from prefect_torchx.worker.dispatch import Dispatch, Stage, app_id, is_app, is_app_of
from prefect_torchx.worker.job import TorchXJobConfiguration
from prefect_torchx.worker.server import FlowRuns
from torchx_core.errors import AppIdConflictError, SchedulerError
from torchx_core.launch import AppRequest, Patience
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, make_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["Submission"]

PREDECESSOR_S: Final = 30.0
"""How long the app of an earlier dispatch may take to end by itself: a flow that is suspended lets its
running tasks end, and may be resumed meanwhile."""
PATIENCE_S: Final = 120.0
"""How long a scheduler may be away while we submit."""
STARTED_AGAIN: Final = "cancelled because the Prefect flow run was started again"

logger = logging.getLogger(__name__)


@final
class Submission:
    """Submits the apps of flow runs."""

    def __init__(self, server: FlowRuns, apps: Apps, log_of: Callable[[FlowRun], PrefectLogAdapter]) -> None:
        """Take what all flow runs have in common.

        Args:
            server: The pool's flow runs.
            apps: Those on this host.
            log_of: The worker's logger into a flow run's log.
        """
        self._server = server
        self._apps = apps
        self._log_of = log_of

    async def submit(self, flow_run: FlowRun, job: TorchXJobConfiguration) -> AppHandle | None:
        """Run the flow run as an app, once, however often and by whomever this is called.

        Returns:
            The app to follow; None when there is none for this worker, which came too late.

        Raises:
            TorchXError: The job is wrong, or its scheduler refused it.
        """
        # First of all: whoever is late may not even have the scheduler that the flow run had.
        dispatch = await self._server.reconcile(flow_run.id)
        own_id = app_id(flow_run.id, dispatch.number)
        now = await self._server.read(flow_run.id)  # `flow_run` is as old as its offer
        recorded = (now.infrastructure_pid if now else None) or ""
        if is_app(recorded, own_id):  # it is there, or nowhere, whatever the job says by now
            if dispatch.stage is not Stage.OVER and await self._apps.sees(recorded):
                return recorded
            job = job.at(recorded) if dispatch.stage is Stage.TAKEN else job
        if dispatch.stage is not Stage.TAKEN:
            await self._decline(flow_run, dispatch)
            return None
        return await self._submit(flow_run, job, own_id, earlier=recorded)

    async def _decline(self, flow_run: FlowRun, dispatch: Dispatch) -> None:
        why = f"it is {dispatch.end.name}" if dispatch.end else "its process has it, or another will"
        self._log_of(flow_run).info("not submitting this flow run: %s", why)
        if dispatch.stage is Stage.BEGUN:  # its app is somewhere else, and so is who knows of it
            await self._server.claim(flow_run.id, NOBODY)

    async def _submit(
        self, flow_run: FlowRun, job: TorchXJobConfiguration, own_id: str, *, earlier: str
    ) -> AppHandle:
        runner = self._apps.runner(job.session)
        request = await in_daemon_thread(job.request, runner)
        handle = make_app_handle(request.scheduler, runner.name, own_id)
        if is_app_of(flow_run.id, earlier) and not is_app(earlier, own_id):
            await self._see_off(flow_run, earlier)
        # Known to the server before it exists: whoever comes after us finds it there.
        await self._server.record(flow_run.id, handle)
        await _submit_once(request, runner, own_id)
        return handle

    async def _see_off(self, flow_run: FlowRun, earlier: AppHandle) -> None:
        """Outwait the app of an earlier dispatch, so that a flow run never runs twice at once."""
        status = await self._apps.status(earlier)
        if status is None or status.is_terminal():
            return
        self._log_of(flow_run).info("waiting for the end of %s, of an earlier try", earlier)
        with anyio.move_on_after(PREDECESSOR_S):
            await follow_to_end(self._apps.runner(), earlier)
        await self._apps.cancel(earlier, STARTED_AGAIN)
        await follow_to_end(self._apps.runner(), earlier)


async def _submit_once(request: AppRequest, runner: Runner, own_id: str) -> None:
    """Submit, trying again where that is safe: an app that may have been submitted must not be given up."""
    patience = Patience(PATIENCE_S)
    while True:
        try:
            await in_daemon_thread(request.submit, runner, own_id)
        except AppIdConflictError:  # another worker, with other settings, came first: that app it is
            return
        except SchedulerError as err:
            delay_s = patience.delay_after(err)
            logger.warning("cannot submit %s, trying again in %.0f s: %s", own_id, delay_s, err)
            await anyio.sleep(delay_s)
        else:
            return
