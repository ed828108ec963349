"""A worker's care for the apps of its flow runs: submits them, follows them, tells how they ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, final
from uuid import UUID

import anyio
from prefect.logging.loggers import PrefectLogAdapter
from prefect.states import Cancelled, Crashed

from prefect_torchx.off_loop import in_daemon_thread
from prefect_torchx.worker.ending import Verdict, exit_code, judge, tell
from prefect_torchx.worker.following import Show, follow_to_end
from prefect_torchx.worker.identity import app_id, is_app, is_app_of
from prefect_torchx.worker.job import TorchXJobConfiguration
from prefect_torchx.worker.last_lines import mask_of, read_last_lines
from prefect_torchx.worker.server import FlowRuns
from prefect_torchx.worker.tail import unsent
from torchx_core.errors import AppIdConflictError, NotFoundError, SchedulerError
from torchx_core.launch import AppRequest, Patience
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppStatus, make_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

__all__ = ["Care"]

PREDECESSOR_S: Final = 30.0
"""How long the app of an earlier hand-out may take to end by itself: a flow that is suspended lets its
running tasks end, and may be resumed meanwhile."""
CANCEL_PATIENCE_S: Final = 45.0
"""How long a cancelled flow run may take to end by itself. Its process sees the state, gives the flow 30 s,
and runs its ``on_cancellation`` hooks; that is the better end, and this is for when it does not come."""
SUBMIT_PATIENCE_S: Final = 120.0
"""How long a scheduler may be away while we submit."""
CANCELLED: Final = "cancelled because the Prefect flow run was cancelled"

logger = logging.getLogger(__name__)


@final
class Care:
    """Knows which flow runs are in this worker's care, and each one's app."""

    def __init__(self, server: FlowRuns, log_of: Callable[[FlowRun], PrefectLogAdapter]) -> None:
        """Hold nothing yet.

        Args:
            server: The pool's flow runs.
            log_of: The worker's logger into a flow run's log.
        """
        self._server = server
        self._log_of = log_of
        self._runners: dict[str | None, Runner] = {}
        self._held: dict[UUID, AppHandle | None] = {}
        self._to_end_since: dict[UUID, float] = {}

    @property
    def held(self) -> Collection[UUID]:
        """The flow runs in care."""
        return self._held.keys()

    def hold(self, flow_run_id: UUID) -> None:
        """Take a flow run into care, before its app is known."""
        self._held.setdefault(flow_run_id, None)

    def drop(self, flow_run_id: UUID) -> None:
        """Let go of a flow run; its app goes on."""
        self._held.pop(flow_run_id, None)

    def close(self) -> None:
        """Release what the schedulers hold in this process; apps go on."""
        for runner in self._runners.values():
            runner.close()

    async def submit(self, flow_run: FlowRun, job: TorchXJobConfiguration) -> AppHandle:
        """Run the flow run as an app, once, however often and by whomever this is called.

        Raises:
            TorchXError: The job is wrong, or its scheduler refused it.
        """
        runner = self._runner(job.session)
        request = await in_daemon_thread(job.request, runner)
        handout = await self._server.handout(flow_run.id)
        own_id = app_id(flow_run.id, handout.number)
        handle = make_app_handle(request.scheduler, runner.name, own_id)
        if handout.end is not None:
            self._log_of(flow_run).info("not submitting %s: this flow run is %s", handle, handout.end.name)
            await self._server.end_again(flow_run.id, handout.end)
            return handle
        await self._see_off_predecessor(flow_run, own_id)
        # Known to the server before it exists: whoever comes after us finds it there.
        await self._server.record(flow_run.id, handle)
        await _submit_once(request, runner, own_id)
        return handle

    async def sees(self, flow_run: FlowRun) -> bool:
        """Return whether the flow run's app can be seen from here."""
        handle = flow_run.infrastructure_pid or ""
        with suppress(NotFoundError):  # a scheduler that only its worker's host has
            return is_app_of(flow_run.id, handle) and await self._status(handle) is not None
        return False

    async def see_through(self, flow_run: FlowRun, handle: AppHandle, show: Show | None) -> AppStatus | None:
        """Follow the app to its end, and tell the server if the flow run does not know of it."""
        self._held[flow_run.id] = handle
        status = await follow_to_end(self._runner(), handle, show)
        await self._report(flow_run, handle, status)
        return status

    async def kill(self, handle: AppHandle, grace_s: float) -> bool:
        """Ask for the app's end; return whether there is such an app. Repeating it does no harm."""
        if await self._status(handle) is None:
            return False
        await in_daemon_thread(self._runner().cancel, handle, grace_s=grace_s, reason=CANCELLED)
        return True

    async def stop_cancelled(self, active: Iterable[FlowRun]) -> None:
        """End the apps of flow runs that were cancelled a while ago; call it now and then.

        Args:
            active: The pool's flow runs that are not over, just read.
        """
        going_on = {run.id for run in active if run.state and not run.state.is_cancelling()}
        since = self._to_end_since
        self._to_end_since = {key: since.get(key, monotonic()) for key in self._held.keys() - going_on}
        for flow_run_id, start in self._to_end_since.items():
            handle = self._held.get(flow_run_id)
            if handle and monotonic() - start >= CANCEL_PATIENCE_S and await self._is_cancelled(flow_run_id):
                await in_daemon_thread(self._runner().cancel, handle, reason=CANCELLED)

    async def _is_cancelled(self, flow_run_id: UUID) -> bool:
        now = await self._server.read(flow_run_id)
        state = now.state if now else None
        return now is None or (state is not None and (state.is_cancelling() or state.is_cancelled()))

    async def _see_off_predecessor(self, flow_run: FlowRun, own_id: str) -> None:
        """Outwait the app of an earlier hand-out, so that a flow run never runs twice at once."""
        earlier = flow_run.infrastructure_pid or ""
        if not is_app_of(flow_run.id, earlier) or is_app(earlier, own_id):
            return
        status = await self._status(earlier)
        if status is None or status.is_terminal():
            return
        self._log_of(flow_run).info("waiting for the end of %s, of an earlier try", earlier)
        with anyio.move_on_after(PREDECESSOR_S):
            await follow_to_end(self._runner(), earlier)
        reason = "cancelled because the Prefect flow run was started again"
        await in_daemon_thread(self._runner().cancel, earlier, reason=reason)
        await follow_to_end(self._runner(), earlier)

    async def _report(self, flow_run: FlowRun, handle: AppHandle, status: AppStatus | None) -> None:
        now = await self._server.read(flow_run.id)
        if now is None or not is_app(handle, app_id(now.id, (await self._server.handout(now.id)).number)):
            return  # deleted, or handed out again: this app no longer speaks for it
        mask = await in_daemon_thread(mask_of, self._runner(), handle)
        why = mask(tell(status, handle))
        match judge(now.state, retried_in_process=now.empirical_policy.retry_type == "in_process"):
            case Verdict.CANCELLED:
                await self._server.end(now.id, Cancelled(message=CANCELLED))
            case Verdict.CRASHED:
                if await self._server.end(now.id, Crashed(message=why)):
                    await self._show_last_lines(now, handle)
            case Verdict.LEAVE if now.state is not None and now.state.is_crashed():
                if exit_code(status):  # its state tells what the process saw: a signal, not who sent it
                    self._log_of(now).error("%s", why)
                await self._show_last_lines(now, handle)
            case Verdict.LEAVE:
                pass

    async def _show_last_lines(self, flow_run: FlowRun, handle: AppHandle) -> None:
        output = await in_daemon_thread(read_last_lines, self._runner(), handle)
        lines = unsent(output, await self._server.messages(flow_run.id)) if output else []
        if lines:
            text = "\n".join(f"  {line}" for line in lines)
            self._log_of(flow_run).error("what %s printed last:\n%s", handle, text)

    async def _status(self, handle: AppHandle) -> AppStatus | None:
        return await in_daemon_thread(self._runner().status, handle)

    def _runner(self, session: str | None = None) -> Runner:
        """Return the runner of a session; for looking at an app any will do."""
        if session not in self._runners:
            self._runners[session] = get_runner(session)
        return self._runners[session]


async def _submit_once(request: AppRequest, runner: Runner, own_id: str) -> None:
    """Submit, trying again where that is safe: an app that may have been submitted must not be given up."""
    patience = Patience(SUBMIT_PATIENCE_S)
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
