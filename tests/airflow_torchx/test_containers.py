"""Airflow's compose file on one host: scheduler, triggerer and web server in containers of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from airflow_containers import ContainerAirflow
from airflow_jobs import CODE, Job, StartJob, starting_jobs
from docker_engine import DockerEngine, why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine

from torchx_core.specs import AppState

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
    pytest.mark.skipif(why_no_engine() is not None, reason=str(why_no_engine())),
]

DAGS = f"""
{CODE}
import os
from airflow_torchx.operators import torchx
from torchx_core.specs import BindMount

torchx.DEFER_AFTER_S = 0.5
FOLDERS = os.environ["AIRFLOW_HOME"] + "/folders"
DOCKER = dict(image="{PYTHON_IMAGE}", mounts=[BindMount(FOLDERS, FOLDERS, read_only=True)])
dag("followed-local")
dag("deferred-local", deferrable=True, on_success_callback=print)
dag("followed-docker", scheduler="local_docker", role=DOCKER)
"""


@pytest.fixture(scope="module")
def engine(private_home: Path) -> Iterator[DockerEngine]:
    """Return what runs the containers."""
    with stocked_engine(private_home / "compose") as engine:
        yield engine


@contextmanager
def _deployed(engine: DockerEngine, home: Path, *apart: str) -> Iterator[ContainerAirflow]:
    airflow = ContainerAirflow(home, engine, apart)
    (airflow.home / "folders").mkdir()
    try:
        airflow.start(DAGS)
        yield airflow
    finally:
        airflow.stop()


@pytest.fixture(scope="module")
def airflow(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerAirflow]:
    """Return a deployment with one state directory for all containers."""
    with _deployed(engine, tmp_path_factory.mktemp("airflow")) as airflow:
        yield airflow


@contextmanager
def _jobs(airflow: ContainerAirflow, name: str, kind: type[Job] = Job) -> Iterator[StartJob]:
    folder = airflow.home / "folders" / name
    folder.mkdir()
    with starting_jobs(airflow, folder, kind) as start:
        yield start


@pytest.fixture
def begin(airflow: ContainerAirflow, tmp_path: Path) -> Iterator[StartJob]:
    """Return what runs the task of a DAG until its app was submitted."""
    with _jobs(airflow, tmp_path.name) as start:
        yield start


def _status(airflow: ContainerAirflow, component: str, job: Job) -> str:
    return airflow.run_in(component, sys.executable, "-m", "torchx_core", "status", job.handle)


def test_a_deferred_app_is_followed_from_another_container(
    airflow: ContainerAirflow, begin: StartJob
) -> None:
    """Triggerer and web server see it in the state directory that they share with the worker."""
    job = begin("deferred-local")
    airflow.wait_for(job.task, "deferred")
    job.write()
    job.wait_for_lines(0)
    assert "RUNNING" in _status(airflow, "triggerer", job)
    assert "RUNNING" in _status(airflow, "api-server", job)
    job.write_all()
    airflow.wait_for(job.task, "success")
    assert job.lines() == [0, 1, 2, 3]
    assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)


def test_a_triggerer_that_does_not_see_the_app_leaves_it_to_the_worker(
    engine: DockerEngine, tmp_path: Path
) -> None:
    """As with the file that Airflow ships: the task says so, goes on in a worker, shows each line once."""
    home = tmp_path / "airflow"
    home.mkdir()
    with _deployed(engine, home, "triggerer") as apart, _jobs(apart, "job") as start:
        job = start("deferred-local")
        assert "unknown app" in _status(apart, "triggerer", job)
        job.write()
        job.wait_for_text("the triggerer could not follow the app")
        apart.wait_for(job.task, "running")
        job.write_all()
        apart.wait_for(job.task, "success")
        assert job.lines() == [0, 1, 2, 3]
        assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)


def test_a_local_app_ends_with_the_container_of_its_worker(
    airflow: ContainerAirflow, begin: StartJob
) -> None:
    """The next try knows at once that it is over, and runs another one."""
    job = begin("followed-local")
    job.write()
    job.wait_for_lines(0)
    airflow.replace("scheduler")
    job.write_all()
    airflow.wait_for(job.task, "success", None)
    first, second = job.handles()
    assert first == job.handle
    assert job.status().state in {AppState.FAILED, AppState.CANCELLED}
    status = job.runner.status(second)
    assert status is not None
    assert status.state is AppState.SUCCEEDED
    shown = [job.lines(number) for number in airflow.tries(job.task)]
    assert sorted(line for lines in shown for line in lines) == [0, 0, 1, 2, 3]
    assert not job.processes()


class EngineJob(Job):
    """A job of containers."""

    scheduler = "local_docker"


def test_an_app_on_the_engine_outlives_the_container_of_its_worker(
    airflow: ContainerAirflow, tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try, in another container, follows it from where the first was."""
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with _jobs(airflow, tmp_path.name, EngineJob) as start:
        job = start("followed-docker")
        job.write()
        job.wait_for_lines(0)
        job.wait_for_saved_position()
        airflow.replace("scheduler")
        job.write_all()
        airflow.wait_for(job.task, "success", None)
        assert [line for number in airflow.tries(job.task) for line in job.lines(number)] == [0, 1, 2, 3]
        assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)
