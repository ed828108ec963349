"""A real Airflow of several hosts: CeleryExecutor, Redis, PostgreSQL, and workers and triggerer elsewhere."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from airflow_server import DATABASE, AirflowServer, Task, logged_in
from daemons import ends
from hosts import Host, Network, own_folders, why_no_hosts
from postgres import POSTGRES, start_postgres, why_no_postgres

from torchx_core.runner import Runner, get_runner
from torchx_core.testing import wait_until

__all__ = ["WORKERS", "CeleryAirflow", "why_no_celery"]

PYTHON = Path(__file__).parents[2] / ".venv-celery" / "bin" / "python"
WORKERS = ("a", "b")
TRIGGERER = "c"


def why_no_celery() -> str | None:
    """Return why such an Airflow cannot be started here, or None when it can."""
    if reason := why_no_hosts():
        return reason
    if reason := why_no_postgres():
        return reason
    if shutil.which("redis-server") is None or not PYTHON.exists():
        return "Redis or .venv-celery is missing; `make test-deployment` installs them on Debian"
    return None


class CeleryAirflow(AirflowServer):
    """Scheduler, DAG processor, API server and databases at the centre, workers on hosts of their own.

    Every host has its own state directory and its own logs, under the same paths. DAGs and what else lies in
    Airflow's home are the same on all.
    """

    def __init__(self, home: Path, docker_host: str) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            docker_host: A Docker Engine that all hosts reach.
        """
        super().__init__(home)
        self.network = Network({name: self._mounts(name) for name in (Network.CENTRE, *WORKERS, TRIGGERER)})
        self._without_tasks: set[str] = set()
        address = self.network.address
        database = f"airflow@{address}:5432/airflow"
        port = self._env["AIRFLOW__API__PORT"]
        self.url = f"http://{address}:{port}"
        self._env |= {
            "DOCKER_HOST": docker_host,
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "airflow.utils.net.get_host_ip_address",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": address,
            DATABASE: f"postgresql+psycopg2://{database}",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://{address}:6379/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+postgresql+psycopg2://{database}",
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": "2",
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "30",
        }
        self.components = {**self.components, **{f"celery worker {name}": () for name in WORKERS}}

    def _mounts(self, name: str) -> dict[Path, Path | str]:
        mounts = own_folders(self.home, name, "state", "logs")
        return {**mounts, Path("/etc/hosts"): self.home / "hosts" / name / "etc-hosts", POSTGRES: "tmpfs"}

    def runner(self, name: str) -> Runner:
        """Return what sees the apps of a host, and those of the engine that all hosts reach."""
        state_dir = self.home / "hosts" / name / "state"
        return get_runner(state_dir=str(state_dir), docker_host=self._env["DOCKER_HOST"])

    def start(self, dags: str) -> None:
        """Switch the hosts on, start everything, and wait until all components answer."""
        for name in (Network.CENTRE, *WORKERS, TRIGGERER):
            address = self.network.address if name == Network.CENTRE else self.network.address_of(name)
            (self.home / "hosts" / name / "etc-hosts").write_text(f"127.0.0.1 localhost\n{address} {name}\n")
        self.network.start()
        start_postgres(self.network, "airflow", self.home / "postgres.log")
        redis = ["redis-server", "--bind", self.network.address, "--protected-mode", "no", "--save", ""]
        self.network.centre.start(redis, os.environ, self.home / "redis.log")
        super().start(dags)

    def stop(self) -> None:
        """Switch all hosts off."""
        self.network.stop()

    def _python(self) -> str:
        return str(PYTHON)

    def _host_of(self, component: str) -> Host:
        *_, name = component.split()
        if name in WORKERS:
            return self.network[name]
        return self.network[TRIGGERER] if component == "triggerer" else self.network.centre

    def _run_command(self, *args: str) -> None:
        self.network.centre.run(*self._command(*args), env=self._env)

    def _start(self, component: str) -> int:
        log = self.home / f"{component}.{len(list(self.home.glob('*.log')))}.log"
        words = component.split()
        host = self._host_of(component)
        options = self.components[component]
        if words[0] == "celery":
            pid_file = self.home / "hosts" / host.name / "worker.pid"
            pid_file.unlink(missing_ok=True)
            options = ("-H", f"celery@{words.pop()}", "-q", "default", "--pid", str(pid_file))
        return host.start(self._command(*words, *options), self._env, log)

    # --- what an operator does, and fate

    def worker_of(self, task: Task) -> str:
        """Return the name of the host on which the task runs."""
        hostname = wait_until(lambda: self._ask("GET", task.path)["hostname"], 60)
        (name,) = [name for name in WORKERS if self.network.address_of(name) == hostname]
        return name

    def take_no_tasks(self, name: str) -> None:
        """Have a worker go on with the tasks that it has, and begin no other."""
        self._change_queue("remove", name)
        self._without_tasks.add(name)

    def take_tasks(self, name: str) -> None:
        """Have a worker begin tasks again."""
        self._change_queue("add", name)
        self._without_tasks.discard(name)

    def _change_queue(self, verb: str, name: str) -> None:
        self._run_command("celery", f"{verb}-queue", "-H", f"celery@{name}", "-q", "default")

    def worker_ends(self, name: str, timeout_s: float) -> bool:
        """Return whether a worker has ended in that time."""
        return ends(self.pid_of(f"celery worker {name}"), timeout_s)

    def signal_worker(self, name: str, signum: signal.Signals) -> None:
        """Send a signal to the first process of a worker."""
        os.kill(self.pid_of(f"celery worker {name}"), signum)

    def has_redelivered(self) -> bool:
        """Return whether the broker has given a worker a task that already runs."""
        logs = self.home.glob("celery worker*.log")
        return any("ignoring redelivered message" in log.read_text() for log in logs)

    def logged(self, task: Task, try_number: int) -> str:
        """Return what the log files of one try have, on all hosts: Airflow's page asks its last worker."""
        return logged_in((self.home / "hosts").glob("*/logs"), task, try_number)

    def restore(self) -> None:
        """Switch on what is off, start the workers that are not there, and let all of them take tasks."""
        for name in WORKERS:
            if ends(self.network[name].pid, 0):
                self.network.switch_on(name)
            worker = f"celery worker {name}"
            if self.worker_ends(name, 0):
                self._pids[worker] = self._start(worker)
                self._without_tasks.discard(name)
        for name in sorted(self._without_tasks):
            self.take_tasks(name)
