from __future__ import annotations

import functools
import uuid

import pytest
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.runner import Runner
from torchx_core.schedulers.docker import create_scheduler
from torchx_core.testing.contract import SchedulerContract
from torchx_core.testing.contract.base import NewRunner


@pytest.mark.timeout(900)
class TestDocker(SchedulerContract):
    """`local_docker` on a real engine keeps every promise."""

    backend = "local_docker"
    image = PYTHON_IMAGE
    short_s = 2.0  # the engine counts whole seconds
    patience_s = 60.0

    @pytest.fixture
    def new_runner(self, engine: DockerEngine) -> NewRunner:
        factory = functools.partial(create_scheduler, docker_host=engine.url)
        return functools.partial(Runner, f"s-{uuid.uuid4().hex[:8]}", {"local_docker": factory})
