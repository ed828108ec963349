"""TorchX's Docker scheduler, behind the bridge, keeps on a real engine what is claimed for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from docker_engine import DockerEngine, why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine

from torchx_core import Runner, get_runner
from torchx_core.testing import SchedulerContract


@pytest.fixture(scope="module")
def engine(private_home: Path) -> Iterator[DockerEngine]:
    """Start an engine for this module, with the images of the tests."""
    if reason := why_no_engine():
        pytest.skip(reason)
    with stocked_engine(private_home / "upstream") as engine:
        yield engine


@pytest.mark.deployment  # TorchX stops containers one after the other, and each holds out for ten seconds
@pytest.mark.engine  # its client's sockets stay open until they are collected
@pytest.mark.timeout(900)
class TestTorchXLocalDocker(SchedulerContract):
    """``torchx:local_docker``."""

    backend = "torchx:local_docker"
    image = PYTHON_IMAGE
    patience_s = 120.0

    @pytest.fixture
    def new_runner(
        self, engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Runner]:
        """All runners of a test share a session and a state directory."""
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        return partial(get_runner, f"s-{uuid.uuid4().hex[:8]}", state_dir=str(tmp_path / "state"))
