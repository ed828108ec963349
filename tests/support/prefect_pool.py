"""A work pool of type torchx, its deployments, and worker processes for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import prefect_pool_flows
from daemons import ends, start_daemon
from httpx import HTTPError
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect_runs import FlowRun
from prefect_server import SETTINGS

from prefect_torchx.worker import TorchXWorker
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

__all__ = ["WAIT_S", "Pool"]

WAIT_S = 240.0
PROGRAM = Path(prefect_pool_flows.__file__)


class Pool:
    """Ask it for flow runs, and do to its workers what fate does; call it where the server is known."""

    def __init__(self, url: str, folder: Path) -> None:
        """Create the pool.

        Args:
            url: Of the server.
            folder: The test's; apps, files of the flows and output of the workers go there.
        """
        self.name = f"pool-{uuid4().hex[:8]}"
        self.folder = folder
        self._state_dir = folder / "state"
        self._env = {
            **os.environ,
            **SETTINGS,
            "PREFECT_API_URL": url,
            "PREFECT_WORKER_HEARTBEAT_SECONDS": "1",
            "TORCHX_STATE_DIR": str(self._state_dir),
        }
        self._workers: dict[str, int] = {}
        self._asked: list[UUID] = []
        with get_client(sync_client=True) as client:
            template = TorchXWorker.get_default_base_job_template()
            client.create_work_pool(WorkPoolCreate(name=self.name, type="torchx", base_job_template=template))

    def ask(self, flow: str, **job_variables: Any) -> FlowRun:
        """Ask for a run of that flow, as the job variables say."""
        function = getattr(prefect_pool_flows, flow)
        with get_client(sync_client=True) as client:
            deployment = client.create_deployment(
                client.create_flow_from_name(function.name),
                name=f"{self.name}-{uuid4().hex[:4]}",
                work_pool_name=self.name,
                path=str(PROGRAM.parent),
                entrypoint=f"{PROGRAM.name}:{flow}",
                job_variables=job_variables,
            )
            run = client.create_flow_run_from_deployment(deployment, parameters={"folder": str(self.folder)})
        self._asked.append(run.id)
        return FlowRun(run.id)

    def start_worker(self, name: str = "one", *words: str) -> None:
        """Start a worker process of that name."""
        command = [sys.executable, "-m", "prefect", "worker", "start", "-t", "torchx", "-p", self.name]
        self._workers[name] = start_daemon([*command, "-n", name, *words], self._env, self._log)

    def prefect(self, *words: str) -> None:
        """Run Prefect's own command in a fresh process, and wait for its end."""
        subprocess.run([sys.executable, "-m", "prefect", *words], env=self._env, check=True)

    def end_worker(self, signum: signal.Signals, name: str = "one") -> None:
        """End that worker with a signal, and wait until it is gone."""
        pid = self._workers.pop(name)
        with suppress(ProcessLookupError):  # it did not wait for us
            os.kill(pid, signum)
        assert ends(pid, WAIT_S), self.output()

    def output(self) -> str:
        """Return what the workers have printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def explain_failure(self) -> str:
        """Return how its flow runs and workers are, and what they printed: for a failed test's report."""
        gone = [name for name, pid in self._workers.items() if ends(pid, 0)]
        said = [f"workers {sorted(self._workers)}, of which {gone} have ended"]
        try:
            with get_client(sync_client=True) as client:
                for flow_run_id in self._asked:
                    states = client.read_flow_run_states(flow_run_id)
                    said += [f"{flow_run_id} {state.timestamp} {state!r}" for state in states]
        except HTTPError as err:
            said.append(repr(err))
        return "\n".join([*said, self.output()])

    def starts(self, count: int = 1, *, of: str = "starts") -> list[int]:
        """Wait until so many flows have begun, or apps (``trainings``); return their processes."""
        file = self.folder / of
        return wait_until(
            lambda: file.exists() and len(pids := file.read_text().split()) >= count and list(map(int, pids)),
            WAIT_S,
        )

    def let_go(self) -> None:
        """Let the patient flows end."""
        (self.folder / "go").touch()

    def apps(self, session: str | None = None) -> list[AppHandle]:
        """Return all apps of the pool's flow runs, or of another session."""
        with self._runner(session) as runner:
            return [app.app_handle for app in runner.list("local_cwd")]

    def infrastructure_pid(self, run: FlowRun) -> str | None:
        """Return what the server has down as the flow run's process."""
        with get_client(sync_client=True) as client:
            return client.read_flow_run(run.id).infrastructure_pid

    def close(self) -> None:
        """End all workers and apps."""
        for name in list(self._workers):
            self.end_worker(signal.SIGKILL, name)
        for handle in [*self.apps(), *self.apps(prefect_pool_flows.INNER_SESSION)]:
            with self._runner() as runner:
                runner.cancel(handle, grace_s=0)
                runner.wait(handle)

    def state_of(self, handle: AppHandle) -> AppState:
        """Return the app's state."""
        with self._runner() as runner:
            status = runner.status(handle)
        assert status is not None
        return status.state

    @property
    def _log(self) -> Path:
        return self.folder / "workers.log"

    def _runner(self, session: str | None = None) -> Runner:
        return get_runner(session, state_dir=str(self._state_dir))
