from __future__ import annotations

import functools
import uuid
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.testing.contract import SchedulerContract
from torchx_core.testing.contract.base import NewRunner


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestSlurm(SchedulerContract):
    """`slurm` on a real cluster of four nodes keeps every promise."""

    backend = "slurm"
    short_s = 2.0  # the nodes look at the shared directory once a second
    patience_s = 60.0

    @pytest.fixture
    def new_runner(self, cluster: SlurmCluster, tmp_path: Path) -> NewRunner:
        del cluster
        factory = functools.partial(create_scheduler, state_dir=str(tmp_path / "state"))
        return functools.partial(Runner, f"s-{uuid.uuid4().hex[:8]}", {"slurm": factory})
