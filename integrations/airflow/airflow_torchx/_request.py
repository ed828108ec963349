"""What an operator is asked to run: checked when the DAG is parsed, completed when the task runs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

from airflow_torchx._cfg import Cfg, make_cfg
from airflow_torchx._target import Target
from torchx_core.errors import InvalidAppError, InvalidInputError, SchedulerError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppHandle, CfgVal, Role, snapshot_app, validate_app

__all__ = [
    "AppDocument",
    "AppRequest",
    "check_app",
    "check_target",
    "has_template",
    "make_app",
    "to_document",
]

ComponentArgs: TypeAlias = Mapping[str, Any] | Sequence[str] | None
"""Argument -> value, or the words of a command line."""

AppDocument: TypeAlias = dict[str, Any] | str
"""An app as plain values; as YAML text where that cannot be read before its templates are rendered."""

_TEMPLATE_MARKS = ("{{", "{%", "{#")


def to_document(app: object) -> AppDocument:
    """Return the app as what Airflow can render, show and serialize: plain values.

    Args:
        app: An ``AppDef`` of ours or of TorchX, a map of its fields, or YAML text.

    Raises:
        InvalidAppError: It is none of these.
    """
    if isinstance(app, Mapping):
        return dict(app)
    if not isinstance(app, str):
        return snapshot_app(app).to_dict()
    import yaml

    try:
        loaded: object = yaml.safe_load(app)
    except yaml.YAMLError:
        loaded = None  # an unquoted {{ template }} is no YAML: read it once it is rendered
    return loaded if isinstance(loaded, dict) else app


def make_app(document: AppDocument, given: object) -> AppDef:
    """Build the app from its rendered document.

    Args:
        document: What `to_document` returned, rendered.
        given: The app it was made from. Roles of the user's own classes are made of those classes again,
            because their ``pre_proc`` is code, which a document cannot hold.

    Raises:
        InvalidAppError: It is no app.
    """
    app = AppDef.from_yaml(document) if isinstance(document, str) else AppDef.from_dict(document)
    originals = getattr(given, "roles", [])
    app.roles = [_in_class_of(originals[i], r) if originals else r for i, r in enumerate(app.roles)]
    validate_app(app)
    return app


def _in_class_of(original: object, role: Role) -> Role:
    if type(original) is Role or not isinstance(original, Role):
        return role
    own = copy.deepcopy(original)
    for field in fields(Role):
        setattr(own, field.name, getattr(role, field.name))
    return own


def check_target(scheduler: str, cfg: Cfg, workspace: str | None = None) -> None:
    """Find at DAG parse what can be found before templates are rendered.

    Raises:
        UnknownSchedulerException: There is no such scheduler.
        InvalidRunConfigException: The options do not fit the scheduler.
        InvalidInputError: The scheduler cannot build a workspace.
    """
    if has_template(scheduler):
        return
    with get_runner() as runner:
        try:
            backend = runner.scheduler(scheduler)
        except SchedulerError:
            return  # known, but its client is not installed here; it may be on the worker
        options = backend.run_opts()
        if workspace and not backend.capabilities.workspaces:
            raise InvalidInputError(f"{scheduler} cannot build a workspace: {workspace!r}; leave it out")
    if not has_template(cfg):
        options.resolve(make_cfg(cfg, options))


def check_app(document: AppDocument, given: object) -> None:
    """Do the same for the app.

    Raises:
        InvalidAppError: The app is wrong.
    """
    if isinstance(document, str) and has_template(document):
        return
    try:
        make_app(document, given)
    except InvalidAppError as err:
        # A message shows the wrong value. Where that is a template, the rendered value may be right.
        if not (has_template(document) and has_template(err.problem)):
            raise


def check_component(name: str, args: ComponentArgs) -> None:
    """Do the same for a component: find it, and try arguments in which there is no template.

    Raises:
        ComponentNotFoundException: There is none of that name.
        ComponentValidationException: It cannot be used as it is written.
        ComponentArgumentError: The arguments do not fit it.
        InvalidAppError: It makes a wrong app.
    """
    from torchx_core.components import find_component  # imported here: a DAG with apps need not pay for it

    if has_template(name):
        return
    if has_template(args):
        find_component(name)
    else:
        make_component(name, args)


def make_component(name: str, args: ComponentArgs) -> AppDef:
    """Build the component's app; raises as `check_component` does."""
    from torchx_core.components import find_component

    app = find_component(name).build(args or ())
    validate_app(app)
    return app


def has_template(value: object) -> bool:
    """Return whether a text somewhere in the value is a template, or something in it is no plain value."""
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATE_MARKS)
    if isinstance(value, Mapping):
        return any(has_template(item) for item in value.values())
    if isinstance(value, Sequence):
        return any(has_template(item) for item in value)
    return not (value is None or isinstance(value, int | float))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRequest:
    """A rendered request."""

    app: AppDef
    scheduler: str
    cfg: Mapping[str, CfgVal]
    workspace: str | None = None

    @staticmethod
    def make(
        runner: Runner,
        app: AppDef,
        target: Target,
        *,
        workspace: str | None = None,
        lease_s: float | None,
        deadline: float | None,
    ) -> AppRequest:
        """Complete and check the request.

        Args:
            runner: Knows the scheduler's options.
            app: What to run.
            target: Where; its options win over lease and deadline.
            workspace: Local files for the first role.
            lease_s: Lease, where the scheduler has leases.
            deadline: When the app must end, in seconds since the epoch, where the scheduler sees to that.

        Raises:
            UnknownSchedulerException: There is no such scheduler.
            InvalidRunConfigException: The options do not fit it.
        """
        options = runner.scheduler_run_opts(target.scheduler)
        values = target.cfg(options)
        for name, value in (("lease_s", lease_s), ("deadline", deadline)):
            if value is not None and options.get(name) is not None:
                values.setdefault(name, value)
        cfg = options.resolve(values)
        return AppRequest(app=app, scheduler=target.scheduler, cfg=cfg, workspace=workspace)

    @property
    def lease_s(self) -> float | None:
        """After how many unwatched seconds the app cancels itself."""
        return cast("float | None", self.cfg.get("lease_s"))

    def submit(self, runner: Runner, app_id: str) -> AppHandle:
        """Submit under that id; see `Runner.run`."""
        return runner.run(self.app, self.scheduler, self.cfg, self.workspace, app_id=app_id)
