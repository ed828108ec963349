"""Published ports: who reaches them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from docker_apps import new_runner
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE

from torchx_core.runner import Runner
from torchx_core.specs import AppDef, CfgVal, Role

PORT = 7012
SERVE = f"""
import socket
with socket.create_server(("", {PORT})) as server:
    print("up", flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(b"hello")
        connection.close()
"""


@pytest.fixture
def runner(engine: DockerEngine) -> Iterator[Runner]:
    """A runner whose apps go with the test."""
    with new_runner(engine.url) as runner:
        yield runner


def serve(runner: Runner, cfg: dict[str, CfgVal]) -> None:
    """Submit an app that greets whoever connects, and wait until it listens."""
    role = Role("w", PYTHON_IMAGE, entrypoint="python3", args=["-c", SERVE], port_map={"greeting": PORT})
    handle = runner.run(AppDef("greeter", [role]), "local_docker", cfg)
    next(batch for batch in runner.follow(handle) if any(batch.lines()))


def test_other_hosts_do_not_reach_a_port_by_default(engine: DockerEngine, runner: Runner) -> None:
    """It is published on the loopback address of the engine's host alone."""
    serve(runner, {})
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((engine.address, PORT), 60).close()


def test_other_hosts_reach_a_port_that_is_published_for_them(engine: DockerEngine, runner: Runner) -> None:
    """The option names the address of the engine's host on which the port is published."""
    serve(runner, {"host_ip": engine.address})
    with socket.create_connection((engine.address, PORT), 60) as connection:
        assert connection.recv(5) == b"hello"
