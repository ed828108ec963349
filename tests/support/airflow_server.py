"""A real Airflow: scheduler, DAG processor and API server as processes, LocalExecutor, SQLite."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from airflow_dags import PROLOGUE, SETTINGS

from torchx_core.testing import wait_until

__all__ = ["AirflowServer", "Task"]

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
RUN_TIMEOUT_S = 60.0


class Task(NamedTuple):
    """The only task of a DAG run."""

    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        """Where the API has it."""
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}/taskInstances/t"


class AirflowServer:
    """Start it, give it DAGs, do to their tasks what a user, a worker or fate does."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._pids: list[int] = []
        self._token = ""
        self.state_dir = home / "state"
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._env = {
            **os.environ,
            **SETTINGS,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self._url}/execution/",
            "AIRFLOW__API__BASE_URL": self._url,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "TORCHX_STATE_DIR": str(self.state_dir),
        }

    def start(self, dags: str) -> None:
        """Start all components with these DAGs and wait until they answer."""
        folder = self._home / "dags"
        folder.mkdir(parents=True)
        (folder / "dags.py").write_text(PROLOGUE + dags)
        subprocess.run(self._command("db", "migrate"), env=self._env, check=True, capture_output=True)
        for component in (("api-server", "--workers", "1"), ("scheduler",), ("dag-processor",)):
            self._pids.append(self._start(*component))
        wait_until(self._is_healthy, START_TIMEOUT_S)
        self._token = self._call("GET", "/auth/token")["access_token"]

    def _command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "airflow", *args]

    def _start(self, *args: str) -> int:
        """Start a component that is nobody's child: it outlives the test that happens to start it."""
        shell = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'
        log = self._home / f"{args[0]}.log"
        command = ["sh", "-c", shell, "sh", str(log), *self._command(*args)]
        started = subprocess.run(command, env=self._env, check=True, stdout=subprocess.PIPE, text=True)
        return int(started.stdout)

    def stop(self) -> None:
        """End all components."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)
            self._pids = [pid for pid in self._pids if not ends(pid, STOP_TIMEOUT_S)]

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            health = self._call("GET", "/api/v2/monitor/health")
            return all(health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor"))
        return False

    def _call(self, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310  (our own)
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            return json.load(response)

    def _ask(self, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        """Call until it works: SQLite under load answers some calls with an error."""

        def call() -> list[Any]:
            try:
                return [self._call(method, path, body)]
            except urllib.error.HTTPError as err:
                if err.code in {404, 500}:
                    return []
                raise

        return wait_until(call, RUN_TIMEOUT_S)[0]

    def trigger(self, dag_id: str, **conf: object) -> Task:
        """Start a run of the DAG."""
        run = self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return Task(dag_id, run["dag_run_id"])

    def wait_for(self, task: Task, state: str, try_number: int = 1) -> None:
        """Wait until the task is in the state in that try."""
        wanted = (state, try_number)

        def is_there() -> bool:
            found = self._ask("GET", task.path)
            return (found["state"], found["try_number"]) == wanted

        wait_until(is_there, RUN_TIMEOUT_S)

    def process_of(self, task: Task) -> int:
        """Return the process id of the running task; its parent is the supervisor."""
        return int(self._ask("GET", task.path)["pid"])

    def mark(self, task: Task, state: str) -> None:
        """Mark the task as a user does."""
        self._ask("PATCH", task.path, {"new_state": state})

    def clear(self, task: Task) -> None:
        """Clear the task as a user does."""
        body = {"dry_run": False, "task_ids": ["t"], "dag_run_id": task.run_id, "only_failed": False}
        self._ask("POST", f"/api/v2/dags/{task.dag_id}/clearTaskInstances", body)

    def log(self, task: Task, try_number: int = 1) -> str:
        """Return what the task's log shows of one try."""
        run = self._home / "logs" / f"dag_id={task.dag_id}" / f"run_id={task.run_id}" / "task_id=t"
        file = run / f"attempt={try_number}.log"
        if not file.exists():
            return ""
        whole = file.read_text().rpartition("\n")[0]
        return "\n".join(json.loads(line)["event"] for line in whole.splitlines())

    def stored(self, task: Task, key: str) -> Any:
        """Return a value of the task's state store, as soon as it is there."""
        return self._ask("GET", f"{task.path}/state-store/{key}")["value"]

    def xcom(self, task: Task, key: str) -> Any:
        """Return the value of an XCom, as soon as it is there."""
        return self._ask("GET", f"{task.path}/xcomEntries/{key}?deserialize=true")["value"]


def ends(pid: int, timeout_s: float) -> bool:
    """Return whether the process has ended in that time; a zombie has."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
