"""Where an app runs: scheduler, session and options, from whoever has a say in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from torchx_core.errors import InvalidInputError, SchedulerError
from torchx_core.schedulers.options import built_in_run_opts
from torchx_core.schedulers.unsupported import UNSUPPORTED
from torchx_core.specs import CfgVal, runopts

if TYPE_CHECKING:
    from torchx_core.runner import Runner

__all__ = [
    "DEFAULT_SCHEDULER",
    "Cfg",
    "Target",
    "check_target",
    "make_cfg",
    "runs_on_this_host",
    "target_options",
]

DEFAULT_SCHEDULER = "local_cwd"
Cfg: TypeAlias = Mapping[str, CfgVal] | str | None
"""Options of a scheduler: by name, or as text (``log_dir=/logs,grace_s=5``)."""


def runs_on_this_host(scheduler: str) -> bool:
    """Return whether the scheduler's apps are processes of the host, or the container, that submits them.

    Example:
        >>> runs_on_this_host("local_cwd"), runs_on_this_host("local_cwd@gpu-box"), runs_on_this_host("slurm")
        (True, False, False)
    """
    return scheduler in {"local_cwd", "local_dir"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an app runs."""

    scheduler: str = DEFAULT_SCHEDULER
    session: str | None = None
    cfgs: tuple[Cfg, ...] = ()
    """Options, each set overriding those before it."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What schedulers are made with."""

    def overridden(self, scheduler: str | None, session: str | None, cfg: Cfg) -> Target:
        """Return this target with what is given here instead; options are merged one by one."""
        return Target(
            scheduler=scheduler or self.scheduler,
            session=session or self.session,
            cfgs=(*self.cfgs, cfg),
            params=self.params,
        )

    def runner(self) -> Runner:
        """Return a runner that reaches the target."""
        from torchx_core.runner import get_runner  # here: a DAG file asks no scheduler

        return get_runner(self.session, **self.params)

    def cfg(self, options: runopts) -> dict[str, CfgVal]:
        """Return the options, read as the scheduler wants them.

        Raises:
            InvalidRunConfigException: An option is unknown, or no value of its type.
        """
        merged: dict[str, CfgVal] = {}
        for cfg in self.cfgs:
            for name, value in make_cfg(cfg, options).items():
                merged[options.canonical_key(name) or name] = value
        return merged


def make_cfg(cfg: Cfg, options: runopts) -> dict[str, CfgVal]:
    """Return the options given, with texts read as the types that the scheduler wants.

    A rendered template or a form's field is always a text: ``{"grace_s": "5"}`` becomes a number here.

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


def check_target(target: Target, workspace: str | None = None) -> None:
    """Find out whether the target's scheduler takes its options, and the workspace.

    Raises:
        UnknownSchedulerException: There is no such scheduler.
        InvalidRunConfigException: It does not take the options.
        InvalidInputError: It cannot build a workspace, and refuses them as its option ``unsupported`` says.
    """
    found = _look_at(target.scheduler, workspace)
    if found is not None:
        options, builds = found
        cfg = options.resolve(target.cfg(options))
        if workspace and not builds and cfg.get(UNSUPPORTED, "refuse") == "refuse":
            raise _no_workspace(target.scheduler, workspace)


def target_options(scheduler: str, workspace: str | None = None) -> runopts | None:
    """Return the scheduler's options; None where its client is not installed, as it may be where it runs.

    Raises:
        UnknownSchedulerException: There is no such scheduler.
        InvalidInputError: It cannot build a workspace, and refuses them whatever its options are.
    """
    found = _look_at(scheduler, workspace)
    if found is None:
        return None
    options, builds = found
    if workspace and not builds and options.get(UNSUPPORTED) is None:
        raise _no_workspace(scheduler, workspace)
    return options


def _look_at(scheduler: str, workspace: str | None) -> tuple[runopts, bool] | None:
    """Return the scheduler's options, and whether it builds workspaces; None where it cannot be loaded.

    A built-in scheduler is not loaded if there is no workspace to ask it about: that costs more than all else
    that is checked in a DAG file.
    """
    options = None if workspace else built_in_run_opts(scheduler)
    if options is not None:
        return options, False
    from torchx_core.runner import get_runner  # here: as above

    with get_runner() as runner:
        try:
            backend = runner.scheduler(scheduler)
        except SchedulerError:
            return None
        return backend.run_opts(), backend.capabilities.workspaces


def _no_workspace(scheduler: str, workspace: str) -> InvalidInputError:
    return InvalidInputError(f"{scheduler} cannot build a workspace: {workspace!r}; leave it out")
