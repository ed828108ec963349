"""Kills that only a deployment of several hosts knows: CeleryExecutor, two workers, a triggerer elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_celery import WORKERS, CeleryAirflow, why_no_celery
from airflow_jobs import Job, placed_dags
from docker_engine import why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine
from local_apps import running

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


@pytest.fixture(scope="module")
def celery(private_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CeleryAirflow]:
    """Start everything once."""
    if reason := why_no_celery() or why_no_engine():
        pytest.skip(reason)
    with stocked_engine(private_home / "celery") as engine:
        airflow = CeleryAirflow(tmp_path_factory.mktemp("airflow"), engine.url)
        (airflow.home / "folders").mkdir()
        try:
            airflow.start(placed_dags(PYTHON_IMAGE))
            yield airflow
        finally:
            airflow.stop()


class CeleryJob(Job):
    """A job on one of the hosts."""

    def __init__(self, celery: CeleryAirflow, folder: Path, dag_id: str) -> None:
        self.celery = celery
        super().__init__(celery, celery.runner(WORKERS[0]), folder, dag_id)
        self.host = self.celery.worker_of(self.task)
        """On which it was submitted."""
        (self.other,) = set(WORKERS) - {self.host}
        """The other worker's."""
        self.runner.close()
        self.runner = celery.runner(self.host)
        self.scheduler = self.handle.partition(":")[0]

    def handles(self) -> list[str]:
        """Return every app of this task that its first host sees, oldest first."""
        prefix = f"{self.task.dag_id}-t-"
        return [app.app_handle for app in self.runner.list(self.scheduler) if app.app_id.startswith(prefix)]

    def logged(self, *tries: int) -> list[int]:
        """Return which of the app's lines are in the log files of these tries, all hosts together."""
        return [i for number in tries for i in self.lines_in(self.celery.logged(self.task, number))]

    def kill_process(self) -> None:
        """Kill the task's process on its host."""
        self.celery.network[self.host].run("kill", "-KILL", str(self.process()))

    def check_followed(self, tries: int) -> None:
        """Check that the app went on and ended well, and that the tries show each line once."""
        self.celery.wait_for(self.task, "success", tries)
        assert self.status().state is AppState.SUCCEEDED
        assert self.logged(*range(1, tries + 1)) == [0, 1, 2, 3]
        assert self.handles() == [self.handle]
        wait_until(lambda: not running(str(self.folder)), 60)


StartAs = Callable[[str], CeleryJob]


@pytest.fixture
def start(celery: CeleryAirflow, tmp_path: Path) -> Iterator[StartAs]:
    """Return what runs the task of a DAG until its first line is shown, and clean up behind it."""
    folder = celery.home / "folders" / tmp_path.name
    folder.mkdir()
    jobs: list[CeleryJob] = []

    def start(dag_id: str) -> CeleryJob:
        job = CeleryJob(celery, folder, dag_id)
        jobs.append(job)
        job.write()
        if not dag_id.startswith("deferred"):
            job.wait_for_lines(0)
            job.wait_for_saved_position()
        return job

    yield start
    celery.restore()
    for job in jobs:
        for app in job.runner.list(job.scheduler):
            job.runner.cancel(app.app_handle, grace_s=0)
            job.runner.wait(app.app_handle, timeout_s=60)
            job.runner.delete(app.app_handle)
        job.runner.close()
    assert not running(str(folder))


def test_an_app_on_an_engine_outlives_the_host_of_its_worker(start: StartAs) -> None:
    """The retry on the other host follows it, and shows no line that went to the log of the first."""
    job = start("followed-docker")
    job.celery.network[job.host].switch_off()
    job.celery.wait_for(job.task, "running", 2)
    job.write_all()
    job.check_followed(tries=2)
    assert job.lines(2) == [1, 2, 3]


def test_a_local_app_that_died_with_its_host_is_replaced_on_the_other(start: StartAs) -> None:
    """Nobody there can know it until its lease is over; the host that comes back runs nothing of it."""
    job = start("short-local")
    job.celery.network[job.host].switch_off()
    wait_until(lambda: not job.processes(), 60)
    job.write_all()
    job.celery.wait_for(job.task, "success", 2)
    assert (job.logged(1), job.logged(2)) == ([0], [0, 1, 2, 3])
    assert job.celery.xcom(job.task, "handle") != job.handle
    assert job.celery.worker_of(job.task) == job.other
    job.celery.restore()
    assert job.celery.network[job.host].run("pgrep", "-fc", str(job.folder), check=False) == "0\n"
    assert job.status().state is AppState.FAILED


