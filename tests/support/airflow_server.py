"""A real Airflow: scheduler, DAG processor and API server as processes, LocalExecutor, SQLite."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
from airflow_dags import PROLOGUE, SETTINGS
from daemons import ends, free_port, start_daemon
from engine_database import made_once

from torchx_core.testing import wait_until

__all__ = ["DATABASE", "START_TIMEOUT_S", "AirflowServer", "Task", "logged_in"]

START_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 10.0
RUN_TIMEOUT_S = 300.0
COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("--workers", "1"),
    "scheduler": (),
    "dag-processor": (),
    "triggerer": (),
}
ANOTHER = "another "
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
"""The variable with the database of a deployment that has another one than SQLite."""


class Task(NamedTuple):
    """The only task of a DAG run."""

    dag_id: str
    run_id: str

    @property
    def run_path(self) -> str:
        """Where the API has its run."""
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}"

    @property
    def path(self) -> str:
        """Where the API has it."""
        return f"{self.run_path}/taskInstances/t"


def logged_in(folders: Iterable[Path], task: Task, try_number: int) -> str:
    """Return what the log files of one try have in these folders of logs, the oldest record first."""
    place = f"dag_id={task.dag_id}/run_id={task.run_id}/task_id=t/attempt={try_number}.log*"
    files = sorted(file for folder in folders for file in folder.glob(place))
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True)]
    records = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may not be whole yet
    return "\n".join(record["event"] for record in sorted(records, key=lambda each: str(each["timestamp"])))


class AirflowServer:
    """Start it, give it DAGs, do to their tasks what a user, a worker or fate does."""

    def __init__(self, home: Path, env_of: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            env_of: What single components find in their environment, as if they ran in other containers.
        """
        self.home = home
        self._env_of = env_of or {}
        self._pids: dict[str, int] = {}
        self._orphans: list[psutil.Process] = []
        self._token = ""
        self.components = COMPONENTS
        """What runs, and the arguments of each."""
        self.state_dir = home / "state"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._env = {
            **os.environ,
            **SETTINGS,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
            # An executor whose API server was away may forget a task that it has queued.
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "120",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "TORCHX_STATE_DIR": str(self.state_dir),
        }

    def start(self, dags: str) -> None:
        """Start all components with these DAGs and wait until they answer."""
        folder = self.home / "dags"
        folder.mkdir(parents=True)
        (folder / "dags.py").write_text(PROLOGUE + dags)
        with made_once(None if DATABASE in self._env else self.home / "airflow.db") as is_there:
            if not is_there:
                self._run_command("db", "migrate")
        for component in self.components:
            self._pids[component] = self._start(component)
        wait_until(self._is_healthy, START_TIMEOUT_S)
        self._token = self._call("GET", "/auth/token")["access_token"]

    @contextlib.contextmanager
    def edited(self, edits: dict[str, str]) -> Iterator[None]:
        """Replace these texts in the file of DAGs for a while."""
        file = self.home / "dags" / "dags.py"
        before = after = file.read_text()
        for old, new in edits.items():
            assert old in before
            after = after.replace(old, new)
        file.write_text(after)
        try:
            yield
        finally:
            file.write_text(before)

    def _python(self) -> str:
        return sys.executable

    def _command(self, *args: str) -> list[str]:
        return [self._python(), "-m", "airflow", *args]

    def _run_command(self, *args: str) -> None:
        subprocess.run(self._command(*args), env=self._env, check=True, capture_output=True)

    def _start(self, component: str) -> int:
        log = self.home / f"{component}.{len(list(self.home.glob('*.log')))}.log"
        env = {**self._env, **self._env_of.get(component, {})}
        return start_daemon(self._command(component, *self.components[component]), env, log)

    def stop(self) -> None:
        """End all components, and whatever of theirs stays behind when one has to be killed."""
        for pid in self._pids.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                self._orphans += psutil.Process(pid).children(recursive=True)
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._pids.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)
            self._pids = {name: pid for name, pid in self._pids.items() if not ends(pid, STOP_TIMEOUT_S)}
        self._end_orphans()

    def pid_of(self, component: str) -> int:
        """Return the process id of a component."""
        return self._pids[component]

    def end(self, component: str, signum: signal.Signals) -> None:
        """End a component, but not the processes that it has started; with SIGKILL if it takes its time."""
        pid = self._pids[component]
        self._orphans += psutil.Process(pid).children(recursive=True)
        for each in (signum, signal.SIGKILL):
            os.kill(pid, each)
            if ends(pid, STOP_TIMEOUT_S):
                return

    def start_again(self, component: str) -> None:
        """Start a component that the test has ended, and wait until it works."""
        self._pids[component] = self._start(component)
        wait_until(self._is_healthy, START_TIMEOUT_S)

    def start_another(self, component: str) -> None:
        """Start one more of a component."""
        self._pids[ANOTHER + component] = self._start(component)

    def signal(self, component: str, signum: signal.Signals) -> None:
        """Send a signal to all processes of a component."""
        process = psutil.Process(self._pids[component])
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(signum)

    def freeze(self, component: str) -> None:
        """Stop all processes of a component where they stand, but not while they hold the lock of SQLite."""

        def is_frozen() -> bool:
            self.signal(component, signal.SIGSTOP)
            if self._database_is_free():
                return True
            self.signal(component, signal.SIGCONT)
            return False

        wait_until(is_frozen, RUN_TIMEOUT_S)

    def _database_is_free(self) -> bool:
        with contextlib.closing(sqlite3.connect(self.home / "airflow.db", isolation_level=None)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            database.execute("rollback")
            return True

    def wait_for_heartbeat(self, task: Task) -> int:
        """Wait until the running task has been heard of from now on, and return its try."""
        query = (
            "select last_heartbeat_at from task_instance where dag_id = ? and run_id = ? and task_id = 't'"
        )
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"

        def is_heard() -> bool:
            with contextlib.closing(sqlite3.connect(self.home / "airflow.db")) as database:
                (heard,) = database.execute(query, (task.dag_id, task.run_id)).fetchone()
            return heard is not None and str(heard) > now

        wait_until(is_heard, RUN_TIMEOUT_S)
        return self.wait_for(task, "running", None)

    def restore(self) -> None:
        """Bring back what a test has taken away, and end what it has added."""
        for component in self._pids:
            self.signal(component, signal.SIGCONT)
        for component in [each for each in self._pids if each.startswith(ANOTHER)]:
            self.end(component, signal.SIGTERM)
            del self._pids[component]
        self._end_orphans()
        for component, pid in self._pids.items():
            if ends(pid, 0):
                self.start_again(component)

    def _end_orphans(self) -> None:
        for process in self._orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._orphans.clear()

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            health = self._call("GET", "/api/v2/monitor/health")
            return all(
                health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor", "triggerer")
            )
        return False

    def _call(self, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310  (our own)
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
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

    def add_connection(self, conn_id: str, extra: dict[str, object]) -> None:
        """Add a connection of type ``torchx``, which only Airflow's server knows."""
        body: dict[str, object] = {
            "connection_id": conn_id,
            "conn_type": "torchx",
            "extra": json.dumps(extra),
        }
        self._ask("POST", "/api/v2/connections", body)

    def page_of(self, task: Task, task_id: str = "t") -> str:
        """Return the address of the task's page, or of another one's in its run."""
        return f"{self.url}/dags/{task.dag_id}/runs/{quote(task.run_id)}/tasks/{task_id}"

    def trigger(self, dag_id: str, **conf: object) -> Task:
        """Start a run of the DAG."""
        run = self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return Task(dag_id, run["dag_run_id"])

    def backfill(self, dag_id: str, day: str) -> Task:
        """Have one day backfilled, and return the task of the run that this makes."""
        body: dict[str, object] = {"dag_id": dag_id, "from_date": day, "to_date": day}
        self._ask("POST", "/api/v2/backfills", body)
        path = f"/api/v2/dags/{dag_id}/dagRuns?run_type=backfill"
        (run,) = wait_until(lambda: self._ask("GET", path)["dag_runs"], RUN_TIMEOUT_S)
        return Task(dag_id, run["dag_run_id"])

    def wait_for(self, task: Task, state: str, try_number: int | None = 1) -> int:
        """Wait until the task is in the state, in that try or in any, and return the try."""

        def is_there() -> int:
            found = self._ask("GET", task.path)
            number = int(found["try_number"])
            return number if found["state"] == state and try_number in {number, None} else 0

        return wait_until(is_there, RUN_TIMEOUT_S)

    def wait_for_run(self, task: Task, state: str, timeout_s: float = RUN_TIMEOUT_S) -> None:
        """Wait until the whole run is in the state."""
        wait_until(lambda: self._ask("GET", task.run_path)["state"] == state, timeout_s)

    def count(self, task: Task, state: str) -> int:
        """Return how many of a mapped task's instances are in the state."""
        return int(self._ask("GET", f"{task.run_path}/taskInstances?state={state}&limit=1")["total_entries"])

    def process_of(self, task: Task) -> int:
        """Return the process id of the running task; its parent is the supervisor."""
        return int(self._ask("GET", task.path)["pid"])

    def mark(self, task: Task, state: str) -> None:
        """Mark the task as a user does."""
        self._ask("PATCH", task.path, {"new_state": state})

    def fail_run(self, task: Task) -> None:
        """Mark the whole DAG run failed, as a user does to stop it."""
        self._ask("PATCH", task.run_path, {"state": "failed"})

    def clear(self, task: Task) -> None:
        """Clear the task as a user does."""
        body = {"dry_run": False, "task_ids": ["t"], "dag_run_id": task.run_id, "only_failed": False}
        self._ask("POST", f"/api/v2/dags/{task.dag_id}/clearTaskInstances", body)

    def tries(self, task: Task) -> list[int]:
        """Return the tries that Airflow knows: one that was given up before it began may be missing."""
        found = self._ask("GET", f"{task.path}/tries")["task_instances"]
        return sorted(int(each["try_number"]) for each in found)

    def log(self, task: Task, try_number: int = 1) -> str:
        """Return what the web UI shows of the log of one try: the worker's and the triggerer's together."""
        page = self._ask("GET", f"{task.path}/logs/{try_number}?full_content=true")
        return "\n".join(str(record["event"]) for record in page["content"])

    def stored(self, task: Task, key: str) -> Any:
        """Return a value of the task's state store, as soon as it is there."""
        return self._ask("GET", f"{task.path}/state-store/{key}")["value"]

    def xcom(self, task: Task, key: str, map_index: int = -1) -> Any:
        """Return the value of an XCom, as soon as it is there."""
        path = f"{task.path}/xcomEntries/{key}?deserialize=true&map_index={map_index}"
        return self._ask("GET", path)["value"]
