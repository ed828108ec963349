"""What becomes of the app when Airflow ends the task, in every way in which it can."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_server import AirflowServer, Task, ends
from local_apps import parent_of

from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppState, AppStatus
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(240)]

DAGS = '''
# Writes line i as soon as the test has made the file i.
CODE = """
import os, sys, time
print("token", os.environ["API_TOKEN"])
for i in range(4):
    while not os.path.exists(f"{sys.argv[1]}/{i}"):
        time.sleep(0.01)
    print("line", i, flush=True)
"""

def dag(dag_id, *, retries=2, **arguments):
    with DAG(dag_id, schedule=None, params={"folder": ""}, is_paused_upon_creation=False) as made:
        TorchXRunOperator(
            task_id="t",
            app=app("python3", "-c", CODE, "{{ params.folder }}", env={"API_TOKEN": "hunter22"}),
            cfg="grace_s=1",
            retries=retries,
            retry_delay=timedelta(seconds=1),
            **arguments,
        )
    return made

retried = dag("retried")
once = dag("once", retries=0, lease_s=3.0)
quick = dag("quick", retries=0, execution_timeout=timedelta(seconds=4))
'''


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """Return an Airflow that runs the DAGs above."""
    server = AirflowServer(tmp_path_factory.mktemp("airflow"))
    try:
        server.start(DAGS)
        yield server
    finally:
        server.stop()


class Job:
    """A running task and its app, and the lines that the test lets the app write."""

    def __init__(self, airflow: AirflowServer, runner: Runner, folder: Path, dag_id: str) -> None:
        self.airflow = airflow
        self.runner = runner
        self._folder = folder
        self._written = 0
        self.task: Task = airflow.trigger(dag_id, folder=str(folder))
        self.handle: str = airflow.xcom(self.task, "handle")

    def write(self, count: int = 1) -> None:
        """Let the app write its next lines."""
        for i in range(self._written, self._written + count):
            (self._folder / str(i)).touch()
        self._written += count

    def wait_for_lines(self, *wanted: int, try_number: int = 1) -> None:
        """Wait until the log of that try shows these lines, and no other."""
        wait_until(lambda: self.lines(try_number) == list(wanted), 30)

    def lines(self, try_number: int) -> list[int]:
        """Return which of the app's lines the log of that try shows."""
        log = self.airflow.log(self.task, try_number).splitlines()
        return [int(line.removeprefix("[r/0] line ")) for line in log if line.startswith("[r/0] line ")]

    def wait_for_bookmark(self) -> None:
        """Wait until Airflow knows that the lines so far are in the log."""
        wait_until(lambda: not self._unsaved(), 30)

    def _unsaved(self) -> bool:
        """Return whether a retry would show a line that the log shows already."""
        record = self.airflow.stored(self.task, "torchx")
        batch = next(self.runner.follow(self.handle, record["cursor"], tick_s=0.01))
        return any(True for _ in batch.lines())

    def status(self) -> AppStatus:
        """Return the app's status now."""
        status = self.runner.status(self.handle)
        assert status is not None
        return status

    def end(self) -> AppStatus:
        """Return the app's final status; without following it, which would renew its lease."""
        wait_until(lambda: self.status().is_terminal(), 30)
        return self.status()

    def handles(self) -> list[str]:
        """Return every app of this task, oldest first."""
        apps = self.runner.list("local_cwd")
        prefix = f"{self.task.dag_id}-t-"
        return [app.app_handle for app in apps if app.app_id.startswith(prefix)]


@pytest.fixture
def start(airflow: AirflowServer, tmp_path: Path) -> Iterator[Callable[[str], Job]]:
    """Return what runs the task of a DAG and waits until its app has been submitted."""
    with get_runner(state_dir=str(airflow.state_dir)) as runner:
        yield lambda dag_id: Job(airflow, runner, tmp_path, dag_id)
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=10)
            runner.delete(app.app_handle)


Start = Callable[[str], Job]


