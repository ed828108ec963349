"""The local schedulers of another host, reached over ssh: ``local_cwd@PLACE`` and ``local_dir@PLACE``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from torchx_core.schedulers.local.scheduler import LocalScheduler
from torchx_core.schedulers.options.local import local_run_opts
from torchx_core.schedulers.remote.scheduler import RemoteRequest, RemoteScheduler
from torchx_core.schedulers.responses import Capabilities
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, runopts

__all__ = ["RemoteLocalScheduler"]


class RemoteLocalScheduler(RemoteScheduler[RemoteRequest]):
    """Runs replicas as processes of the user on the other host.

    It promises what `LocalScheduler` promises there. A dry run asks that host, which alone knows its
    directories, programs and GPUs. Replicas begin in the user's home directory, or in their image.
    """

    capabilities: ClassVar[Capabilities] = replace(LocalScheduler.capabilities, workspaces=False)

    def run_opts(self) -> runopts:
        """Return the options."""
        return local_run_opts()

    def _submit_dryrun(
        self, app: AppDef, cfg: Mapping[str, CfgVal], app_id: str
    ) -> AppDryRunInfo[RemoteRequest]:
        text = str(self._call("dryrun", app=app, cfg=cfg, app_id=app_id))
        return AppDryRunInfo(RemoteRequest(app_id, app, cfg, text), str)

    def _submit(self, request: RemoteRequest) -> str:
        return str(self._call("submit", app=request.app, cfg=request.cfg, app_id=request.app_id))
