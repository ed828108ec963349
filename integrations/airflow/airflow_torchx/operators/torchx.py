"""The operator that runs a TorchX-style app."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._departure import Departure
from airflow_torchx._engine import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    BaseOperator,
    Context,
    XComArg,
)
from airflow_torchx._hold import Hold
from airflow_torchx._log import AppLog
from airflow_torchx._memory import ProbingMemory, StoreMemory
from airflow_torchx._request import AppDocument, AppRequest, check, make_app, to_document
from torchx_core.errors import InvalidInputError, UnknownSchedulerException
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppState, AppStatus, CfgVal

if TYPE_CHECKING:
    import jinja2

    from airflow_torchx._plan import OnWorkerShutdown
    from airflow_torchx._record import Memory
    from airflow_torchx._tries import TaskTry

__all__ = ["TorchXRunOperator"]

DEADLINE_MARGIN_S = 5.0
"""The app's own deadline stands back behind Airflow's timeout, which gives the clearer message."""


class TorchXRunOperator(BaseOperator):
    """Runs an app on a scheduler, shows its output in the task's log and returns its result.

    The app is submitted once, however often the task's process dies: a retry follows the running app and goes
    on with the log where the last try stopped. A retry after the app has failed starts a new one, and so does
    a clear, which cancels the old app first. Marking the task, clearing it, failing its run and
    ``execution_timeout`` cancel the app; a worker that shuts down or dies does not.

    XComs: ``return_value`` is the value that the app reported with `torchx_core.runtime.report_result` (none
    when it reported nothing); ``handle`` is the app's handle, there as soon as it runs; ``app`` is its final
    status.

    Args:
        app: What to run: an ``AppDef`` (of this project or of TorchX), a map of its fields, or YAML text.
            (templated, every text in it)
        scheduler: Where to run it. (templated)
        cfg: Options of the scheduler, by name or as text: ``grace_s=5,log_dir=/logs``. (templated)
        session: Apps of one session are listed together; None for ``torchx``. (templated)
        lease_s: The app cancels itself after so many seconds in which no try followed it, so that a lost
            worker cannot leave it running for ever. The longest retry delay is added, or the retry would
            find it gone; what this is for is Airflow's time to notice (``task_instance_heartbeat_timeout``,
            300 s) and to find a slot. None for no lease. Only for schedulers with an option of that name.
        on_worker_shutdown: ``detach`` leaves the app running for the next try, as long as there is one;
            ``cancel`` stops it.

    Raises:
        InvalidAppError: The app is wrong; at DAG parse, as far as templates allow.
        InvalidRunConfigException: An option is wrong; likewise.
        UnknownSchedulerException: There is no such scheduler; likewise.

    Example:
        >>> from torchx_core import AppDef, Role
        >>> TorchXRunOperator(
        ...     task_id="hello",
        ...     app=AppDef("hello", roles=[Role("greeter", image="", entrypoint="echo", args=["{{ ds }}"])]),
        ... )
        <Task(TorchXRunOperator): hello>
    """

    template_fields: Collection[str] = ("app", "scheduler", "cfg", "session")
    template_fields_renderers: ClassVar[dict[str, str]] = {"app": "json", "cfg": "json"}
    ui_color = "#fbe5d6"

    def __init__(
        self,
        *,
        app: AppDef | Mapping[str, Any] | str | XComArg,
        scheduler: str = "local_cwd",
        cfg: Mapping[str, CfgVal] | str | None = None,
        session: str | None = None,
        lease_s: float | None = 600.0,
        on_worker_shutdown: OnWorkerShutdown = "detach",
        **kwargs: Any,  # noqa: ANN401  (BaseOperator's)
    ) -> None:
        super().__init__(**kwargs)
        self.app: AppDocument | XComArg = app if isinstance(app, XComArg) else to_document(app)
        self.scheduler = scheduler
        self.cfg = cfg
        self.session = session
        self.lease_s = lease_s
        self.on_worker_shutdown: OnWorkerShutdown = on_worker_shutdown
        self._given = app
        self._killed = False
        if on_worker_shutdown not in ("detach", "cancel"):
            raise InvalidInputError(
                f"on_worker_shutdown must be 'detach' or 'cancel': {on_worker_shutdown!r}"
            )
        if not isinstance(self.app, XComArg):
            check(self.app, app, scheduler, cfg)

    @override
    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render, then hide secrets before Airflow shows the rendered fields."""
        super().render_template_fields(context, jinja_env)
        self._rendered_app()

    @override
    def execute(self, context: Context) -> object:
        """Submit or find the app, follow it to its end, return its result."""
        this_try = _engine.this_try(context)
        log = AppLog(_engine.emit)
        departure = Departure(
            this_try,
            self.on_worker_shutdown,
            killed=lambda: self._killed,
            present_state=partial(_engine.present_state, context),
            supervisor_is_gone=_engine.supervisor_is_gone,
        )
        with get_runner(self.session) as runner:
            try:
                request = self._request(runner, context)
                memory = _memory(context, runner, request, this_try)
                hold = Hold(runner, memory, this_try, request, log, departure.look)
                status = self._run(hold, context)
            except (InvalidInputError, UnknownSchedulerException) as err:
                raise AirflowFailException(str(err)) from err
        departure.check()
        return _outcome(context, hold.handle, status, log)

    @override
    def on_kill(self) -> None:
        """Take note.

        Airflow calls this in a signal handler, on the thread that runs `execute`, and then lets that go on.
        Any call to Airflow from here could wait for ever for a lock that the interrupted code holds, so
        `execute` looks at the flag and acts.
        """
        self._killed = True

    def _run(self, hold: Hold, context: Context) -> AppStatus:
        """Attach and follow. Cancels for two causes only: whatever else ends the try leaves the app alone."""
        try:
            hold.attach()
            _engine.push_xcom(context, "handle", hold.handle)
            return hold.follow()
        except AirflowTaskTimeout:
            hold.cancel(
                f"cancelled because the Airflow task's execution_timeout of {self.execution_timeout} passed"
            )
            raise
        except KeyboardInterrupt:
            hold.cancel("cancelled because the Airflow task was interrupted")
            raise

    def _request(self, runner: Runner, context: Context) -> AppRequest:
        timeout = self.execution_timeout
        deadline = (
            _engine.started_at(context) + timeout.total_seconds() + DEADLINE_MARGIN_S if timeout else None
        )
        lease_s = None if self.lease_s is None else self.lease_s + _engine.longest_retry_delay_s(self)
        return AppRequest.make(
            runner, self._rendered_app(), self.scheduler, self.cfg, lease_s=lease_s, deadline=deadline
        )

    def _rendered_app(self) -> AppDef:
        try:
            app = make_app(to_document(self.app), self._given)
        except InvalidInputError as err:
            raise AirflowFailException(str(err)) from err  # retrying cannot help
        for role in app.roles:
            _engine.mask_secrets(role.env)
        return app


def _memory(context: Context, runner: Runner, request: AppRequest, this_try: TaskTry) -> Memory:
    store = _engine.task_state_store(context)
    if store is not None:
        return StoreMemory(store)
    return ProbingMemory(runner, request.scheduler, this_try, request.lease_s)


def _outcome(context: Context, handle: str, status: AppStatus, log: AppLog) -> object:
    _engine.push_xcom(context, "app", {"handle": handle, **status.to_json()})
    if status.state is AppState.SUCCEEDED:
        return status.result
    log.show_failure(status)
    raise AirflowException(f"{status.failure_summary()}\n  app: {handle}")
