# pyright: reportUnknownMemberType=false
"""What a look at an app shows while somebody else removes its containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import docker
import pytest
from docker_apps import app, connected, end, new_runner
from docker_engine import DockerEngine

from torchx_core.runner import Runner
from torchx_core.schedulers.docker.api import Api
from torchx_core.schedulers.docker.reconcile import reconcile
from torchx_core.specs import AppState
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Exit


class RemovingApi:
    """Passes calls on; a container that something is to be written to is removed before."""

    def __init__(self, api: Api) -> None:
        """Pass calls on to that one."""
        self._api = api

    def __getattr__(self, name: str) -> object:
        """Return what the API has of that name."""
        return getattr(self._api, name)

    def put_archive(self, container: str, path: str, data: bytes) -> object:
        """Find no such container."""
        self._api.remove_container(container, force=True, v=True)
        return self._api.put_archive(container, path, data)


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """Return a runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


def test_a_container_that_goes_while_its_restart_is_ordered(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """Whoever looks raises nothing: the next look shows a replica that is gone, and the app fails of it."""
    handle = runner.run(app(Exit(3), max_retries=1, num_replicas=2), "local_docker", app_id="one")
    wait_until(lambda: not client.containers.list(), 240)
    with closing(connected(engine.url, RemovingApi)) as unlucky:  # type: ignore[arg-type]  # it has what is used
        assert reconcile(unlucky, "tests", "one") is not None
    assert len(client.containers.list(all=True)) == 1
    assert end(runner, handle).state == AppState.FAILED
