"""Runs one try of an operator's task: from rendered arguments to the result, the deferral or the error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn, final

from airflow_torchx import _engine
from airflow_torchx._deferral import CURSOR_KEY, NOTHING_FIRED, Deferral, Fired
from airflow_torchx._departure import Departure
from airflow_torchx._engine import AirflowException, AirflowFailException, AirflowTaskTimeout, Context
from airflow_torchx._hold import Hold
from airflow_torchx._log import AppLog
from airflow_torchx._memory import ProbingMemory, StoreMemory
from airflow_torchx._outcome import deliver
from airflow_torchx.hooks import TorchXHook
from airflow_torchx.links.torchx import push_links
from torchx_core.errors import InvalidInputError, UnknownSchedulerException
from torchx_core.launch import AppRequest, Target
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, AppStatus

if TYPE_CHECKING:
    from airflow_torchx._record import Memory
    from airflow_torchx.operators.torchx import TorchXRunOperator

__all__ = ["Execution", "Limits"]


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

    def begin(self, *, follow_s: float | None) -> object:
        """Submit or find the app, follow it, return its result; defer after so many seconds, unless None."""

        def work(hold: Hold) -> AppStatus | None:
            hold.attach()
            _engine.push_xcom(self._context, "handle", hold.handle)
            push_links(self._operator, self._context, hold.app(), hold.status())
            return hold.follow() if follow_s is None else hold.follow_for(follow_s)

        return self._run(work)

    def go_on(self, event: object) -> object:
        """Go on where the trigger left off, given what it fired."""
        fired = Fired.from_json(event)
        if fired.error is not None:
            raise AirflowException(f"{fired.error}; the app was left alone, and a retry would find it")

        def work(hold: Hold) -> AppStatus:
            hold.resume(fired.cursor)
            push_links(self._operator, self._context, hold.app(), hold.status())
            return hold.follow()

        return self._run(work, fired)

    def give_up(self) -> object:
        """Cancel the app, whose trigger has not fired in time, and fail."""

        def work(hold: Hold) -> AppStatus:
            hold.resume(_engine.note_left(self._context, CURSOR_KEY))
            hold.cancel(self._timeout_reason)
            return hold.follow()

        return self._run(work, Fired(timed_out=True))

    def _run(self, work: Callable[[Hold], AppStatus | None], fired: Fired = NOTHING_FIRED) -> object:
        """Hold the app and do the work with it; return the app's result, or defer when it has not ended."""
        log = AppLog(
            _engine.emit,
            limit_bytes=self._log_limit_bytes,
            shown_bytes=fired.shown_bytes,
            left_out=fired.left_out,
            mask=_engine.masked,
        )
        departure = Departure(
            self._this_try,
            self._operator.on_worker_shutdown,
            killed=self._killed,
            present_state=partial(_engine.present_state, self._context),
            supervisor_is_gone=_engine.supervisor_is_gone,
        )
        try:
            target = self._target()
        except InvalidInputError as err:
            raise AirflowFailException(str(err)) from err
        with target.runner() as runner:
            try:
                request = self._request(runner, target)
                memory = self._memory(runner, request)
                hold = Hold(runner, memory, self._this_try, request, log, departure.look)
                status = self._guarded(hold, work)
                if status is None:
                    departure.check_deferral(hold)
            except (InvalidInputError, UnknownSchedulerException) as err:
                raise AirflowFailException(str(err)) from err
        departure.check()
        if status is None:
            self._defer(replace(hold.deferral, shown_bytes=log.shown_bytes, left_out=log.left_out))
        if fired.timed_out and status.state is not AppState.SUCCEEDED:
            raise AirflowTaskTimeout(self._timeout_reason)
        log.show_end(status)
        operator = self._operator
        return deliver(self._context, operator.outlets, hold.handle, status, operator.fail_on_exit_codes)

    def _guarded(self, hold: Hold, work: Callable[[Hold], AppStatus | None]) -> AppStatus | None:
        """Cancel the app for two causes only: whatever else ends the try leaves the app alone."""
        try:
            return work(hold)
        except AirflowTaskTimeout:
            hold.cancel(self._timeout_reason)
            raise
        except KeyboardInterrupt:
            hold.cancel("cancelled because the Airflow task was interrupted")
            raise

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
        )
        margin_s = self._limits.defer_margin_s
        timeout = None if deadline is None else timedelta(seconds=deadline - time.time() + margin_s)
        trigger = TorchXTrigger(**deferral.to_json())
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

    def _request(self, runner: Runner, target: Target) -> AppRequest:
        operator, deadline = self._operator, self._deadline
        delay_s = _engine.longest_retry_delay_s(operator)
        return AppRequest.make(
            runner,
            self._app(),
            target,
            workspace=operator.workspace,
            lease_s=None if operator.lease_s is None else operator.lease_s + delay_s,
            deadline=None if deadline is None else deadline + self._limits.deadline_margin_s,
        )

    def _memory(self, runner: Runner, request: AppRequest) -> Memory:
        store = _engine.task_state_store(self._context)
        if store is not None:
            return StoreMemory(store)
        return ProbingMemory(runner, request.scheduler, self._this_try, request.lease_s)
