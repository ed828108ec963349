# pyright: reportUnknownMemberType=false
"""What comes of an app, and of its id, while somebody else removes its containers or its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import docker
import pytest
from docker.errors import APIError
from docker_apps import SESSION, app, connected, end, logs, new_runner
from docker_engine import DockerEngine
from docker_images import SHELL_IMAGE

from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner
from torchx_core.schedulers.docker import DockerRequest
from torchx_core.schedulers.docker.labels import NONCE, app_name, of_replica, replica_name
from torchx_core.schedulers.docker.reconcile import reconcile
from torchx_core.schedulers.docker.removing import remove_everything
from torchx_core.schedulers.docker.sdk import Api
from torchx_core.schedulers.docker.submit import submit
from torchx_core.specs import AppState
from torchx_core.testing import wait_until
from torchx_core.testing.steps import Exit, Hold, Print


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


class AtCreate:
    """Passes calls on, and acts before the first container is created."""

    def __init__(self, api: object, act: Callable[[], None]) -> None:
        """Pass calls on to that one."""
        self._api = api
        self._act = [act]

    def __getattr__(self, name: str) -> object:
        return getattr(self._api, name)

    def create_container_from_config(self, config: object, name: str) -> object:
        """Act, the first time, then create it."""
        while self._act:
            self._act.pop()()
        return self._api.create_container_from_config(config, name)  # type: ignore[attr-defined]


def test_an_app_that_is_deleted_amid_its_submit_is_submitted_anew(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """Its containers come when its record is gone; they must not be the end of that id."""
    request = cast("DockerRequest", runner.dryrun(app(Print("once")), "local_docker", app_id="one").request)
    handle = "local_docker://tests/one"

    def delete() -> None:
        with closing(connected(engine.url)) as another:
            remove_everything(another, SESSION, "one")
        assert client.volumes.list() == []

    with closing(connected(engine.url, lambda api: cast("Api", AtCreate(api, delete)))) as slow:
        submit(slow, request)
    assert end(runner, handle).state == AppState.SUCCEEDED
    assert logs(client) == ["once"]


def test_a_late_delete_leaves_the_next_app_of_that_id_alone(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """Two processes delete an app that has ended; before the slower one begins the id is used again."""
    handle = runner.run(app(Print("first")), "local_docker", app_id="one")
    end(runner, handle)
    with closing(connected(engine.url)) as late:
        view = reconcile(late, SESSION, "one")
        assert view is not None
        runner.delete(handle)
        runner.run(app(Hold()), "local_docker", app_id="one")
        remove_everything(late, SESSION, "one", view.app.nonce)
    status = runner.status(handle)
    assert status is not None
    assert not status.is_terminal()
    assert len(client.containers.list()) == 1


def test_a_container_that_an_earlier_submit_created_too_late_is_replaced(
    client: docker.DockerClient, runner: Runner
) -> None:
    """Its author was frozen until the app was deleted; nobody could follow it, and nobody would remove it."""
    labels = {**of_replica(SESSION, "one", "worker", 0, 0), NONCE: "of another submit"}
    name = replica_name(SESSION, "one", "worker", 0)
    client.containers.create(SHELL_IMAGE, ["echo", "stray"], name=name, labels=labels)
    handle = runner.run(app(Print("once")), "local_docker", app_id="one")
    assert end(runner, handle).state == AppState.SUCCEEDED
    assert logs(client) == ["once"]


class Clinging:
    """Passes calls on, but removes no volume of that name."""

    def __init__(self, api: object, name: str) -> None:
        """Pass calls on to that one."""
        self._api = api
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(self._api, name)

    def remove_volume(self, name: str) -> None:
        """Remove it, or refuse."""
        if name == self._name:
            raise APIError("refused", explanation="in the way")
        self._api.remove_volume(name)  # type: ignore[attr-defined]


def test_a_delete_that_is_cut_short_leaves_an_app_that_has_ended(
    engine: DockerEngine, client: docker.DockerClient, runner: Runner
) -> None:
    """Its end is what is removed last: without it the app would be one that is being submitted."""
    handle = runner.run(app(Print("once")), "local_docker", app_id="one")
    end(runner, handle)
    name = app_name(SESSION, "one")
    with (
        closing(connected(engine.url, lambda api: cast("Api", Clinging(api, name)))) as unlucky,
        pytest.raises(SchedulerError, match="in the way"),
    ):
        remove_everything(unlucky, SESSION, "one")
    status = runner.status(handle)
    assert status is not None
    assert status.state == AppState.SUCCEEDED
    runner.delete(handle)
    assert client.volumes.list() == []
