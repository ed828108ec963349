"""The scheduler `slurm`: apps as jobs of a Slurm cluster."""

from __future__ import annotations

from typing import cast

from torchx_core.schedulers.slurm.scheduler import SlurmScheduler

__all__ = ["SlurmScheduler", "create_scheduler"]


def create_scheduler(session_name: str, **params: object) -> SlurmScheduler:
    """Return a scheduler for the cluster that Slurm's commands on this host reach.

    Args:
        session_name: Apps of one session are listed together.
        params: ``state_dir`` is where records lie; others are for other schedulers.
    """
    return SlurmScheduler("slurm", session_name, state_dir=cast("str | None", params.get("state_dir")))
