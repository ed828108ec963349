"""KubernetesExecutor: each try has a pod of its own, on one of two nodes, and the triggerer is elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_jobs import CODE, Job
from airflow_kubernetes import KubernetesAirflow, why_no_kubernetes_executor
from docker_engine import why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine
from kubernetes_cluster import KubernetesCluster
from local_apps import running

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

DAGS = f"""
{CODE}
import os
from airflow_torchx import _execution
from airflow_torchx.operators import torchx
from torchx_core.specs import BindMount

_execution.LOOK_AGAIN_S = 9.0  # sooner, Airflow takes the end of the first process for that of the second
torchx.DEFER_AFTER_S = 0.5
FOLDERS = os.environ["AIRFLOW_HOME"] + "/folders"
DOCKER = dict(image="{PYTHON_IMAGE}", mounts=[BindMount(FOLDERS, FOLDERS, read_only=True)])

for form in ("followed", "deferred"):
    dag(f"{{form}}-local", scheduler="local_cwd", deferrable=form == "deferred")
    dag(f"{{form}}-docker", scheduler="local_docker", deferrable=form == "deferred", role=DOCKER)
dag("short-local", scheduler="local_cwd", lease_s=20.0)

# Saves its work when it is asked to end, for which it takes longer than Airflow gives a task.
CODE = '''
import os, signal, sys, time
def save(*_):
    print("line 1", flush=True)
    time.sleep(7)
    print("line 2", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("line 0", flush=True)
while not os.path.exists(f"{{sys.argv[1]}}/1"):
    time.sleep(0.01)
print("line 3", flush=True)
'''
dag("saving-local", scheduler="local_cwd", cfg="grace_s=20")
"""


@pytest.fixture(scope="module")
def airflow(private_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAirflow]:
    """Start everything once."""
    if reason := why_no_engine() or why_no_kubernetes_executor():
        pytest.skip(reason)
    with stocked_engine(private_home / "kubernetes") as engine:
        cluster = KubernetesCluster(tmp_path_factory.mktemp("cluster"), engine)
        airflow = KubernetesAirflow(tmp_path_factory.mktemp("airflow"), cluster, engine)
        (airflow.home / "folders").mkdir()
        try:
            cluster.start()
            airflow.start(DAGS)
            yield airflow
        finally:
            airflow.stop()
            cluster.stop()


class PodJob(Job):
    """A job of a task in a pod."""

    def __init__(self, airflow: KubernetesAirflow, folder: Path, dag_id: str) -> None:
        self.kubernetes = airflow
        super().__init__(airflow, airflow.runner(), folder, dag_id)
        self.scheduler = self.handle.partition(":")[0]

    def logged(self, *tries: int) -> list[int]:
        """Return which of the app's lines the logs of these tries show."""
        return [i for number in tries for i in self.lines(number)]

    def check_followed(self, tries: int) -> None:
        """Check that the app went on and ended well, and that the tries show each line once."""
        self.airflow.wait_for(self.task, "success", tries)
        assert self.logged(*range(1, tries + 1)) == [0, 1, 2, 3]
        if self.scheduler == "local_docker":
            assert (self.handles(), self.status().state) == ([self.handle], AppState.SUCCEEDED)
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        """Check that no process of any of its apps is left, and no pod."""
        wait_until(lambda: not running(str(self.folder)), 60)
        wait_until(lambda: not self.kubernetes.pods_of(self.task), 120)


StartAs = Callable[[str], PodJob]


@pytest.fixture
def start(airflow: KubernetesAirflow, tmp_path: Path) -> Iterator[StartAs]:
    """Return what runs the task of a DAG until its first line is shown, and clean up behind it."""
    folder = airflow.home / "folders" / tmp_path.name
    folder.mkdir()
    jobs: list[PodJob] = []

    def start(dag_id: str) -> PodJob:
        job = PodJob(airflow, folder, dag_id)
        jobs.append(job)
        job.write()
        if not dag_id.startswith("deferred"):
            job.wait_for_lines(0)
        if dag_id == "followed-docker":
            job.wait_for_saved_position()
        return job

    yield start
    airflow.cluster.restore()
    airflow.restore()
    for job in jobs:
        job.write_all()  # or a task that went wrong would take one of the executor's slots for ever
        for app in job.runner.list("local_docker"):
            job.runner.cancel(app.app_handle, grace_s=0)
            job.runner.wait(app.app_handle, timeout_s=60)
            job.runner.delete(app.app_handle)
        job.runner.close()


