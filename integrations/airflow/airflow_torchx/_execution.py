"""Runs one try of an operator's task: from rendered arguments to the result, the deferral or the error."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, NoReturn, final

from airflow_torchx import _engine
from airflow_torchx._attachment import GIVE_UP_FIRST_S, Attachment
from airflow_torchx._deferral import CURSOR_KEY, NOTHING_FIRED, Deferral, Fired, cursor_noted, make_note
from airflow_torchx._engine import AirflowFailException, AirflowTaskTimeout, Context
from airflow_torchx._engine_logs import shown_before
from airflow_torchx._engine_metrics import use_airflow_metrics
from airflow_torchx._interruption import Interruption
from airflow_torchx._links import LinkingLog, Links
from airflow_torchx._log import AppLog
from airflow_torchx._memory import ProbingMemory, StoreMemory
from airflow_torchx._outcome import deliver
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx._shown import Shown, ShownLine
from airflow_torchx._sight import LOOK_AGAIN_S, OutOfSightError, ends_with_task
from airflow_torchx.hooks import TorchXHook
from airflow_torchx.links.torchx import page_link
from torchx_core.errors import InvalidInputError, SchedulerError, TorchXError, UnknownSchedulerException
from torchx_core.launch import AppRequest, Target
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, AppStatus

if TYPE_CHECKING:
    from airflow_torchx._record import Memory
    from airflow_torchx.operators.torchx import TorchXRunOperator

__all__ = ["Execution", "Limits"]

logger = logging.getLogger(__name__)

UNWATCHED = (
    "this worker follows it to its end, in the slot that it has. A triggerer has to see what a worker sees:"
    " the same state directory, engine or cluster, and the connection; where it cannot, say deferrable=False"
)
GAVE_UP_REASON = "cancelled because the Airflow task gave up in its last try: it could not follow the app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far limits stand behind ``execution_timeout``, in seconds."""

    defer_margin_s: float
    """Airflow's own limit of a deferral."""
    deadline_margin_s: float
    """The app's own deadline."""


