"""Where the programs of ``dags/`` are tried: each scheduler, with what its apps need to be there."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import pytest
from docker_engine import why_no_engine
from docker_images import PACKAGES, PYTHON_IMAGE, stocked_engine
from slurm_cluster import running_cluster, why_no_cluster

import torchx_core

__all__ = ["GALLERY_PLACES", "gallery_place"]

NO_ENGINE, NO_CLUSTER = why_no_engine(), why_no_cluster()
GALLERY_PLACES = [
    "local_cwd",
    pytest.param(
        "local_docker",
        marks=[pytest.mark.slow, pytest.mark.skipif(NO_ENGINE is not None, reason=str(NO_ENGINE))],
    ),
    pytest.param(
        "slurm",
        marks=[pytest.mark.slow, pytest.mark.skipif(NO_CLUSTER != "", reason=NO_CLUSTER)],
    ),
]
"""The parameters of a fixture that is a place."""
IMAGE = "torchx-test-gallery:latest"


@contextmanager
def gallery_place(scheduler: str) -> Iterator[Mapping[str, str]]:
    """Yield what a program of the gallery finds in its environment; what is started for it ends with it."""
    named = {"SCHEDULER": scheduler}
    if scheduler == "local_docker":
        # Of a short name, because a socket's path ends at 108 bytes.
        with tempfile.TemporaryDirectory(prefix="g-") as folder, stocked_engine(Path(folder, "e")) as engine:
            _make_image(engine.url)
            yield {**named, "IMAGE": IMAGE, "DOCKER_HOST": engine.url}
    elif scheduler == "slurm":
        with running_cluster(nodes=3) as cluster:  # the server's and those of its two workers
            yield {**named, **cluster.environment}
    else:
        yield named


def _make_image(url: str) -> None:
    """Give the engine an image with Python and this torchx-core."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(Path(torchx_core.__file__).parent, arcname="torchx_core")
    with closing(docker.DockerClient(base_url=url)) as client:
        container = client.containers.create(PYTHON_IMAGE, ["true"])
        container.put_archive(PACKAGES, buffer.getvalue())
        container.commit(*IMAGE.split(":"))
        container.remove()
