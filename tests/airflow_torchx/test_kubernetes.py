"""KubernetesExecutor: each try has a pod of its own, on one of two nodes, and the triggerer is elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_jobs import Job, placed_dags
from airflow_kubernetes import KubernetesAirflow, why_no_kubernetes_executor
from docker_engine import why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine
from kubernetes_cluster import KubernetesCluster, Pod
from local_apps import running

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

# Saves its work when it is asked to end, and is slow at that.
SAVING = """
CODE = '''
import os, signal, sys, time
def wait_for(line):
    while not os.path.exists(f"{sys.argv[1]}/{line}"):
        time.sleep(0.01)
def save(*_):
    print("line 1", flush=True)
    wait_for(1)
    print("line 2", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("line 0", flush=True)
wait_for(2)
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
            airflow.start(placed_dags(PYTHON_IMAGE) + SAVING)
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


@pytest.mark.parametrize("end", [KubernetesCluster.delete, KubernetesCluster.kill])
def test_an_app_on_an_engine_outlives_its_pod(
    start: StartAs, end: Callable[[KubernetesCluster, Pod], None]
) -> None:
    """A pod that is deleted, as when a node is drained, or killed: the retry's pod follows the same app."""
    job = start("followed-docker")
    end(job.kubernetes.cluster, job.kubernetes.pod_of(job.task))
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
    job.write_all()
    job.check_followed(tries=1)
    assert "not deferred: " in job.airflow.log(job.task)
    assert job.airflow.tries(job.task) == [1]


def test_a_local_app_may_save_its_work_when_its_pod_is_deleted(start: StartAs) -> None:
    """It is cancelled, with its grace period, shows its last lines, and the retry begins at once."""
    job = start("saving-local")
    job.kubernetes.cluster.delete(job.kubernetes.pod_of(job.task))
    job.wait_for_lines(0, 1)
    job.write_all()
    job.airflow.wait_for(job.task, "success", 2)
    assert (job.logged(1), job.logged(2)) == ([0, 1, 2], [0, 3])
    assert "cancelled because the Airflow worker shut down" in job.airflow.log(job.task)
    job.check_nothing_left()


def test_a_local_app_whose_pod_was_killed_is_replaced_when_its_lease_is_over(start: StartAs) -> None:
    """Nobody can know that it is gone."""
    job = start("short-local")
    job.kubernetes.cluster.kill(job.kubernetes.pod_of(job.task))
    wait_until(lambda: not job.processes(), 60)
    job.write_all()
    job.airflow.wait_for(job.task, "success", 2)
    assert (job.logged(1), job.logged(2)) == ([0], [0, 1, 2, 3])
    assert "was submitted on host" in job.airflow.log(job.task, 2)
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
