"""A Docker engine for the benchmarks alone, with the image that they run."""

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

__all__ = ["docker_engine", "why_no_docker_operator", "why_no_engine"]


def why_no_docker_operator() -> str:
    """Return what Airflow's ``DockerOperator`` lacks; empty when it is there."""
    try:
        version("apache-airflow-providers-docker")
    except PackageNotFoundError:
        return "constraints/bench-airflow.txt is not installed"
    return ""


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
