"""The Slurm scheduler for hosts outside the cluster: what it is asked, an agent on a login node answers."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from torchx_core.schedulers.options.slurm import slurm_run_opts
from torchx_core.schedulers.remote.scheduler import RemoteScheduler
from torchx_core.schedulers.responses import Capabilities, Finding, Verdict
from torchx_core.schedulers.slurm.remote.requests import render_there
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, runopts

__all__ = ["RemoteSlurmScheduler"]


class RemoteSlurmScheduler(RemoteScheduler[SlurmRequest]):
    """Promises what `SlurmScheduler` promises; a dry run connects to nothing."""

    capabilities: ClassVar[Capabilities] = SlurmScheduler.capabilities

    def run_opts(self) -> runopts:
        """Return the options."""
        return slurm_run_opts()

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[SlurmRequest]:
        request = render_there(app, cfg, app_id=app_id, session=self.session_name, state_dir=self._state_dir)
        return AppDryRunInfo(request, str)

    def _submit(self, request: SlurmRequest) -> str:
        return str(self._call("schedule", request=request))

    def diagnose(self) -> builtins.list[Finding]:
        """Look at the way to the login node, then at the cluster from there."""
        return [self._minded(finding) for finding in super().diagnose()]

    def _minded(self, finding: Finding) -> Finding:
        """Return the finding: whoever names a login node minds when there is no Slurm."""
        if finding.verdict is not Verdict.ABSENT:
            return finding
        advice = f"`ssh {self._host.name} sbatch --version` must work"
        return replace(finding, verdict=Verdict.PROBLEM, advice=advice)
