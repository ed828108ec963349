"""A real Prefect with a pool of type docker: each flow run is a container of an engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import docker
from daemons import start_daemon
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, environment_volumes
from prefect.client.schemas.actions import WorkPoolCreate
from prefect_followed import deploy_followed
from prefect_server import PrefectServer

__all__ = ["POOL", "PrefectContainers", "why_no_docker_pool"]

PYTHON = Path(__file__).parents[2] / ".venv-runners" / "bin" / "python"
POOL = "containers"


def why_no_docker_pool() -> str:
    """Return why there can be no such pool here, or nothing."""
    return "" if PYTHON.exists() else ".venv-runners is missing; `make test-deployment` makes it"


class PrefectContainers(PrefectServer):
    """The server and the worker are processes of this machine, which the containers reach.

    All containers have one volume: the folder that is given, with the state directory of local apps in it.
    They have the engine's socket, too.
    """

    def __init__(self, home: Path, engine: DockerEngine) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            engine: What runs the containers, and the apps of ``local_docker``.
        """
        super().__init__(home / "prefect")
        self._folder = home
        self._engine = engine
        self.state_dir = home / "state"
        self._address = engine.host_address
        self.url = f"http://{self._address}:{self._port}/api"
        self._env["PREFECT_UI_API_URL"] = self.url

    def start(self) -> None:
        """Start the server, deploy the flow, and start the worker."""
        self.state_dir.mkdir(mode=0o700)
        super().start()
        with self.here():
            deploy_followed(WorkPoolCreate(name=POOL, type="docker"), self._job_variables())
        self.run("worker", *f"-m prefect worker start --type docker --pool {POOL}".split())

    def _job_variables(self) -> dict[str, Any]:
        shared = [f"{path}:{path}" for path in (self._folder, self._engine.root / "engine.sock")]
        return {
            "image": PYTHON_IMAGE,
            "image_pull_policy": "Never",
            "command": f"{sys.executable} -m prefect flow-run execute",
            "volumes": [*environment_volumes(), *shared],
            "env": {
                "DOCKER_HOST": self._engine.url,
                "PREFECT_HOME": "/tmp/prefect",  # the container's own
                "TORCHX_STATE_DIR": str(self.state_dir),
            },
        }

    def kill_flow_run(self) -> None:
        """Kill the only flow run's container."""
        client: Any = docker.DockerClient(base_url=self._engine.url)
        runs = client.containers.list(filters={"label": "io.prefect.flow-run-id"})
        for container in runs:
            container.kill()
        client.close()
        assert len(runs) == 1

    def _start(self, name: str, *args: str, **env: str) -> int:
        if name != "worker":
            return super()._start(name, *args, **env)
        env = {**os.environ, **self._env, **env, "DOCKER_HOST": self._engine.url}
        pid = start_daemon([str(PYTHON), *args], env, self._log(name))
        self._pids.append(pid)
        return pid
