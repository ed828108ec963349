"""A running task of a real Airflow and its app, whose lines the test lets it write one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from airflow_server import AirflowServer, Task
from local_apps import has_no_line_after, running

from airflow_torchx._deferral import CURSOR_KEY
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppStatus
from torchx_core.testing import wait_until

__all__ = ["CODE", "Job", "StartJob", "placed_dags", "starting_jobs"]

LINES = 4
WAIT_S = 240.0

CODE = '''
# Writes line i as soon as the test has made the file i.
CODE = """
import os, sys, time
for i in range(4):
    while not os.path.exists(f"{sys.argv[1]}/{i}"):
        time.sleep(0.01)
    print("token", os.environ.get("API_TOKEN"))
    print("line", i, flush=True)
"""

SECRET = {"API_TOKEN": "hunter22"}

def dag(dag_id, *, retries=2, dagrun_timeout=None, role={}, env=SECRET, cfg="grace_s=1", **arguments):
    with DAG(
        dag_id,
        schedule=None,
        params={"folder": ""},
        is_paused_upon_creation=False,
        dagrun_timeout=dagrun_timeout,
    ) as made:
        TorchXRunOperator(
            task_id="t",
            app=app("python3", "-c", CODE, "{{ params.folder }}", env=env, **role),
            cfg=cfg,
            retries=retries,
            retry_delay=timedelta(seconds=1),
            **arguments,
        )
    return made
'''
"""Begins a file of DAGs whose only task runs such an app."""


def placed_dags(image: str) -> str:
    """Return a file of DAGs for a deployment of several places, of an app here and of one on an engine.

    Args:
        image: What containers on the engine are made of.
    """
    return f"""
{CODE}
import os
from airflow_torchx import _execution
from airflow_torchx.operators import torchx
from torchx_core.specs import BindMount

_execution.LOOK_AGAIN_S = 9.0  # sooner, Airflow takes the end of the first process for that of the second
torchx.DEFER_AFTER_S = 0.5
FOLDERS = os.environ["AIRFLOW_HOME"] + "/folders"
DOCKER = dict(image="{image}", mounts=[BindMount(FOLDERS, FOLDERS, read_only=True)])

for form in ("followed", "deferred"):
    dag(f"{{form}}-local", scheduler="local_cwd", deferrable=form == "deferred")
    # Without the secret, which an engine keeps to itself: a triggerer would leave every line to a worker.
    dag(f"{{form}}-docker", scheduler="local_docker", deferrable=form == "deferred", role=DOCKER, env={{}})
dag("short-local", scheduler="local_cwd", lease_s=20.0)
"""


class Job:
    """A running task and its app."""

    scheduler = "local_cwd"
    """Whose app it is."""

    def __init__(
        self, airflow: AirflowServer, runner: Runner, folder: Path, dag_id: str, *, waits_for: str = ""
    ) -> None:
        """Run the task of the DAG.

        Args:
            airflow: Where.
            runner: Knows its app.
            folder: Where the app looks for files.
            dag_id: The DAG.
            waits_for: The app, when the task is a sensor.
        """
        self.airflow = airflow
        self.runner = runner
        self.folder = folder
        self._written = 0
        conf = {"handle": waits_for} if waits_for else {"folder": str(folder)}
        self.task: Task = airflow.trigger(dag_id, **conf)
        self.handle: str = waits_for or airflow.xcom(self.task, "handle")

    def write(self, count: int = 1) -> None:
        """Let the app write its next lines."""
        for i in range(self._written, self._written + count):
            (self.folder / str(i)).touch()
        self._written += count

    def write_all(self) -> None:
        """Let it write the rest of its lines, and end."""
        self.write(LINES - self._written)

    def wait_for_lines(self, *wanted: int, try_number: int = 1) -> None:
        """Wait until the log of that try shows these lines, and no other."""
        wait_until(lambda: self.lines(try_number) == list(wanted), WAIT_S)

    def wait_for_text(self, text: str) -> None:
        """Wait until the log of the first try shows the text."""
        wait_until(lambda: text in self.airflow.log(self.task), WAIT_S)

    def lines(self, try_number: int = 1) -> list[int]:
        """Return which of the app's lines the log of that try shows."""
        return self.lines_in(self.airflow.log(self.task, try_number))

    @staticmethod
    def lines_in(log: str) -> list[int]:
        """Return which of the app's lines are in this text."""
        mark = "[r/0] line "
        return [int(line.removeprefix(mark)) for line in log.splitlines() if line.startswith(mark)]

    def wait_for_saved_position(self) -> None:
        """Wait until Airflow knows that the lines so far are in the log."""
        wait_until(lambda: self._is_shown_to(self.airflow.stored(self.task, "torchx")["cursor"]), WAIT_S)

    def wait_for_note(self) -> None:
        """Wait until the trigger has noted that the lines so far are in the log."""
        wait_until(lambda: self._is_shown_to(self.airflow.xcom(self.task, CURSOR_KEY)["cursor"]), WAIT_S)

    def _is_shown_to(self, cursor: str) -> bool:
        """Return whether whoever goes on from the cursor shows no line that the log shows already."""
        return has_no_line_after(self.runner, self.handle, cursor)

    def process(self) -> int:
        """Return the process id of the running task; its parent is the supervisor."""
        return self.airflow.process_of(self.task)

    def wait_for_owner(self, prefix: str) -> None:
        """Wait until the app belongs to somebody whose token begins so."""
        wait_until(lambda: (self.runner.owner(self.handle) or "").startswith(prefix), WAIT_S)

    def processes(self) -> list[int]:
        """Return the living processes of all apps of this task."""
        return running(str(self.folder))

    def status(self) -> AppStatus:
        """Return the app's status now."""
        status = self.runner.status(self.handle)
        assert status is not None
        return status

    def end(self) -> AppStatus:
        """Return the app's final status; without following it, which would renew its lease."""
        wait_until(lambda: self.status().is_terminal(), WAIT_S)
        return self.status()

    def handles(self) -> list[str]:
        """Return every app of this task, oldest first."""
        apps = self.runner.list(self.scheduler)
        prefix = f"{self.task.dag_id}-t-"
        return [app.app_handle for app in apps if app.app_id.startswith(prefix)]


StartJob: TypeAlias = Callable[[str], Job]
"""Runs the task of a DAG and waits until its app has been submitted."""


@contextmanager
def starting_jobs(airflow: AirflowServer, folder: Path, kind: type[Job] = Job) -> Iterator[StartJob]:
    """Yield what starts jobs; end and forget their apps afterwards."""
    with get_runner(state_dir=str(airflow.state_dir)) as runner:
        yield lambda dag_id: kind(airflow, runner, folder, dag_id)
        for app in runner.list(kind.scheduler):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=10)
            runner.delete(app.app_handle)
        airflow.restore()
