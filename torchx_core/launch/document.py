"""An app as plain values, which workflow engines can render, show and store, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from torchx_core.launch.target import Target
from torchx_core.specs import AppDef, AppHandle, CfgVal, Role, snapshot_app, validate_app

if TYPE_CHECKING:
    from torchx_core.runner import Runner

__all__ = ["AppDocument", "AppRequest", "ComponentArgs", "make_app", "make_component", "to_document"]

ComponentArgs: TypeAlias = Mapping[str, object] | Sequence[str] | None
"""Argument -> value, or the words of a command line."""

AppDocument: TypeAlias = dict[str, Any] | str
"""An app as plain values; as YAML text where that cannot be read before its templates are rendered."""


def to_document(app: object) -> AppDocument:
    """Return the app as plain values.

    Args:
        app: An ``AppDef`` of ours or of TorchX, a map of its fields, or YAML text.

    Raises:
        InvalidAppError: It is none of these.
    """
    if isinstance(app, Mapping):
        return dict(cast("Mapping[str, object]", app))
    if not isinstance(app, str):
        return snapshot_app(app).to_dict()
    import yaml

    try:
        loaded: object = yaml.safe_load(app)
    except yaml.YAMLError:
        loaded = None  # an unquoted {{ template }} is no YAML: read it once it is rendered
    return cast("dict[str, object]", loaded) if isinstance(loaded, dict) else app


def make_app(document: AppDocument, given: object = None) -> AppDef:
    """Build the app from its document, once templates in it are rendered.

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


def make_component(name: str, args: ComponentArgs) -> AppDef:
    """Build the component's app.

    Args:
        name: As `torchx_core.components.find_component` takes it; a file's component runs that file's code.
        args: Its arguments.

    Raises:
        ComponentNotFoundException: There is none of that name.
        ComponentValidationException: It cannot be used as it is written.
        ComponentArgumentError: The arguments do not fit it.
        InvalidAppError: It makes a wrong app.
    """
    from torchx_core.components import find_component  # imported here: who has an app need not pay for it

    app = find_component(name).build(args or ())
    validate_app(app)
    return app


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