@final
class Execution:
    """One try of the task of an operator."""

    def __init__(
        self,
        operator: TorchXRunOperator,
        context: Context,
        *,
        app: Callable[[], AppDef],
        killed: Callable[[], bool],
        limits: Limits,
    ) -> None:
        """Do nothing yet.

        Args:
            operator: Whose task it is, with its templates rendered.
            context: The task's.
            app: Returns what is to run.
            killed: Whether Airflow has asked the task to end.
            limits: See there.
        """
        self._operator = operator
        self._context = context
        self._app = app
        self._killed = killed
        self._limits = limits
        self._this_try = _engine.this_try(context)
        self._links = Links(operator, context, page_link(self._this_try))
        operator.operator_extra_links = ()  # for which Airflow would write XComs at the end, empty ones too

    def begin(self, *, follow_s: float | None) -> object:
        """Submit or find the app, follow it, return its result; defer after so many seconds, unless None."""

        def work(attachment: Attachment) -> AppStatus | None:
            ended = attachment.attach()
            _engine.push_xcom(self._context, "handle", attachment.handle)
            if self._operator.torchx_conn_id:  # by which the web server reaches the app, to show its page
                _engine.push_xcom(self._context, "torchx_conn_id", self._operator.torchx_conn_id)
            if ended is not None:
                return ended
            self._links.show(attachment)
            # A second deferral in one try would make the triggerer write its log over that of the first.
            if follow_s is None or attachment.record.unwatched or self._this_try.is_rescheduled:
                return attachment.follow()
            if ends_with_task(attachment.handle):
                _engine.emit("info", f"not deferred: {attachment.handle} would end with this try's container")
                return attachment.follow()
            return attachment.follow_for(follow_s)

        return self._run(work)

    def go_on(self, event: object) -> object:
        """Go on where the trigger left off, given what it fired.

        That a trigger could not follow the app says nothing about the app: this worker looks itself.
        """
        fired = Fired.from_json(event)
        if fired.error is not None:
            _engine.emit("warning", f"the triggerer could not follow the app: {fired.error}; {UNWATCHED}")

        def work(attachment: Attachment) -> AppStatus:
            if fired.error is None:
                if ended := attachment.resume(fired.cursor, fired.ended):
                    return ended
            else:
                attachment.resume(fired.cursor or self._noted_cursor(), give_up_s=GIVE_UP_FIRST_S)
                attachment.note_triggerer(sees_app=not fired.unseen)
            self._links.show(attachment)
            return self._follow_until_timeout(attachment)

        return self._run(work, fired)

    def give_up(self) -> object:
        """Cancel the app, whose trigger has not fired in time, and fail."""

        def work(attachment: Attachment) -> AppStatus:
            attachment.resume(self._noted_cursor())
            attachment.cancel(self._timeout_reason)
            return attachment.follow()

        return self._run(work, Fired(timed_out=True))

    def _follow_until_timeout(self, attachment: Attachment) -> AppStatus:
        """Follow the app; cancel it at the deadline, which Airflow counts anew when it resumes a task.

        Raises:
            AirflowTaskTimeout: The deadline has passed.
        """
        if self._deadline is None:
            return attachment.follow()
        status = attachment.follow_for(self._deadline - time.time())
        if status is None:
            attachment.cancel(self._timeout_reason)
            status = attachment.follow()
            if status.state is not AppState.SUCCEEDED:
                raise AirflowTaskTimeout(self._timeout_reason)
        return status

    def _noted_cursor(self) -> str | None:
        """Return how far a trigger of this try has shown the log."""
        return cursor_noted(_engine.note_left(self._context, CURSOR_KEY), self._this_try.token)

    def _run(self, work: Callable[[Attachment], AppStatus | None], fired: Fired = NOTHING_FIRED) -> object:
        """Hold the app and do the work with it; return the app's result, or defer when it has not ended."""
        log = self._log(fired)
        with self._attached(log) as (attachment, interruption):
            try:
                status = self._guarded(attachment, work)
            finally:
                log.flush()
            if status is None:
                interruption.check_deferral(attachment)
        interruption.check()
        if status is None:
            self._defer(replace(attachment.deferral, shown_bytes=log.shown_bytes, left_out=log.left_out))
        if fired.timed_out and status.state is not AppState.SUCCEEDED:
            raise AirflowTaskTimeout(self._timeout_reason)
        log.show_end(status, attachment.handle)
        operator = self._operator
        operator.ended = (attachment.handle, status)
        return deliver(
            self._context, operator.outlets, attachment.handle, status, operator.fail_on_exit_codes
        )

    @contextmanager
    def _attached(self, log: AppLog) -> Iterator[tuple[Attachment, Interruption]]:
        """Yield the attachment to the task's app, and what watches for reasons to let it go."""
        interruption = Interruption(
            self._this_try,
            self._operator.on_worker_shutdown,
            killed=self._killed,
            present_state=partial(_engine.present_state, self._context),
            supervisor_is_gone=_engine.supervisor_is_gone,
        )
        use_airflow_metrics()
        try:
            target = self._target()
            with target.runner() as runner:
                memory = self._memory(runner, target)
                request = cache(partial(self._request, runner, target))
                shown = LinkingLog(log, self._links)
                attachment = Attachment(
                    runner, memory, self._this_try, request, shown, interruption.look, self._app_deadline
                )
                yield attachment, interruption
        except OutOfSightError as err:
            _engine.emit("warning", str(err))
            raise _engine.reschedule(LOOK_AGAIN_S) from err
        except (InvalidInputError, UnknownSchedulerException) as err:
            raise AirflowFailException(str(err)) from err

    def _log(self, fired: Fired) -> AppLog:
        return AppLog(
            _engine.emit,
            limit_bytes=self._log_limit_bytes,
            shown_bytes=fired.shown_bytes,
            left_out=fired.left_out,
            mask=_engine.masked,
            before=Shown(self._shown_before(), _engine.masked),
        )

    def _shown_before(self) -> list[ShownLine]:
        """Return what came into the log after the position that is saved; without a store none is."""
        if _engine.task_state_store(self._context) is None:
            return []
        return shown_before(self._context)

    def _guarded(
        self, attachment: Attachment, work: Callable[[Attachment], AppStatus | None]
    ) -> AppStatus | None:
        """Cancel the app for three causes only: whatever else ends the try leaves the app alone."""
        try:
            return work(attachment)
        except AirflowTaskTimeout:
            self._try_to_cancel(lambda: attachment.cancel(self._timeout_reason))
            raise
        except KeyboardInterrupt:
            self._try_to_cancel(
                lambda: attachment.cancel("cancelled because the Airflow task was interrupted")
            )
            raise
        except SchedulerError:
            if self._this_try.is_last:
                self._try_to_cancel(lambda: attachment.cancel(GAVE_UP_REASON))
            raise

    def _try_to_cancel(self, cancel: Callable[[], object]) -> None:
        """Cancel once; what comes of it must not hide why."""
        try:
            cancel()
        except (TorchXError, AirflowUnavailableError) as err:
            logger.warning("the app was not cancelled: %s", err)

    def _defer(self, deferral: Deferral) -> NoReturn:
        from airflow_torchx.triggers import TorchXTrigger

        deadline = self._deadline
        deferral = replace(
            deferral,
            deadline=deadline,
            timeout_reason=self._timeout_reason,
            conn_id=self._operator.torchx_conn_id,
            end_task=_engine.ends_without_worker(self._operator),
            limit_bytes=self._log_limit_bytes,
            quiet=self._operator.has_option_secrets,
            links_awaited=self._links.awaited,
        )
        margin_s = self._limits.defer_margin_s
        timeout = None if deadline is None else timedelta(seconds=deadline - time.time() + margin_s)
        trigger = TorchXTrigger(**deferral.to_json())
        _engine.push_xcom(self._context, CURSOR_KEY, make_note(deferral.token, None))
        self._operator.defer(trigger=trigger, method_name="resume", timeout=timeout)

    @property
    def _log_limit_bytes(self) -> int | None:
        limit_mb = self._operator.log_limit_mb
        return None if limit_mb is None else int(limit_mb * 1e6)

    @property
    def _timeout_reason(self) -> str:
        timeout = self._operator.execution_timeout
        return f"cancelled because the Airflow task's execution_timeout of {timeout} passed"

    @property
    def _deadline(self) -> float | None:
        """When ``execution_timeout`` is over, in seconds since the epoch."""
        timeout = self._operator.execution_timeout
        return _engine.started_at(self._context) + timeout.total_seconds() if timeout else None

    def _target(self) -> Target:
        operator = self._operator
        target = TorchXHook(operator.torchx_conn_id).target if operator.torchx_conn_id else Target()
        return target.overridden(operator.scheduler, operator.session, operator.cfg)

    def _request(self, runner: Runner, target: Target, deadline: float | None) -> AppRequest:
        try:
            app = self._app()
        except AirflowFailException as err:
            raise InvalidInputError(str(err)) from err  # there may be an app to go on with all the same
        return AppRequest.make(
            runner,
            app,
            target,
            workspace=self._operator.workspace,
            lease_s=self._lease_s,
            deadline=deadline,
        )

    @property
    def _lease_s(self) -> float | None:
        lease_s = self._operator.lease_s
        return None if lease_s is None else lease_s + _engine.longest_retry_delay_s(self._operator)

    @property
    def _app_deadline(self) -> float | None:
        """When an app that this try starts ends by itself."""
        deadline = self._deadline
        return None if deadline is None else deadline + self._limits.deadline_margin_s

    def _memory(self, runner: Runner, target: Target) -> Memory:
        store = _engine.task_state_store(self._context)
        if store is not None:
            return StoreMemory(store)
        return ProbingMemory(runner, target.scheduler, self._this_try, self._lease_s)
