"""Monitors the apps of a worker's flow runs: follows them, stops them, tells how they ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Final, final
from uuid import UUID

from prefect.logging.loggers import PrefectLogAdapter
from prefect.states import Cancelled, Crashed

from prefect_torchx.off_loop import in_daemon_thread
from prefect_torchx.worker.apps import Apps, Show, follow_to_end
from prefect_torchx.worker.dispatch import Stage, app_id, is_app
from prefect_torchx.worker.ending import (
    Ending,
    end_message,
    exit_code,
    judge,
    mask_of,
    read_last_lines,
    unsent,
)
from prefect_torchx.worker.server import FlowRuns
from torchx_core.display.masking import Mask
from torchx_core.display.text import whole_log
from torchx_core.specs import AppHandle, AppStatus

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

    from prefect_torchx.worker.job import TorchXJobConfiguration

__all__ = ["Monitor"]

CANCEL_PATIENCE_S: Final = 45.0
"""How long a cancelled flow run may take to end by itself. Its process sees the state, gives the flow 30 s,
and runs its ``on_cancellation`` hooks; that is the better end, and this is for when it does not come."""
CANCELLED: Final = "cancelled because the Prefect flow run was cancelled"

logger = logging.getLogger(__name__)


@final
class Monitor:
    """Knows which flow runs are in this worker's charge, and each one's app."""

    def __init__(self, server: FlowRuns, apps: Apps, log_of: Callable[[FlowRun], PrefectLogAdapter]) -> None:
        """Hold nothing yet.

        Args:
            server: The pool's flow runs.
            apps: Those on this host.
            log_of: The worker's logger into a flow run's log.
        """
        self._server = server
        self._apps = apps
        self._log_of = log_of
        self._tracked: dict[UUID, AppHandle | None] = {}
        self._resting: dict[UUID, UUID | None] = {}
        self._to_end_since: dict[UUID, float] = {}

    def looked_after(self, active: Iterable[FlowRun]) -> Collection[UUID]:
        """Return the flow runs that need nobody else: those in its charge, and those that rest.

        Args:
            active: The pool's flow runs that are not over, just read.
        """
        now = {flow_run.id: flow_run.state_id for flow_run in active}
        self._resting = {key: state for key, state in self._resting.items() if now.get(key) == state}
        return self._tracked.keys() | self._resting.keys()

    def track(self, flow_run_id: UUID) -> None:
        """Take charge of a flow run, before its app is known."""
        self._tracked.setdefault(flow_run_id, None)

    def untrack(self, flow_run_id: UUID) -> None:
        """Let go of a flow run; its app goes on."""
        self._tracked.pop(flow_run_id, None)

    def rest(self, flow_run: FlowRun) -> None:
        """Leave a flow run alone until its state changes: it is suspended, say, and its app is over."""
        self._resting[flow_run.id] = flow_run.state_id

    async def see_through(
        self, flow_run: FlowRun, handle: AppHandle, show: Show | None, job: TorchXJobConfiguration | None
    ) -> int:
        """Follow the app to its end, and tell the server if the flow run does not know of it.

        Args:
            flow_run: Whose app it is.
            handle: The app.
            show: Takes what the app prints; None when nobody wants it.
            job: What the app was made of, for the secrets in that; None where nobody knows any more.

        Returns:
            The exit code for Prefect, which crashes whatever has another one than 0: the app's where the flow
            run is over; 0 where it is to go on without this app.
        """
        self._tracked[flow_run.id] = handle
        status = await follow_to_end(self._apps.runner(), handle, show)
        return exit_code(status) if await self._report(flow_run, handle, status, job) else 0

    async def kill(self, handle: AppHandle, grace_s: float) -> bool:
        """Ask for the app's end; return whether there is such an app. Repeating it does no harm."""
        if await self._apps.status(handle) is None:
            return False
        await self._apps.cancel(handle, CANCELLED, grace_s)
        return True

    async def stop_cancelled(self, active: Iterable[FlowRun]) -> None:
        """End the apps of flow runs that were cancelled a while ago; call it now and then.

        Args:
            active: The pool's flow runs that are not over, just read.
        """
        going_on = {run.id for run in active if run.state and not run.state.is_cancelling()}
        since = self._to_end_since
        self._to_end_since = {key: since.get(key, monotonic()) for key in self._tracked.keys() - going_on}
        for flow_run_id, start in self._to_end_since.items():
            handle = self._tracked.get(flow_run_id)
            if handle and monotonic() - start >= CANCEL_PATIENCE_S and await self._is_cancelled(flow_run_id):
                await self._apps.cancel(handle, CANCELLED)

    async def _is_cancelled(self, flow_run_id: UUID) -> bool:
        now = await self._server.read(flow_run_id)
        state = now.state if now else None
        return now is None or (state is not None and (state.is_cancelling() or state.is_cancelled()))

    async def _report(
        self,
        flow_run: FlowRun,
        handle: AppHandle,
        status: AppStatus | None,
        job: TorchXJobConfiguration | None,
    ) -> bool:
        """Tell the server of the app's end, if need be; return whether the flow run is over."""
        dispatch = await self._server.reconcile(flow_run.id)
        now = await self._server.read(flow_run.id)
        if now is None:
            return False
        if not is_app(handle, app_id(now.id, dispatch.number)):  # this app no longer speaks for it
            self.rest(now)
            return False
        mask = await in_daemon_thread(mask_of, self._apps.runner(), handle, job)
        why = await in_daemon_thread(end_message, status, handle, mask)
        match judge(now.state, retried_in_process=dispatch.stage is not Stage.WAITING):
            case Ending.CANCELLED:
                return await self._server.end(now.id, Cancelled(message=CANCELLED))
            case Ending.CRASHED:
                if not await self._server.end(now.id, Crashed(message=why)):
                    return False
                await self._show_last_lines(now, handle, mask)
                return True
            case Ending.LEAVE:
                self.rest(now)
                if now.state is not None and now.state.is_crashed():
                    if exit_code(
                        status
                    ):  # the state tells what the process saw: a signal, and not who sent it
                        self._log_of(now).error("%s", why)
                    await self._show_last_lines(now, handle, mask)
                return bool(now.state and now.state.is_final())

    async def _show_last_lines(self, flow_run: FlowRun, handle: AppHandle, mask: Mask | None) -> None:
        if mask is None:
            text = "not showing what %s printed last: some of its secrets are unknown here; %s"
            self._log_of(flow_run).error(text, handle, whole_log(handle))
            return
        output = await in_daemon_thread(read_last_lines, self._apps.runner(), handle)
        output = [mask(line) for line in output]
        lines = unsent(output, await self._server.messages(flow_run.id)) if output else []
        if lines:
            text = "\n".join(f"  {line}" for line in lines)
            self._log_of(flow_run).error("what %s printed last:\n%s", handle, text)
