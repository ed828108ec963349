"""The operator that runs a TorchX-style app."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._deferral import NOTHING_FIRED, Deferral, Fired
from airflow_torchx._departure import Departure
from airflow_torchx._engine import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    BaseOperator,
    Context,
    TaskDeferralTimeout,
    XComArg,
)
from airflow_torchx._hold import Hold
from airflow_torchx._log import AppLog
from airflow_torchx._memory import ProbingMemory, StoreMemory
from airflow_torchx._outcome import deliver
from airflow_torchx._parse_checks import check_app, check_component, check_target
from airflow_torchx.hooks import TorchXHook
from airflow_torchx.links import TorchXRunLink, TorchXServiceLink
from airflow_torchx.links.torchx import push_links
from airflow_torchx.triggers import TorchXTrigger
from airflow_torchx.triggers.torchx import CURSOR_KEY
from torchx_core.errors import ComponentNotFoundException, InvalidInputError, UnknownSchedulerException
from torchx_core.launch import (
    DEFAULT_SCHEDULER,
    AppDocument,
    AppRequest,
    Cfg,
    ComponentArgs,
    Target,
    make_app,
    make_component,
    to_document,
)
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, AppStatus

if TYPE_CHECKING:
    import jinja2

    from airflow_torchx._plan import OnWorkerShutdown
    from airflow_torchx._record import Memory
    from airflow_torchx._tries import TaskTry

__all__ = ["TorchXRunOperator"]

DEFER_AFTER_S = 10.0
"""What ends sooner never pays for a deferral, which takes a few seconds."""
DEFER_MARGIN_S = 60.0
"""The trigger keeps ``execution_timeout`` and then shows the last lines; Airflow's own limit is behind it."""
DEADLINE_MARGIN_S = 5.0
"""The app's own deadline stands back behind Airflow's timeout, which gives the clearer message."""


