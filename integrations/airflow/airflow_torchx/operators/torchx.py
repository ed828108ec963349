"""The operator that runs a TorchX-style app."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._arguments import (
    OnWorkerShutdown,
    check_cfg,
    check_component_args,
    check_exit_codes,
    check_flag,
    check_limit,
    check_on_worker_shutdown,
    check_texts,
)
from airflow_torchx._engine import (
    AirflowFailException,
    BaseOperator,
    BaseOperatorLink,
    Context,
    TaskDeferralTimeout,
    XComArg,
)
from airflow_torchx._mapping import checked
from airflow_torchx._parse_checks import check_app, check_component, check_target
from airflow_torchx.links import TorchXPageLink, TorchXRunLink, TorchXServiceLink
from torchx_core.errors import ComponentNotFoundException, InvalidInputError
from torchx_core.launch import (
    DEFAULT_SCHEDULER,
    AppDocument,
    Cfg,
    ComponentArgs,
    Target,
    make_app,
    make_component,
    to_document,
)
from torchx_core.specs import AppDef, AppHandle, AppStatus

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_torchx._execution import Execution

__all__ = ["TorchXRunOperator"]

DEFER_AFTER_S = 10.0
"""What ends sooner never pays for a deferral, which takes a few seconds."""
DEFER_MARGIN_S = 60.0
"""The trigger keeps ``execution_timeout`` and then shows the last lines; Airflow's own limit is behind it."""
DEADLINE_MARGIN_S = 60.0
"""The app's own deadline stands back behind Airflow's timeout, which gives the clearer message.

Airflow counts from when `execute` begins; the deadline counts from when the try does, which is earlier.
"""


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
            ``cancel`` stops it. An app of this host is stopped in any case where the executor gives each try
            a container, as KubernetesExecutor does: it would end with it. Nor is it deferred there.
        deferrable: Leave the worker once the app has run for 10 s, and let the triggerer follow it; None for
            what ``[operators] default_deferrable`` says.
        log_limit_mb: How much of the app's output the task's log shows at most, in millions of characters;
            None for all. Beyond it the log says where the rest is.
        fail_on_exit_codes: Fail without a retry when the first replica that failed, or the rank in it, exited
            with one of these; by default with what stands for wrong usage (2), and for a program that cannot
            be run (126, 127).

    Raises:
        InvalidAppError: The app is wrong; at DAG parse, as far as templates allow.
        InvalidRunConfigException: An option is wrong; likewise.
        UnknownSchedulerException: There is no such scheduler; likewise.

    Example:
        >>> from torchx_core import AppDef, Role
        >>> TorchXRunOperator(
        ...     task_id="hello",
        ...     app=AppDef("hello", roles=[Role("greeter", image="", entrypoint="echo", args=["hello"])]),
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
    operator_extra_links: Collection[BaseOperatorLink] = (
        TorchXPageLink(),
        TorchXRunLink(),
        TorchXServiceLink(),
    )
    ui_color = "#fbe5d6"

    def __init__(  # noqa: PLR0913  (an operator's arguments are its interface; all are keywords)
        self,
        *,
        app: AppDef | Mapping[str, object] | str | XComArg | None = None,
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
        # A dict as it is, or Airflow would not know it for the result of another task, which is no template.
        self.app: AppDocument | XComArg | None = (
            app if app is None or isinstance(app, XComArg | dict) else to_document(app)
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
        self.fail_on_exit_codes = fail_on_exit_codes
        self.links: dict[str, str] = {}
        self._given = app
        self.has_option_secrets = False  # until the templates are rendered
        self._killed = False
        self.ended: tuple[AppHandle, AppStatus] | None = None  # for what asks when the task has run
        self._check_arguments()
        self._check_source()
        if scheduler is not None or torchx_conn_id is None:
            check_target(scheduler or DEFAULT_SCHEDULER, cfg, workspace)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:  # noqa: ANN401  (BaseOperator's)
        """Begin a mapped task; what is wrong with it is said when it is expanded."""
        return checked(super().partial(**kwargs))

    @override
    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render, then hide secrets before Airflow shows the rendered fields."""
        super().render_template_fields(context, jinja_env)
        with suppress(AirflowFailException):  # `execute` says so, unless an earlier try's app still runs
            self._rendered_app()
        self._hide_option_secrets()

    @override
    def execute(self, context: Context) -> object:
        """Submit or find the app, follow it to its end, return its result; or defer."""
        return self._execution(context).begin(follow_s=DEFER_AFTER_S if self.deferrable else None)

    def resume(self, context: Context, event: object = None) -> object:
        """Go on where the trigger left off: show the rest of the log, return the result.

        Args:
            context: The task's.
            event: What the trigger fired.
        """
        return self._execution(context).go_on(event)

    @override
    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> object:
        """Cancel the app when nobody fired in time; follow it from here when its trigger failed."""
        if error := _engine.trigger_failure(next_method, next_kwargs):
            next_method, next_kwargs = "resume", {"event": {"error": error, "unseen": True}}
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            return self._execution(context).give_up()

    @override
    def on_kill(self) -> None:
        """Take note.

        Airflow calls this in a signal handler, on the thread that runs `execute`, and then lets that go on.
        Any call to Airflow from here could wait for ever for a lock that the interrupted code holds, so
        `execute` looks at the flag and acts.
        """
        self._killed = True

    def get_openlineage_facets_on_complete(self, task_instance: object) -> object:  # noqa: ARG002
        """Return what the app has read and written; the OpenLineage provider calls it, after a failure too.

        Args:
            task_instance: The task's.
        """
        if self.ended is None:
            return None
        from airflow_torchx._lineage import describe_lineage  # imported here: it needs that provider

        handle, status = self.ended
        return describe_lineage(self._rendered_app(), handle, status.result)

    def _execution(self, context: Context) -> Execution:
        from airflow_torchx._execution import Execution, Limits  # imported here: parsing a DAG need not pay

        return Execution(
            self,
            context,
            app=self._rendered_app,
            killed=lambda: self._killed,
            limits=Limits(defer_margin_s=DEFER_MARGIN_S, deadline_margin_s=DEADLINE_MARGIN_S),
        )

    def _rendered_app(self) -> AppDef:
        try:
            app = self._make_app()
        except (InvalidInputError, ComponentNotFoundException) as err:
            raise AirflowFailException(str(err)) from err  # retrying cannot help
        for role in app.roles:
            _engine.mask_secrets(role.env)
        return app

    def _hide_option_secrets(self) -> None:
        from airflow_torchx._options import hide_option_secrets
        from airflow_torchx.hooks import TorchXHook

        with suppress(InvalidInputError):  # likewise
            target = TorchXHook(self.torchx_conn_id).target if self.torchx_conn_id else Target()
            target = target.overridden(self.scheduler, self.session, self.cfg)
            self.has_option_secrets = hide_option_secrets(target)

    def _check_arguments(self) -> None:
        check_texts(
            component=self.component,
            workspace=self.workspace,
            scheduler=self.scheduler,
            session=self.session,
            torchx_conn_id=self.torchx_conn_id,
        )
        check_component_args(self.component_args)
        check_cfg(self.cfg)
        check_limit("lease_s", self.lease_s)
        check_on_worker_shutdown(self.on_worker_shutdown)
        check_flag("deferrable", self.deferrable)
        check_limit("log_limit_mb", self.log_limit_mb)
        check_exit_codes("fail_on_exit_codes", self.fail_on_exit_codes)

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
