"""What is to be submitted, complete and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torchx_core.launch.target import Target
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppHandle, CfgVal

__all__ = ["AppRequest"]


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