@pytest.mark.parametrize("grace_s", [30, 0])
def test_an_app_on_an_engine_outlives_its_pod(start: StartAs, grace_s: int) -> None:
    """A pod that is deleted, as when a node is drained, or killed: the retry's pod follows the same app."""
    job = start("followed-docker")
    job.kubernetes.delete(job.kubernetes.pod_of(job.task), grace_s=grace_s)
    job.airflow.wait_for(job.task, "running", 2)
    job.write_all()
    job.check_followed(tries=2)


def test_an_app_on_an_engine_outlives_the_node(start: StartAs) -> None:
    """The retry runs on the other node, and follows it."""
    job = start("followed-docker")
    lost = job.kubernetes.pod_of(job.task).node
    job.kubernetes.cluster.switch_off(lost)
    job.airflow.wait_for(job.task, "running", 2)
    assert lost not in {
        pod.node for pod in job.kubernetes.pods_of(job.task) if pod.annotations["try_number"] == "2"
    }
    job.write_all()
    job.kubernetes.cluster.restore()
    job.check_followed(tries=2)


def test_a_deferred_app_on_an_engine_needs_no_pod(start: StartAs) -> None:
    """The triggerer follows it."""
    job = start("deferred-docker")
    job.airflow.wait_for(job.task, "deferred")
    wait_until(lambda: not job.kubernetes.pods_of(job.task), 120)
    job.write_all()
    job.check_followed(tries=1)


def test_a_local_app_is_not_deferred(start: StartAs) -> None:
    """It would end with the pod: the task says so, and the worker follows it to its end."""
    job = start("deferred-local")
    job.wait_for_lines(0)
    pod = job.kubernetes.pod_of(job.task)
    job.write_all()
    job.check_followed(tries=1)
    assert "not deferred: " in job.airflow.log(job.task)
    assert job.airflow.tries(job.task) == [1], pod


def test_a_local_app_may_save_its_work_when_its_pod_is_deleted(start: StartAs) -> None:
    """It is cancelled, with its grace period, shows its last lines, and the retry begins at once."""
    job = start("saving-local")
    job.kubernetes.delete(job.kubernetes.pod_of(job.task), grace_s=30)
    job.write_all()
    job.airflow.wait_for(job.task, "success", 2)
    assert (job.logged(1), job.logged(2)) == ([0, 1, 2], [0, 3])
    assert "cancelled because the Airflow worker shut down" in job.airflow.log(job.task)
    job.check_nothing_left()


def test_a_local_app_whose_pod_was_killed_is_replaced_when_its_lease_is_over(start: StartAs) -> None:
    """Nobody can know that it is gone."""
    job = start("short-local")
    job.kubernetes.delete(job.kubernetes.pod_of(job.task), grace_s=0)
    job.write_all()
    job.airflow.wait_for(job.task, "success", 2)
    assert (job.logged(1), job.logged(2)) == ([0], [0, 1, 2, 3])
    job.check_nothing_left()


@pytest.mark.parametrize("dag_id", ["followed-local", "followed-docker", "deferred-docker"])
def test_a_user_ends_the_task(start: StartAs, dag_id: str) -> None:
    """Nothing of the app is left."""
    job = start(dag_id)
    job.wait_for_lines(0)
    job.airflow.mark(job.task, "failed")
    if job.scheduler == "local_docker":
        assert job.end().state is AppState.CANCELLED
        assert job.handles() == [job.handle]
    job.check_nothing_left()
    assert job.logged(1) == [0]


@pytest.mark.parametrize("dag_id", ["followed-local", "followed-docker"])
def test_a_scheduler_that_is_killed_disturbs_no_pod(start: StartAs, dag_id: str) -> None:
    """The next one adopts it, and the same try goes on."""
    job = start(dag_id)
    job.kubernetes.end("scheduler", signal.SIGKILL)
    job.write()
    job.kubernetes.start_again("scheduler")
    job.write_all()
    job.check_followed(tries=1)
