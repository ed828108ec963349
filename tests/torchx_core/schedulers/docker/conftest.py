"""What the tests of the Docker scheduler share: a real engine for the whole run, and one to be broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from docker_apps import connected
from docker_engine import DockerEngine, why_no_engine
from docker_images import stocked_engine

from torchx_core.schedulers.docker.client import Engine


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call tests on an engine slow, those of the contract excepted: it starts two containers a second."""
    on_engine = [i for i in items if {"engine", "frail_engine"}.intersection(getattr(i, "fixturenames", ()))]
    for item in on_engine:
        if Path(__file__).parent in item.path.parents and item.path.name != "test_contract.py":
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def engine(private_home: Path) -> Iterator[DockerEngine]:
    """The engine of this test run, with the images of `docker_images`; nobody restarts it."""
    yield from _engine(private_home / "engine")


@pytest.fixture(scope="module")
def frail_engine(private_home: Path) -> Iterator[DockerEngine]:
    """An engine of this module's own, with the same images, for tests that kill or restart it."""
    yield from _engine(private_home / "frail")


def _engine(root: Path) -> Iterator[DockerEngine]:
    if reason := why_no_engine():
        pytest.skip(reason)
    with stocked_engine(root) as engine:
        yield engine


@pytest.fixture
def client(engine: DockerEngine) -> Iterator[docker.DockerClient]:
    """The SDK's client of the engine."""
    with closing(docker.DockerClient(base_url=engine.url)) as client:
        yield client


@pytest.fixture(autouse=True)
def no_leaks_in_the_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves a container, volume or network of its own in the engine, and remove it."""
    if "engine" not in request.fixturenames:
        yield
        return
    engine: DockerEngine = request.getfixturevalue("engine")
    yield
    with closing(connected(engine.url)) as client:
        left = _remove_everything(client)
    if left:
        pytest.fail("the test left in the engine: " + ", ".join(left), pytrace=False)


def _remove_everything(client: Engine) -> list[str]:
    containers = [container.name for container in client.containers({})]
    for container in containers:
        client.remove_container(container)
    volumes = [volume.name for volume in client.volumes({})]
    for volume in volumes:
        client.remove_volume(volume)
    names = [str(row["Name"]) for row in client.api.networks(names=[])]
    networks = [name for name in names if name not in {"bridge", "host", "none"}]
    for network in networks:
        client.remove_network(network)
    return containers + volumes + networks
