"""The Slurm scheduler on a login node, for whoever asks from outside the cluster."""

from __future__ import annotations

import os

from torchx_core.schedulers.slurm.remote.requests import name_directories
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler
from torchx_core.specs import AppDryRunInfo

__all__ = ["create_scheduler"]


class _LoginNodeScheduler(SlurmScheduler):
    """Takes requests whose directories have names, for only here is known where they are."""

    def __init__(self, backend: str, session_name: str, *, state_dir: str) -> None:
        """Do no I/O; see `SlurmScheduler`."""
        super().__init__(backend, session_name, state_dir=state_dir)
        self._state_dir = state_dir

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmRequest]) -> str:
        """Create the app and its job, or attach to the one that an equal request created."""
        home = os.path.expanduser("~")
        request = name_directories(dryrun_info.request, home=home, state=self._state_dir)
        return super().schedule(AppDryRunInfo(request, str))


def create_scheduler(session_name: str, *, state_dir: str) -> SlurmScheduler:
    """Return the scheduler of a session whose records lie in the directory."""
    return _LoginNodeScheduler("slurm", session_name, state_dir=state_dir)
