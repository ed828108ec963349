"""`local_docker` on a real engine keeps every promise."""

from __future__ import annotations

import functools
import uuid
from typing import ClassVar

import pytest
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.runner import Runner
from torchx_core.schedulers.docker import create_scheduler
from torchx_core.testing.contract import SchedulerContract
from torchx_core.testing.contract.base import ContractBase, NewRunner
from torchx_core.testing.contract.follow import FollowContract
from torchx_core.testing.contract.stop import StopContract
from torchx_core.testing.contract.submit import SubmitContract
from torchx_core.testing.contract.survival import SurvivalContract

pytestmark = pytest.mark.timeout(900)


class OnEngine(ContractBase):
    """What both classes say of the scheduler."""

    __test__ = False
    backend = "local_docker"
    image = PYTHON_IMAGE
    short_s = 2.0  # the engine counts whole seconds
    patience_s = 60.0

    @pytest.fixture
    def new_runner(self, engine: DockerEngine) -> NewRunner:
        factory = functools.partial(create_scheduler, docker_host=engine.url)
        return functools.partial(Runner, f"s-{uuid.uuid4().hex[:8]}", {"local_docker": factory})


class TestDockerPromises(OnEngine, SubmitContract, SurvivalContract, FollowContract, StopContract):
    """An app is submitted once, outlives its submitter, ends when it is to, and each line is seen once.

    In the network of the engine's host: a container takes half the time there.
    """

    cfg: ClassVar = {"network": "host"}


@pytest.mark.slow
class TestDocker(OnEngine, SchedulerContract):
    """The whole contract, in networks as they are by default."""
