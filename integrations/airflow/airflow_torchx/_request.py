"""What an operator is asked to run: checked when the DAG is parsed, completed when the task runs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

from torchx_core.errors import InvalidAppError, SchedulerError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppHandle, CfgVal, Role, runopts, snapshot_app, validate_app

__all__ = ["AppDocument", "AppRequest", "Cfg", "check", "make_app", "make_cfg", "to_document"]

AppDocument: TypeAlias = dict[str, Any] | str
"""An app as plain values; as YAML text where that cannot be read before its templates are rendered."""

Cfg: TypeAlias = Mapping[str, CfgVal] | str | None
"""Options of a scheduler: by name, or as text (``log_dir=/logs,grace_s=5``)."""

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


def make_cfg(cfg: Cfg, options: runopts) -> dict[str, CfgVal]:
    """Return the options given, with texts read as the types that the scheduler wants.

    A rendered template is always a text: ``{"grace_s": "{{ params.grace }}"}`` becomes a number here.

    Raises:
        InvalidRunConfigException: An option is unknown, or no value of its type.
    """
    if isinstance(cfg, str):
        return options.cfg_from_str(cfg)
    return {name: _typed(name, value, options) for name, value in (cfg or {}).items()}


def _typed(name: str, value: CfgVal, options: runopts) -> CfgVal:
    option = options.get(name)
    if option is None or not isinstance(value, str) or option.kind == "str":
        return value
    return next(iter(options.cfg_from_str(f"{name}={value}").values()))


def check(document: AppDocument, given: object, scheduler: str, cfg: Cfg) -> None:
    """Find at DAG parse what can be found before templates are rendered.

    Raises:
        InvalidAppError: The app is wrong.
        UnknownSchedulerException: There is no such scheduler.
        InvalidRunConfigException: The options do not fit the scheduler.
    """
    _check_app(document, given)
    if has_template(scheduler):
        return
    with get_runner() as runner:
        try:
            options = runner.scheduler_run_opts(scheduler)
        except SchedulerError:
            return  # known, but its client is not installed here; it may be on the worker
    if not has_template(cfg):
        options.resolve(make_cfg(cfg, options))


def _check_app(document: AppDocument, given: object) -> None:
    if isinstance(document, str) and has_template(document):
        return
    try:
        make_app(document, given)
    except InvalidAppError as err:
        # A message shows the wrong value. Where that is a template, the rendered value may be right.
        if not (has_template(document) and has_template(err.problem)):
            raise


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

    @staticmethod
    def make(
        runner: Runner,
        app: AppDef,
        scheduler: str,
        cfg: Cfg,
        *,
        lease_s: float | None,
        deadline: float | None,
    ) -> AppRequest:
        """Complete and check the request.

        Args:
            runner: Knows the scheduler's options.
            app: What to run.
            scheduler: Where.
            cfg: The user's options; they win over the two below.
            lease_s: Lease, where the scheduler has leases.
            deadline: When the app must end, in seconds since the epoch, where the scheduler sees to that.

        Raises:
            UnknownSchedulerException: There is no such scheduler.
            InvalidRunConfigException: The options do not fit it.
        """
        options = runner.scheduler_run_opts(scheduler)
        values = make_cfg(cfg, options)
        given = {options.canonical_key(name) for name in values}
        for name, value in (("lease_s", lease_s), ("deadline", deadline)):
            if value is not None and options.get(name) is not None and name not in given:
                values[name] = value
        return AppRequest(app=app, scheduler=scheduler, cfg=options.resolve(values))

    @property
    def lease_s(self) -> float | None:
        """After how many unwatched seconds the app cancels itself."""
        return cast("float | None", self.cfg.get("lease_s"))

    def submit(self, runner: Runner, app_id: str) -> AppHandle:
        """Submit under that id; see `Runner.run`."""
        return runner.run(self.app, self.scheduler, self.cfg, app_id=app_id)
