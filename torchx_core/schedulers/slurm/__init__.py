"""The scheduler `slurm`: apps as jobs of a Slurm cluster."""

from __future__ import annotations

import os

from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.schedulers.slurm.scheduler import SlurmScheduler

__all__ = ["SlurmScheduler", "create_scheduler"]


def create_scheduler(
    session_name: str,
    *,
    slurm_ssh: str | None = None,
    slurm_ssh_python: str | None = None,
    state_dir: str | None = None,
    **_others: object,
) -> Scheduler[SlurmRequest]:
    """Return a scheduler for the cluster that Slurm's commands reach: on this host, or on a login node.

    Args:
        session_name: Apps of one session are listed together.
        slurm_ssh: The login node, as ``[user@]host[:port]``; None for ``TORCHX_SLURM_SSH``, and for this host
            when that is not set either.
        slurm_ssh_python: A Python 3.11 or newer there; None for ``TORCHX_SLURM_SSH_PYTHON``, or ``python3``.
        state_dir: Where records lie, on the host where Slurm's commands run.
        _others: Parameters of other schedulers.

    Raises:
        InvalidInputError: ``slurm_ssh`` is no address, or ``slurm_ssh_python`` no program.
    """
    from torchx_core.schedulers.slurm.remote.login_node import find_login_node

    node = find_login_node(slurm_ssh, slurm_ssh_python, os.environ)
    if node is None:
        return SlurmScheduler("slurm", session_name, state_dir=state_dir)
    from torchx_core.schedulers.slurm.remote.scheduler import RemoteSlurmScheduler

    return RemoteSlurmScheduler("slurm", session_name, node, state_dir=state_dir)
