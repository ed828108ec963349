"""A real Airflow with KubernetesExecutor: each task's process runs in a pod of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_server import AirflowServer, Task, logged_in
from docker_engine import DockerEngine
from docker_images import PYTHON_IMAGE, environment_volumes
from kubernetes_cluster import KubernetesCluster, Pod, why_no_kubernetes

from torchx_core.runner import Runner, get_runner
from torchx_core.testing import wait_until

__all__ = ["KubernetesAirflow", "why_no_kubernetes_executor"]

PYTHON = Path(__file__).parents[2] / ".venv-kubernetes" / "bin" / "python"


def why_no_kubernetes_executor() -> str | None:
    """Return why such an Airflow cannot be started here, or None when it can."""
    if not PYTHON.exists():
        return ".venv-kubernetes is missing; `make test-deployment` makes it"
    return why_no_kubernetes()


class KubernetesAirflow(AirflowServer):
    """Scheduler, DAG processor, API server and triggerer beside the control plane, tasks in pods.

    Pods see DAGs, logs and the engine's socket, as volumes of the Helm chart. A pod's state directory is its
    own, and is gone with it.
    """

    def __init__(self, home: Path, cluster: KubernetesCluster, engine: DockerEngine) -> None:
        """Start nothing yet.

        Args:
            home: Where everything is kept.
            cluster: Runs the pods.
            engine: Runs the apps of ``local_docker``.
        """
        super().__init__(home)
        self.cluster = cluster
        self._socket = engine.root / "engine.sock"
        port = self._env["AIRFLOW__API__PORT"]
        self.url = f"http://{cluster.address}:{port}"
        new = {
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": cluster.address,
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(cluster.config),
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(home / "pod.json"),
            "AIRFLOW__KUBERNETES_EXECUTOR__WORKER_CONTAINER_REPOSITORY": PYTHON_IMAGE.partition(":")[0],
            "AIRFLOW__KUBERNETES_EXECUTOR__WORKER_CONTAINER_TAG": PYTHON_IMAGE.partition(":")[2],
            "DOCKER_HOST": engine.url,
        }
        self._env.update(new)

    def start(self, dags: str) -> None:
        """Start all components with these DAGs, and wait until they answer."""
        (self.home / "logs").mkdir()
        (self.home / "pod.json").write_text(json.dumps(self._pod()))
        super().start(dags)

    def _pod(self) -> dict[str, object]:
        """Return what every worker's pod begins with."""
        folders = [volume.split(":")[0] for volume in environment_volumes()]
        shared = [str(self.home / part) for part in ("dags", "logs", "folders")]
        paths = [*folders, *shared, str(self._socket)]
        ours = ("AIRFLOW", "TORCHX_", "DOCKER_")
        env = [
            {"name": "PATH", "value": f"{PYTHON.parent}:{Path(sys.base_prefix, 'bin')}:/bin"},
            *({"name": name, "value": value} for name, value in self._env.items() if name.startswith(ours)),
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "worker"},
            "spec": {
                "restartPolicy": "Never",
                "dnsPolicy": "Default",
                "containers": [
                    {
                        "name": "base",
                        "image": PYTHON_IMAGE,
                        "imagePullPolicy": "Never",
                        "env": env,
                        "volumeMounts": [
                            {"name": f"v{i}", "mountPath": path, "readOnly": path in folders}
                            for i, path in enumerate(paths)
                        ],
                    }
                ],
                "volumes": [{"name": f"v{i}", "hostPath": {"path": path}} for i, path in enumerate(paths)],
            },
        }

    def _python(self) -> str:
        return str(PYTHON)

    def _start(self, component: str) -> int:
        log = self.home / f"{component}.{len(list(self.home.glob('*.log')))}.log"
        command = self._command(component, *self.components[component])
        return self.cluster.network.centre.start(command, self._env, log)

    def runner(self) -> Runner:
        """Return what sees the apps of the engine."""
        return get_runner(docker_host=self._env["DOCKER_HOST"])

    def log(self, task: Task, try_number: int = 1) -> str:
        """Return what the log file of one try has: Airflow's page adds what its running pod has printed."""
        return logged_in([self.home / "logs"], task, try_number)

    # --- what an operator does, and fate

    def pods_of(self, task: Task) -> list[Pod]:
        """Return the pods of a task that run, or are about to; Airflow keeps those of tries that failed."""
        wanted = {"dag_id": task.dag_id, "run_id": task.run_id}
        return [
            pod
            for pod in self.cluster.pods()
            if wanted.items() <= pod.annotations.items() and pod.phase in {"Pending", "Running"}
        ]

    def pod_of(self, task: Task) -> Pod:
        """Return the pod in which the task runs, as soon as there is one."""
        (pod,) = wait_until(lambda: [pod for pod in self.pods_of(task) if pod.phase == "Running"], 240)
        return pod
