"""One call's work with one app: find or submit it, follow it, leave it by cause; blocking or awaiting."""

from __future__ import annotations

import asyncio
import logging
import uuid
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar, final

from prefect_torchx._engine.caller import Caller
from prefect_torchx._engine.causes import INTERRUPTIONS, Causes, behind
from prefect_torchx._engine.position_store import ServerPositionStore
from prefect_torchx.attachment import Attachment, Request
from prefect_torchx.driver import TICK_S, Pause, Procedure, adrive, drive
from prefect_torchx.naming import FlowTry, Holder
from prefect_torchx.off_loop import Undisturbed, in_daemon_thread, outlast, started_in_thread
from prefect_torchx.order import Order
from prefect_torchx.page import RunPage
from prefect_torchx.resumption import Resumption
from prefect_torchx.saved_position import SavedPosition
from torchx_core.display.services import find_services
from torchx_core.errors import AppStatusError, SchedulerError, UnknownAppException
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, AppHandle, AppState, AppStatus, parse_app_handle

__all__ = ["AppRun"]

logger = logging.getLogger(__name__)

CANCEL_S = 10.0
"""How long the scheduler is asked for the app's end while it does not answer: nobody comes back to ask."""
LAST_LINES_S = 12.0
"""How long a cancelled app's last lines are waited for: its grace, unless that is longer than by default.
What the cancel has taken is part of it."""
LAST_RECORDS_S = 8.0
"""How long Prefect's API may then take for what is left of the log. Nobody comes back for that, but Prefect
kills a process that has not ended after 30 s."""
LEAVE_S = 1.0
"""How long the API may take for the log of an app that goes on: the next try shows what is left of it."""
LOG_S = 60.0
"""How long the API may take nothing at the app's end; then only the app's files have what is left."""
DEPARTURE_S = 25.0
"""How long a cancelled asyncio task stays, at most."""

T = TypeVar("T")


