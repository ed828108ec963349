from __future__ import annotations

import functools
import sys
import uuid

import pytest
from ssh_server import SshServer

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.testing.contract import SchedulerContract
from torchx_core.testing.contract.base import NewRunner


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestSlurmOverSsh(SchedulerContract):
    """`slurm` keeps every promise when it is reached through a login node."""

    backend = "slurm"
    short_s = 2.0  # the nodes look at the shared directory once a second
    patience_s = 60.0
    reached_by = frozenset({"HOME"})  # of the user's ssh configuration

    @pytest.fixture
    def new_runner(self, login_node: SshServer) -> NewRunner:
        del login_node
        factory = functools.partial(create_scheduler, slurm_ssh="login", slurm_ssh_python=sys.executable)
        return functools.partial(Runner, f"s-{uuid.uuid4().hex[:8]}", {"slurm": factory})