def test_a_killed_task_process_is_followed_by_the_retry(start: Start) -> None:
    """The app runs once, and over both tries the log shows every line once."""
    job = start("retried")
    job.write(2)
    job.wait_for_lines(0, 1)
    job.wait_for_bookmark()

    os.kill(job.airflow.process_of(job.task), signal.SIGKILL)
    job.airflow.wait_for(job.task, "running", try_number=2)
    job.write(2)

    job.airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0, 1], [2, 3])
    assert job.handles() == [job.handle]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=["stops", "dies"])
def test_a_worker_that_goes_leaves_the_app_to_the_retry(start: Start, signum: signal.Signals) -> None:
    """Whether the supervisor passes the signal on or is gone itself, the task leaves its app running."""
    job = start("retried")
    job.write(2)
    job.wait_for_lines(0, 1)
    job.wait_for_bookmark()
    process = job.airflow.process_of(job.task)

    os.kill(parent_of(process), signum)
    assert ends(process, 4)
    assert not job.status().is_terminal()

    job.airflow.wait_for(job.task, "running", try_number=2)
    job.write(2)
    job.airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0, 1], [2, 3])
    assert job.handles() == [job.handle]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_marked_task_takes_its_app_with_it(start: Start, state: str) -> None:
    """The app is cancelled with the reason, and the process leaves within Airflow's five seconds."""
    job = start("retried")
    process = job.airflow.process_of(job.task)

    job.airflow.mark(job.task, state)

    status = job.end()
    assert status.state is AppState.CANCELLED
    assert status.msg == f"cancelled by user action in Airflow: the task instance is {state}"
    assert ends(process, 10)
    assert "is CANCELLED" in job.airflow.log(job.task)


def test_a_clear_of_a_running_task_runs_it_afresh(start: Start) -> None:
    """The old app is cancelled, and a new one writes every line again."""
    job = start("retried")
    job.write(1)
    job.wait_for_lines(0)

    job.airflow.clear(job.task)

    assert job.end().state is AppState.CANCELLED
    job.write(3)
    job.airflow.wait_for(job.task, "success", try_number=2)
    assert job.lines(2) == [0, 1, 2, 3]
    assert len(job.handles()) == 2


def test_a_clear_after_success_runs_the_task_afresh(start: Start) -> None:
    """Nobody clears a task to get the old result again."""
    job = start("retried")
    job.write(4)
    job.airflow.wait_for(job.task, "success")

    job.airflow.clear(job.task)

    job.airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert len(job.handles()) == 2


def test_an_app_that_nobody_comes_for_ends(start: Start) -> None:
    """Without a retry its lease runs out, so that a lost worker keeps no GPU."""
    job = start("once")
    os.kill(job.airflow.process_of(job.task), signal.SIGKILL)
    job.airflow.wait_for(job.task, "failed")
    status = job.end()
    assert (status.state, "lease" in status.msg) == (AppState.CANCELLED, True)


def test_the_last_try_cancels_when_its_worker_stops(start: Start) -> None:
    """Where no retry would follow the app, it ends at once instead of with its lease."""
    job = start("once")
    os.kill(parent_of(job.airflow.process_of(job.task)), signal.SIGTERM)
    status = job.end()
    assert (status.state, status.msg) == (
        AppState.CANCELLED,
        "cancelled because the Airflow worker shut down",
    )


def test_execution_timeout_cancels(start: Start) -> None:
    """The app ends with the task."""
    job = start("quick")
    job.airflow.wait_for(job.task, "failed")
    assert "execution_timeout of 0:00:04 passed" in job.end().msg


def test_secrets_are_masked_in_the_log(start: Start) -> None:
    """A value whose name looks like a secret's does not get from the app's output into the task's log."""
    job = start("retried")
    job.write(4)
    job.airflow.wait_for(job.task, "success")
    assert "hunter22" not in job.airflow.log(job.task)
    assert "token ***" in job.airflow.log(job.task)