class TorchXRunOperator(BaseOperator):
    """Runs an app on a scheduler, shows its output in the task's log and returns its result.

    The app is submitted once, however often the task's process dies: a retry follows the running app and goes
    on with the log where the last try stopped. A retry after the app has failed starts a new one, and so does
    a clear, which cancels the old app first. Marking the task, clearing it, failing its run and
    ``execution_timeout`` cancel the app; a worker that shuts down or dies does not.

    XComs: ``return_value`` is the value that the app reported with `torchx_core.runtime.report_result` (none
    when it reported nothing; with ``multiple_outputs`` each of its keys is one as well); ``handle`` is the
    app's handle, there as soon as it runs; ``app`` is its final status, ``exit_codes`` its replicas' exit
    codes. Events of outlet assets carry handle and result.

    Args:
        app: What to run: an ``AppDef`` (of this project or of TorchX), a map of its fields, or YAML text.
            (templated, every text in it)
        component: In its place, the name of a component that makes the app, such as ``dist.torchrun``;
            see `torchx_core.components.find_component` for what code that runs. (templated)
        component_args: The component's arguments: argument -> value, or the words of a command line.
            (templated)
        workspace: Local files to lay over the image of the first role, where the scheduler can build that.
            (templated)
        scheduler: Where to run it; None for the connection's, or ``local_cwd``. (templated)
        cfg: Options of the scheduler, by name or as text: ``grace_s=5,log_dir=/logs``; they win over the
            connection's, one by one. (templated)
        session: Apps of one session are listed together; None for the connection's, or ``torchx``.
            (templated)
        torchx_conn_id: A connection of type ``torchx``; None for none. (templated)
        lease_s: The app cancels itself after so many seconds in which no try followed it, so that a lost
            worker cannot leave it running for ever. The longest retry delay is added, or the retry would
            find it gone; what this is for is Airflow's time to notice (``task_instance_heartbeat_timeout``,
            300 s) and to find a slot. None for no lease. Only for schedulers with an option of that name.
        on_worker_shutdown: ``detach`` leaves the app running for the next try, as long as there is one;
            ``cancel`` stops it.
        deferrable: Leave the worker once the app has run for 10 s, and let the triggerer follow it; None for
            what ``[operators] default_deferrable`` says.
        log_limit_mb: How much of the app's output the task's log shows at most, in millions of characters;
            None for all. Beyond it the log says where the rest is.
        fail_on_exit_codes: Fail without a retry when the first replica that failed exited with one of these;
            by default with what stands for wrong usage (2) and a program that cannot be run (126, 127).

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

    template_fields: Collection[str] = (
        "app",
        "component",
        "component_args",
        "workspace",
        "scheduler",
        "cfg",
        "session",
        "torchx_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "app": "json",
        "component_args": "json",
        "cfg": "json",
    }
    operator_extra_links = (TorchXRunLink(), TorchXServiceLink())
    ui_color = "#fbe5d6"

    def __init__(  # noqa: PLR0913  (an operator's arguments are its interface; all are keywords)
        self,
        *,
        app: AppDef | Mapping[str, Any] | str | XComArg | None = None,
        component: str | None = None,
        component_args: ComponentArgs = None,
        workspace: str | None = None,
        scheduler: str | None = None,
        cfg: Cfg = None,
        session: str | None = None,
        torchx_conn_id: str | None = None,
        lease_s: float | None = 600.0,
        on_worker_shutdown: OnWorkerShutdown = "detach",
        deferrable: bool | None = None,
        log_limit_mb: float | None = 100.0,
        fail_on_exit_codes: Collection[int] = (2, 126, 127),
        **kwargs: Any,  # noqa: ANN401  (BaseOperator's)
    ) -> None:
        super().__init__(**kwargs)
        self.app: AppDocument | XComArg | None = (
            app if app is None or isinstance(app, XComArg) else to_document(app)
        )
        self.component = component
        self.component_args = component_args
        self.workspace = workspace
        self.scheduler = scheduler
        self.cfg = cfg
        self.session = session
        self.torchx_conn_id = torchx_conn_id
        self.lease_s = lease_s
        self.on_worker_shutdown: OnWorkerShutdown = on_worker_shutdown
        self.deferrable = _engine.deferrable_by_default() if deferrable is None else deferrable
        self.log_limit_mb = log_limit_mb
        self.fail_on_exit_codes = frozenset(fail_on_exit_codes)
        self.links: dict[str, str] = {}
        self._given = app
        self._killed = False
        if on_worker_shutdown not in ("detach", "cancel"):
            raise InvalidInputError(
                f"on_worker_shutdown must be 'detach' or 'cancel': {on_worker_shutdown!r}"
            )
        self._check_source()
        if scheduler is not None or torchx_conn_id is None:
            check_target(scheduler or DEFAULT_SCHEDULER, cfg, workspace)

    @override
    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render, then hide secrets before Airflow shows the rendered fields."""
        super().render_template_fields(context, jinja_env)
        self._rendered_app()

    @override
    def execute(self, context: Context) -> object:
        """Submit or find the app, follow it to its end, return its result; or defer."""

        def begin(hold: Hold) -> AppStatus | None:
            hold.attach()
            _engine.push_xcom(context, "handle", hold.handle)
            push_links(self, context, hold.app(), hold.status())
            return hold.follow_for(DEFER_AFTER_S) if self.deferrable else hold.follow()

        return self._run(context, begin)

    def resume(self, context: Context, event: object = None) -> object:
        """Go on where the trigger left off: show the rest of the log, return the result.

        Args:
            context: The task's.
            event: What the trigger fired.
        """
        fired = Fired.from_json(event)
        if fired.error is not None:
            raise AirflowException(f"{fired.error}; the app was left alone, and a retry would find it")

        def go_on(hold: Hold) -> AppStatus:
            hold.resume(fired.cursor)
            push_links(self, context, hold.app(), hold.status())
            return hold.follow()

        return self._run(context, go_on, fired)

    @override
    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> object:
        """Cancel the app when nobody fired in time; leave it alone when its trigger failed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:

            def end(hold: Hold) -> AppStatus:
                hold.resume(_engine.note_left(context, CURSOR_KEY))
                hold.cancel(self._timeout_reason)
                return hold.follow()

            return self._run(context, end, Fired(timed_out=True))

    @override
    def on_kill(self) -> None:
        """Take note.

        Airflow calls this in a signal handler, on the thread that runs `execute`, and then lets that go on.
        Any call to Airflow from here could wait for ever for a lock that the interrupted code holds, so
        `execute` looks at the flag and acts.
        """
        self._killed = True

    def _run(
        self, context: Context, work: Callable[[Hold], AppStatus | None], fired: Fired = NOTHING_FIRED
    ) -> object:
        """Hold the app and do the work with it; return the app's result, or defer when it has not ended."""
        this_try = _engine.this_try(context)
        log = AppLog(_engine.emit, limit_bytes=self._log_limit_bytes, shown_bytes=fired.shown_bytes)
        departure = Departure(
            this_try,
            self.on_worker_shutdown,
            killed=lambda: self._killed,
            present_state=partial(_engine.present_state, context),
            supervisor_is_gone=_engine.supervisor_is_gone,
        )
        try:
            target = self._target()
        except InvalidInputError as err:
            raise AirflowFailException(str(err)) from err
        with target.runner() as runner:
            try:
                request = self._request(runner, target, context)
                memory = _memory(context, runner, request, this_try)
                hold = Hold(runner, memory, this_try, request, log, departure.look)
                status = self._guarded(hold, work)
            except (InvalidInputError, UnknownSchedulerException) as err:
                raise AirflowFailException(str(err)) from err
        departure.check()
        if status is None:
            self._defer(replace(hold.deferral, shown_bytes=log.shown_bytes), context)
        if fired.timed_out and status.state is not AppState.SUCCEEDED:
            raise AirflowTaskTimeout(self._timeout_reason)
        log.show_end(status)
        return deliver(context, self.outlets, hold.handle, status, self.fail_on_exit_codes)

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

    def _defer(self, deferral: Deferral, context: Context) -> NoReturn:
        deadline = self._deadline(context)
        deferral = replace(
            deferral,
            deadline=deadline,
            timeout_reason=self._timeout_reason,
            conn_id=self.torchx_conn_id,
            end_task=_engine.ends_without_worker(self),
            limit_bytes=self._log_limit_bytes,
        )
        timeout = None if deadline is None else timedelta(seconds=deadline - time.time() + DEFER_MARGIN_S)
        self.defer(trigger=TorchXTrigger(**deferral.to_json()), method_name="resume", timeout=timeout)

    @property
    def _log_limit_bytes(self) -> int | None:
        return None if self.log_limit_mb is None else int(self.log_limit_mb * 1e6)

    @property
    def _timeout_reason(self) -> str:
        return f"cancelled because the Airflow task's execution_timeout of {self.execution_timeout} passed"

    def _deadline(self, context: Context) -> float | None:
        timeout = self.execution_timeout
        return _engine.started_at(context) + timeout.total_seconds() if timeout else None

    def _target(self) -> Target:
        target = TorchXHook(self.torchx_conn_id).target if self.torchx_conn_id else Target()
        return target.overridden(self.scheduler, self.session, self.cfg)

    def _request(self, runner: Runner, target: Target, context: Context) -> AppRequest:
        deadline = self._deadline(context)
        lease_s = None if self.lease_s is None else self.lease_s + _engine.longest_retry_delay_s(self)
        return AppRequest.make(
            runner,
            self._rendered_app(),
            target,
            workspace=self.workspace,
            lease_s=lease_s,
            deadline=None if deadline is None else deadline + DEADLINE_MARGIN_S,
        )

    def _rendered_app(self) -> AppDef:
        try:
            app = self._make_app()
        except (InvalidInputError, ComponentNotFoundException) as err:
            raise AirflowFailException(str(err)) from err  # retrying cannot help
        for role in app.roles:
            _engine.mask_secrets(role.env)
        return app

    def _check_source(self) -> None:
        """Find at DAG parse what is wrong with what is to run.

        A subclass that makes its app of something else overrides this and `_make_app`.
        """
        if (self._given is None) == (self.component is None):
            raise InvalidInputError("give either app or component, and not both")
        if self.component is not None:
            check_component(self.component, self.component_args)
        elif not isinstance(self._given, XComArg):
            check_app(to_document(self._given), self._given)

    def _make_app(self) -> AppDef:
        if self.component is not None:
            return make_component(self.component, self.component_args)
        return make_app(to_document(self.app), self._given)


def _memory(context: Context, runner: Runner, request: AppRequest, this_try: TaskTry) -> Memory:
    store = _engine.task_state_store(context)
    if store is not None:
        return StoreMemory(store)
    return ProbingMemory(runner, request.scheduler, this_try, request.lease_s)