@pytest.mark.parametrize("scheduler", ["local", "docker"])
def test_a_warm_shutdown_waits_for_the_task(start: StartAs, scheduler: str) -> None:
    """SIGTERM to Celery's worker: it begins no other task, and ends when this one has."""
    job = start(f"followed-{scheduler}")
    job.celery.signal_worker(job.host, signal.SIGTERM)
    job.write()
    job.wait_for_lines(0, 1)
    job.write_all()
    job.check_followed(tries=1)
    assert job.celery.worker_ends(job.host, 120)


@pytest.mark.parametrize("signum", [signal.SIGQUIT, signal.SIGKILL])
def test_when_its_worker_is_gone_the_other_host_follows(start: StartAs, signum: signal.Signals) -> None:
    """A cold shutdown (SIGQUIT) and a kill end the task's process too; the app on the engine goes on."""
    job = start("followed-docker")
    job.celery.signal_worker(job.host, signum)
    assert job.celery.worker_ends(job.host, 120)
    job.celery.wait_for(job.task, "running", 2)
    assert job.celery.worker_of(job.task) == job.other
    job.write_all()
    job.check_followed(tries=2)


@pytest.mark.parametrize("signum", [signal.SIGQUIT, signal.SIGKILL])
def test_when_its_worker_is_gone_a_local_app_waits_for_it(start: StartAs, signum: signal.Signals) -> None:
    """The other worker tries and goes, until the first one is back and follows."""
    job = start("followed-local")
    job.celery.signal_worker(job.host, signum)
    assert job.celery.worker_ends(job.host, 120)
    job.celery.wait_for(job.task, "up_for_reschedule", 2)
    assert "was submitted on host" in job.celery.log(job.task, 2)
    job.celery.restore()
    job.celery.take_no_tasks(job.other)
    job.write_all()
    job.check_followed(tries=2)


@pytest.mark.parametrize("scheduler", ["local", "docker"])
def test_a_retry_comes_to_the_other_host(start: StartAs, scheduler: str) -> None:
    """It follows an app on the engine, and goes again for a local one, until its own host has it."""
    job = start(f"followed-{scheduler}")
    job.celery.take_no_tasks(job.host)
    job.kill_process()
    if scheduler == "local":
        job.celery.wait_for(job.task, "up_for_reschedule", 2)
    else:
        job.celery.wait_for(job.task, "running", 2)
        assert job.celery.worker_of(job.task) == job.other
    job.celery.take_tasks(job.host)
    job.celery.take_no_tasks(job.other)
    job.write_all()
    job.check_followed(tries=2)


@pytest.mark.parametrize("scheduler", ["local", "docker"])
def test_a_triggerer_elsewhere_follows_what_it_can_see(start: StartAs, scheduler: str) -> None:
    """An app on an engine to its end; a local one it hands back to the workers, one of which sees it."""
    job = start(f"deferred-{scheduler}")
    if scheduler == "docker":
        job.celery.wait_for(job.task, "deferred")
        job.wait_for_lines(0)
    else:
        job.wait_for_text("the triggerer could not follow the app")
    job.write_all()
    job.check_followed(tries=1)


def test_a_task_may_run_longer_than_its_message_may_be_unanswered(start: StartAs) -> None:
    """After `visibility_timeout` the broker gives the task to a worker once more; nothing comes of it."""
    job = start("followed-local")
    wait_until(job.celery.has_redelivered, 600)
    job.write_all()
    job.check_followed(tries=1)


@pytest.mark.parametrize("dag_id", ["followed-local", "followed-docker", "deferred-docker"])
def test_a_user_ends_the_task(start: StartAs, dag_id: str) -> None:
    """From a web server on a third host; nothing of the app is left."""
    job = start(dag_id)
    job.wait_for_lines(0)
    job.celery.mark(job.task, "failed")
    assert job.end().state is AppState.CANCELLED
    assert (job.logged(1), job.handles()) == ([0], [job.handle])
    wait_until(lambda: not job.processes(), 60)
