"""A real Prefect of several hosts: the server on PostgreSQL, and workers on hosts of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, TypeAlias

from hosts import Network, own_folders
from postgres import POSTGRES, start_postgres
from prefect.client.schemas.actions import WorkPoolCreate
from prefect_followed import deploy_followed
from prefect_server import DATABASE, PrefectServer

from prefect_torchx.worker import TorchXWorker

__all__ = ["POOL", "WORKERS", "PoolType", "PrefectHosts"]

PoolType: TypeAlias = Literal["process", "torchx"]

POOL = "hosts"
WORKERS = ("a", "b")


class PrefectHosts(PrefectServer):
    """The server at the centre; each host has a state directory and a home of Prefect of its own."""

    def __init__(self, home: Path, pool_type: PoolType, **env: str) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            pool_type: What the workers are: Prefect's own that start processes, or ours.
            env: What the workers find in their environment.
        """
        super().__init__(home / "prefect")
        self._pool_type = pool_type
        self._folder = home
        self.workers: dict[str, int] = {}
        """The workers' processes, as this machine numbers them."""
        self._worker_env = {**env, "TORCHX_STATE_DIR": str(home / "state")}
        self.network = Network({name: self._mounts(name) for name in (Network.CENTRE, *WORKERS)})
        self._address = self.network.address
        self.url = f"http://{self._address}:{self._port}/api"
        database = f"postgresql+asyncpg://prefect@{self._address}:5432/prefect"
        self._env["PREFECT_UI_API_URL"] = self.url
        self._env[DATABASE] = database

    def _mounts(self, name: str) -> dict[Path, Path | str]:
        return {**own_folders(self._folder, name, "state", "prefect"), POSTGRES: "tmpfs"}

    def state_dir_of(self, name: str) -> Path:
        """Return where this machine sees the state directory of a host."""
        return self._folder / "hosts" / name / "state"

    def start(self) -> None:
        """Switch the hosts on, start PostgreSQL and the server, and deploy the flow."""
        self.network.start()
        start_postgres(self.network, "prefect", self._folder / "postgres.log")
        super().start()
        template = {} if self._pool_type == "process" else TorchXWorker.get_default_base_job_template()
        with self.here():
            deploy_followed(WorkPoolCreate(name=POOL, type=self._pool_type, base_job_template=template))

    def stop(self) -> None:
        """Switch all hosts off."""
        self.network.stop()

    def start_worker(self, name: str) -> None:
        """Start the worker of a host."""
        words = f"-m prefect worker start --type {self._pool_type} --pool {POOL} --name {name}".split()
        self.workers[name] = self.run(name, *words, **self._worker_env)

    def _start(self, name: str, *args: str, **env: str) -> int:
        host = self.network[name] if name in WORKERS else self.network.centre
        return host.start([sys.executable, *args], {**self._env, **env}, self._log(name))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