@final
class AppRun:
    """Runs an app for the flow run and task run that the present thread, or asyncio task, works for.

    Use it in a ``with`` or ``async with`` block. What interrupts a method has been dealt with when the method
    raises it: the app is cancelled, or left alone. `run` does it all; `attach`, `follow`, `leave` and
    `cancel` may be used on their own, in one process or in several. The methods whose names begin with ``a``
    await what the others block for.
    """

    def __init__(self, source: Order | Resumption) -> None:
        """Do nothing yet.

        Args:
            source: What to run, or what is held already.
        """
        self._source = source
        self._caller = Caller()
        self._causes = Causes(self._caller, source.on_worker_shutdown)
        if isinstance(source, Order):
            self._runner = source.target.runner()
            self._me: Holder | None = None
        else:
            self._runner = get_runner(parse_app_handle(source.handle).session_name)
            self._me = Holder.parse(source.token) if source.token else None
        self._page: RunPage | None = None
        self._attachment: Attachment | None = None
        self._is_over = isinstance(source, Resumption) and source.ended is not None
        self._failure: AppStatusError | None = None
        self._reason = ""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what this process has open; whatever happened, the app is what it was."""
        if self._page is not None:
            self._page.close(None, limit_s=LEAVE_S)
        self._runner.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do what leaving the ``with`` block does, on an event loop."""
        await outlast(started_in_thread(self._drive, self._close(None, LEAVE_S)), 2 * LEAVE_S)
        self._runner.close()

    @property
    def resumption(self) -> Resumption:
        """What to go on with elsewhere; only after `attach`."""
        handle = self._attachment.handle if self._attachment else None
        assert handle is not None, "attach first"
        return Resumption(
            handle=handle,
            token=self._me.token if self._me else None,
            limit_bytes=self._source.limit_bytes,
            on_worker_shutdown=self._source.on_worker_shutdown,
            hidden=self._source.hidden,
            ended=self._attachment.ended if self._attachment else None,
        )

    def result(self, status: AppStatus) -> Any:  # noqa: ANN401  (any JSON value; the caller knows which)
        """Return what the app has reported as its result.

        Raises:
            AppStatusError: The app ended otherwise than SUCCEEDED; the message leads with what failed.
        """
        if status.state is AppState.SUCCEEDED:
            return status.result
        assert self._failure is not None, "follow first"
        raise self._failure

    # --- blocking

    def run(self) -> AppStatus:
        """Attach to the app and follow it to its end."""
        return self._guarded(self._run())

    def attach(self) -> AppHandle:
        """Find or submit the app, and hold it; return without waiting for it.

        Raises:
            InvalidInputError: The request is wrong; nothing was submitted.
            OvertakenError: A later try has it.
            SchedulerError: The scheduler is away.
        """
        return self._guarded(self._attach())

    def follow(self) -> AppStatus:
        """Show the app's output in the run's log, to its end.

        Raises:
            UnknownAppException: It was deleted.
            SchedulerError: The scheduler is away for too long; the app goes on.
        """
        return self._guarded(self._follow())

    def cancel(self, reason: str) -> bool:
        """Ask for the app's end, unless another try holds it; return whether it will end."""
        try:
            return self._cancel(reason)
        except SchedulerError as err:
            self._say_uncancelled(err)
            return False

    def leave(self, interruption: BaseException) -> None:
        """Cancel the app if that is what the interruption means; otherwise leave it to a later try.

        Only a second Ctrl-C cuts that short. Another interruption, such as the signal that we were
        ahead of, is raised at the end.
        """
        leaving = Undisturbed(lambda: self._drive(self._leave(interruption)))
        leaving.start()
        later: BaseException | None = None
        while not leaving.is_over:
            try:
                leaving.wait()
            except INTERRUPTIONS as again:
                is_ctrl_c = type(again) is KeyboardInterrupt  # in a pool's child a SIGTERM's is one as well
                if is_ctrl_c and KeyboardInterrupt in (type(interruption), type(later)):
                    self._cancel_again()
                    raise
                later = again if later is None or is_ctrl_c else later
        if later is not None:
            raise later
        leaving.result()

    def _guarded(self, procedure: Procedure[T]) -> T:
        with self._causes:
            try:
                return drive(procedure, self._runner, self._causes.check)
            except INTERRUPTIONS as interruption:
                self.leave(interruption)
                raise

    def _drive(self, procedure: Procedure[None]) -> None:
        """Carry out what must not be interrupted by what it is about."""
        drive(procedure, self._runner, lambda: None)

    # --- awaiting

    async def arun(self) -> AppStatus:
        """Do what `run` does."""
        return await self._aguarded(self._run())

    async def aattach(self) -> AppHandle:
        """Do what `attach` does."""
        return await self._aguarded(self._attach())

    async def afollow(self) -> AppStatus:
        """Do what `follow` does."""
        return await self._aguarded(self._follow())

    async def acancel(self, reason: str) -> bool:
        """Do what `cancel` does."""
        return await in_daemon_thread(self.cancel, reason)

    async def aleave(self, interruption: BaseException) -> None:
        """Do what `leave` does, however often the present asyncio task is cancelled meanwhile."""
        if isinstance(interruption, asyncio.CancelledError):
            interruption = await behind(interruption)
        leaving = started_in_thread(self._drive, self._leave(interruption))
        leaving.add_done_callback(asyncio.Future.exception)  # seen: it is not reported as lost
        deadline = monotonic() + DEPARTURE_S
        while not leaving.done() and monotonic() < deadline:
            try:
                await asyncio.wait([leaving], timeout=deadline - monotonic())
            except asyncio.CancelledError as again:
                # On an event loop the first Ctrl-C merely cancels; only the second one is raised.
                if type(await behind(again)) is KeyboardInterrupt:
                    await in_daemon_thread(self._cancel_again)
                    raise

    async def _aguarded(self, procedure: Procedure[T]) -> T:
        with self._causes:
            try:
                return await adrive(procedure, self._runner, self._causes.check)
            except INTERRUPTIONS as interruption:
                await self.aleave(interruption)
                raise

    # --- the procedures

    def _run(self) -> Procedure[AppStatus]:
        yield from self._attach()
        return (yield from self._follow())

    def _attach(self) -> Procedure[AppHandle]:
        attachment, request = self._prepare()
        yield from attachment.attach(request)
        assert attachment.handle is not None
        return attachment.handle

    def _prepare(self) -> tuple[Attachment, Request]:
        """Learn who calls and what for; asks Prefect's server, and checks the request."""
        assert isinstance(self._source, Order), "attached already"
        flow_tries = self._caller.flow_tries()
        root = flow_tries[0].run if flow_tries else ""
        request = self._source.request(self._runner, self._caller.work(root), root)
        self._me = self._new_holder(flow_tries)
        attachment = self._new_attachment(request.app.app, None, root)
        attachment.want(request)
        self._attachment = attachment
        return attachment, request

    def _follow(self) -> Procedure[AppStatus]:
        if isinstance(self._source, Resumption) and self._source.ended:
            return self._source.ended
        attachment = self._open_attachment()
        assert attachment is not None, "attach first"
        status = yield from attachment.follow()
        self._is_over = True
        if status.state is not AppState.SUCCEEDED and self._page is not None:
            self._failure = self._page.failure(status, self.resumption.handle)
        yield from self._close(status, LOG_S)
        return status

    def _leave(self, interruption: BaseException) -> Procedure[None]:
        reason = self._causes.why_cancel(interruption)
        if reason and self._attachment is None and isinstance(self._source, Order):
            self._prepare_to_cancel()
        attachment = None if self._is_over else self._open_attachment()
        if attachment is not None:
            self._reason = reason
            if not reason:
                self._say(f"leaving {attachment.handle or 'the app'}, which goes on; a later try follows it")
            else:
                began = monotonic()
                if (yield from self._cancel_patiently(reason)):
                    yield from attachment.last_lines(LAST_LINES_S - (monotonic() - began))
        yield from self._close(None, LAST_RECORDS_S if reason else LEAVE_S)
        while self._causes.signal_may_come():
            yield Pause(seconds=TICK_S)

    def _cancel(self, reason: str) -> bool:
        """Do what `cancel` does, but raise SchedulerError when the scheduler does not answer."""
        try:
            attachment = self._open_attachment()
            return attachment is not None and attachment.cancel(reason)
        except UnknownAppException:
            return False

    def _cancel_patiently(self, reason: str) -> Procedure[bool]:
        """Do what `cancel` does; ask again, for `CANCEL_S` at most, after a failure that passes."""
        until = monotonic() + CANCEL_S
        while True:
            try:
                return self._cancel(reason)
            except SchedulerError as err:
                if not err.retryable or monotonic() >= until:
                    self._say_uncancelled(err)
                    return False
            yield Pause(seconds=TICK_S)

    def _say_uncancelled(self, error: SchedulerError) -> None:
        self._say(f"cannot cancel the app, which goes on until its lease is over: {error}")

    def _prepare_to_cancel(self) -> None:
        """Prepare again, as that was cut short: an earlier try may have left an app, which must end too."""
        try:
            self._prepare()
        except Exception as err:  # noqa: BLE001  (whatever it is, the interruption is what is raised)
            logger.warning("cannot look for an app of an earlier try, which its lease would end: %r", err)

    def _close(self, status: AppStatus | None, limit_s: float) -> Procedure[None]:
        for pause_s in self._page.closing(status, limit_s=limit_s) if self._page else ():
            yield Pause(seconds=pause_s)

    def _open_attachment(self) -> Attachment | None:
        """Return the attachment, which is there from the start where somebody else attached."""
        if self._attachment is None and isinstance(self._source, Resumption):
            app = self._runner.describe(self._source.handle)
            if app is None:
                raise UnknownAppException(self._source.handle)
            self._attachment = self._new_attachment(app, self._source.handle)
        return self._attachment

    def _new_attachment(self, app: AppDef, handle: AppHandle | None, root: str = "") -> Attachment:
        position_store = ServerPositionStore(
            self._caller.flow_run_id,
            self._caller.task_run_id,
            root,
            holder=self._me.token if self._me else "",
            has_hidden=bool(self._source.hidden),
            limit_bytes=self._source.limit_bytes,
        )
        saved_position = SavedPosition(position_store)
        self._page = RunPage(
            app,
            limit_bytes=self._source.limit_bytes,
            keeper=saved_position,
            hidden=self._source.hidden,
        )
        locate = partial(self._locate, app) if any(role.port_map for role in app.roles) else None
        return Attachment(self._runner, self._page, saved_position, self._me, handle, locate=locate)

    def _locate(self, app: AppDef, handle: AppHandle) -> bool:
        """Let the page link to the ports of the replicas while these run; return whether all have a host."""
        status = self._runner.status(handle)
        if status is None or self._page is None:
            return False
        self._page.locate(status)
        return None not in find_services(app, status).values()

    def _new_holder(self, flow_tries: tuple[FlowTry, ...]) -> Holder:
        caller = self._caller
        return Holder(
            flow_tries=flow_tries,
            task_run_id=caller.task_run_id,
            task_try=caller.task_try,
            call=f"{caller.began_ms}-{uuid.uuid4().hex}",
            is_distributed=caller.is_distributed,
        )

    def _cancel_again(self) -> None:
        if self._reason:
            self.cancel(self._reason)

    def _say(self, text: str) -> None:
        if self._page is not None:
            self._page.say(text)
