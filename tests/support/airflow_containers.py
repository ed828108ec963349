"""A real Airflow as its compose file lays it out: each component in a container of its own, on one host."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from airflow_server import AirflowServer
from docker.errors import NotFound
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, environment_volumes

__all__ = ["ContainerAirflow"]

STOP_S = 5
"""How long a container that is stopped may take: less than compose's ten seconds, so that tests are short."""


class ContainerAirflow(AirflowServer):
    """Start it, give it DAGs, and replace its containers, as an update does.

    All containers share Airflow's home, the state directory of local apps in it, and the engine's socket;
    process numbers, file system, host name and network are each one's own. The scheduler's container runs the
    tasks.
    """

    def __init__(self, home: Path, engine: DockerEngine, apart: Collection[str] = ()) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            engine: What runs the containers, and the apps of ``local_docker``.
            apart: Which components have a state directory that no other one sees.
        """
        super().__init__(home)
        self._client: Any = docker.DockerClient(base_url=engine.url)
        self._socket = engine.root / "engine.sock"
        self.apart = apart
        port = self._env["AIRFLOW__API__PORT"]
        self.url = f"http://{engine.address}:{port}"
        self._env.update(
            AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{self.url}/execution/",
            AIRFLOW__API__BASE_URL=self.url,
            AIRFLOW__API__HOST="0.0.0.0",  # noqa: S104  # of its container, whose network is the engine's own
            DOCKER_HOST=engine.url,
        )

    def _start(self, component: str) -> int:
        shared = [f"{path}:{path}" for path in (self.home, self._socket)]
        port = self._env["AIRFLOW__API__PORT"]
        container = self._client.containers.run(
            PYTHON_IMAGE,
            [sys.executable, "-m", "airflow", component, *self.components[component]],
            name=self._name(component),
            hostname=component,
            detach=True,
            init=True,  # as Airflow's own image has one
            volumes=[*environment_volumes(), *shared],
            tmpfs={str(self.state_dir): "mode=700"} if component in self.apart else {},
            ports={f"{port}/tcp": int(port)} if component == "api-server" else {},
            environment=self._environment(),
        )
        container.reload()
        return int(container.attrs["State"]["Pid"])

    def _environment(self) -> dict[str, str]:
        ours = ("AIRFLOW", "TORCHX_", "DOCKER_")
        return {name: value for name, value in self._env.items() if name.startswith(ours)}

    def _name(self, component: str) -> str:
        return f"{component}-{self._env['AIRFLOW__API__PORT']}"  # another deployment may share the engine

    def stop(self) -> None:
        """Remove all containers."""
        for component in self.components:
            with suppress(NotFound):
                self._client.containers.get(self._name(component)).remove(force=True)
        self._client.close()

    def replace(self, component: str) -> None:
        """Stop a component's container, remove it, and start another one in its place."""
        container = self._client.containers.get(self._name(component))
        container.stop(timeout=STOP_S)
        container.remove()
        self.start_again(component)

    def run_in(self, component: str, *command: str) -> str:
        """Run a command in a component's container, and return what it prints."""
        _, output = self._client.containers.get(self._name(component)).exec_run(list(command))
        return bytes(output).decode()

    def _run_command(self, *args: str) -> None:
        os.makedirs(self.state_dir, mode=0o700, exist_ok=True)  # noqa: PTH103  # its mode is what counts
        super()._run_command(*args)
