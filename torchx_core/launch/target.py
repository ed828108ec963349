"""Where an app runs: scheduler, session and options, from whoever has a say in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchx_core.launch.cfg import Cfg, make_cfg
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import CfgVal, runopts

__all__ = ["DEFAULT_SCHEDULER", "Target"]

DEFAULT_SCHEDULER = "local_cwd"


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
