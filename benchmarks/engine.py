"""A Docker engine, a Slurm cluster and a Prefect server for the benchmarks alone, and what they lack."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # the tests' engine serves here as well

from docker_engine import DockerEngine, free_number, why_no_engine  # found by the line above
from docker_images import import_images
from prefect_server import SETTINGS, PrefectServer
from slurm_cluster import running_cluster, why_no_cluster

__all__ = [
    "docker_engine",
    "prefect_server",
    "slurm_cluster",
    "why_no_cluster",
    "why_no_docker_operator",
    "why_no_engine",
    "why_no_prefect_shell",
]


_FILE = "constraints/bench-airflow.txt"


def why_no_docker_operator() -> str:
    """Return what Airflow's ``DockerOperator`` lacks; empty when it is there."""
    return "" if _is_installed("apache-airflow-providers-docker") else f"{_FILE} is not installed"


def why_no_prefect_shell() -> str:
    """Return what Prefect's ``ShellOperation`` lacks; empty when it is there."""
    return "" if _is_installed("prefect-shell") else "prefect-shell is not installed"


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


@contextmanager
def docker_engine() -> Iterator[Mapping[str, str]]:
    """Yield the environment by which the engine is found; it is gone afterwards."""
    import docker

    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    engine = DockerEngine(folder / "engine", free_number())
    try:
        engine.start()
        client = docker.DockerClient(base_url=engine.url)
        import_images(client)
        client.close()
        yield {"DOCKER_HOST": engine.url}
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def slurm_cluster() -> Iterator[Mapping[str, str]]:
    """Yield the environment by which a cluster of four nodes is found; it is gone afterwards."""
    with running_cluster() as cluster:
        yield cluster.environment


@contextmanager
def prefect_server() -> Iterator[Mapping[str, str]]:
    """Yield the environment by which a server with an empty database is found; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    server = PrefectServer(folder / "prefect")
    try:
        server.start()
        yield {**SETTINGS, "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": server.url}
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
