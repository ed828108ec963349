"""The sensor that waits for an app that something else has started."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._arguments import check_flag, check_texts
from airflow_torchx._engine import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
)
from airflow_torchx._mapping import checked
from airflow_torchx._parse_checks import has_template
from torchx_core.errors import UnknownAppException
from torchx_core.launch import Target
from torchx_core.specs import AppHandle, AppState, AppStatus, parse_app_handle

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from torchx_core.runner import Runner

__all__ = ["TorchXSensor"]

TICK_S = 1.0
"""How long a kill may go unnoticed; Airflow leaves a task 5 s between SIGTERM and SIGKILL."""


class TorchXSensor(BaseSensorOperator):
    """Waits until an app has succeeded; never cancels it, whatever becomes of the sensor.

    Waits for events, so ``poke_interval`` plays no role but in ``mode="reschedule"``. Waiting renews the
    app's lease, in that mode at each poke: let them come more often than the lease is long. A sensor that
    Airflow has asked to end, or whose supervisor has died, ends within a second and renews it no more. The
    app's result is the return value.

    Args:
        handle: The app's handle, for example from another task's XCom. (templated)
        torchx_conn_id: A connection of type ``torchx`` that says how to reach the scheduler. (templated)
        deferrable: Wait in the triggerer; None for what ``[operators] default_deferrable`` says.
        show_log: Whether the app's output goes to this task's log too; only with ``deferrable``, and only
            where the scheduler tells the app's secrets, so that they can be masked (Docker does not).

    Raises:
        InvalidInputError: An argument is of a wrong type; at DAG parse.
        MalformedAppHandleException: The handle is none; at DAG parse, unless it is a template.

    Example:
        >>> TorchXSensor(task_id="wait", handle="local_cwd://torchx/train-x1")
        <Task(TorchXSensor): wait>
    """

    template_fields: Collection[str] = ("handle", "torchx_conn_id")
    ui_color = "#e5f0fb"

    def __init__(
        self,
        *,
        handle: AppHandle,
        torchx_conn_id: str | None = None,
        deferrable: bool | None = None,
        show_log: bool = False,
        **kwargs: Any,  # noqa: ANN401  (BaseSensorOperator's)
    ) -> None:
        super().__init__(**kwargs)
        self.handle = handle
        self.torchx_conn_id = torchx_conn_id
        self.deferrable = _engine.deferrable_by_default() if deferrable is None else deferrable
        self.show_log = show_log
        self._killed = False
        check_texts(handle=handle, torchx_conn_id=torchx_conn_id)
        check_flag("deferrable", self.deferrable)
        check_flag("show_log", show_log)
        if not has_template(handle):
            parse_app_handle(handle)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:  # noqa: ANN401  (BaseOperator's)
        """Begin a mapped sensor; what is wrong with it is said when it is expanded."""
        return checked(super().partial(**kwargs))

    @override
    def execute(self, context: Context) -> object:
        """Wait for the app's end, here or in the triggerer."""
        if self.reschedule:
            return super().execute(context)
        if self.deferrable:
            self._defer(context)
        with self._target().runner() as runner:
            return self._result(self._wait(runner, self.timeout))

    @override
    def on_kill(self) -> None:
        """Take note: Airflow calls this in a signal handler, and then lets `execute` go on."""
        self._killed = True

    @override
    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; Airflow calls this in ``mode="reschedule"``."""
        with self._target().runner() as runner:
            status = runner.status(self.handle)
            if status is not None and not status.is_terminal():
                with suppress(UnknownAppException):  # the next poke says so
                    next(runner.follow(self.handle, logs=False, tick_s=0.0), None)  # renews its lease
                return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self._result(status))

    def resume(self, context: Context, event: object = None) -> object:
        """Look at how the app ended; where the trigger could not, wait for that."""
        from airflow_torchx._deferral import Fired

        fired = Fired.from_json(event)
        if fired.timed_out:
            limit = f"the execution_timeout of {self.execution_timeout}"
            raise AirflowTaskTimeout(f"{self.handle} has not ended in {limit}; it goes on")
        with self._target().runner() as runner:
            if fired.error is None:
                return self._result(runner.status(self.handle))
            _engine.emit(
                "warning", f"the triggerer could not wait for the app: {fired.error}; this worker does"
            )
            return self._result(self._wait(runner, _engine.started_at(context) + self.timeout - time.time()))

    @override
    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> object:
        """Wait from here when the trigger failed."""
        if error := _engine.trigger_failure(next_method, next_kwargs):
            next_method, next_kwargs = "resume", {"event": {"error": error}}
        return super().resume_execution(next_method, next_kwargs, context)

    def _wait(self, runner: Runner, seconds: float) -> AppStatus | None:
        """Return the app's final status, or None when there is no such app."""
        deadline = time.monotonic() + seconds
        status = runner.status(self.handle)
        if status is None or status.is_terminal():
            return status
        with suppress(UnknownAppException):
            for _ in runner.follow(self.handle, logs=False, tick_s=TICK_S):
                self._look()
                if time.monotonic() >= deadline:
                    break
        status = runner.status(self.handle)
        if status is not None and not status.is_terminal():
            message = f"{self.handle} has not ended in {self.timeout:g} s; it goes on"
            raise self._failed(message, AirflowSensorTimeout)
        return status

    def _look(self) -> None:
        """Give up when nobody is there to be told of the app's end; waiting on would keep its lease alive."""
        if _engine.supervisor_is_gone():
            raise AirflowException(f"Airflow's supervisor of this task is gone; {self.handle} goes on")
        if self._killed:
            raise AirflowException(f"Airflow has asked this task to end; {self.handle} goes on")

    def _defer(self, context: Context) -> None:
        from airflow_torchx._deferral import CURSOR_KEY, DEFERRED_AT_LEAST_S, Deferral, make_note
        from airflow_torchx.triggers import TorchXTrigger

        deadline = None
        if self.execution_timeout is not None:
            deadline = _engine.started_at(context) + self.execution_timeout.total_seconds()
        deferral = Deferral(
            handle=self.handle,
            token="",
            cursor=None,
            not_before=time.time() + DEFERRED_AT_LEAST_S,
            deadline=deadline,
            conn_id=self.torchx_conn_id,
            logs=self.show_log,
        )
        trigger = TorchXTrigger(**deferral.to_json())
        _engine.push_xcom(context, CURSOR_KEY, make_note(deferral.token, None))
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))

    def _target(self) -> Target:
        from airflow_torchx.hooks import TorchXHook

        return TorchXHook(self.torchx_conn_id).target if self.torchx_conn_id else Target()

    def _result(self, status: AppStatus | None) -> object:
        if status is None:
            raise self._failed(str(UnknownAppException(self.handle)))
        if status.state is not AppState.SUCCEEDED:
            raise self._failed(self._why(status))
        return status.result

    def _why(self, status: AppStatus) -> str:
        """Return why the app failed; without what it printed, where it may have secrets that nobody tells."""
        from airflow_torchx._outcome import failure_message
        from torchx_core.schedulers.secrets import MASK

        with self._target().runner() as runner:
            app = runner.describe(self.handle)
        for role in app.roles if app else ():
            _engine.mask_secrets(role.env)
            if any(MASK in value for value in role.env.values()):
                status.last_lines = None
        return failure_message(status, self.handle)

    def _failed(self, message: str, error: type[AirflowException] = AirflowException) -> AirflowException:
        return AirflowSkipException(message) if self.soft_fail or self.never_fail else error(message)
