"""`local_docker`: replicas as containers of a Docker Engine."""

from __future__ import annotations

from torchx_core.schedulers.docker.request import DockerContainer, DockerJob, DockerRequest
from torchx_core.schedulers.docker.scheduler import DockerScheduler

__all__ = ["DockerContainer", "DockerJob", "DockerRequest", "DockerScheduler", "create_scheduler"]


def create_scheduler(
    session_name: str, *, docker_host: str | None = None, **_others: object
) -> DockerScheduler:
    """Return ``local_docker``.

    Args:
        session_name: Apps of one session are listed together.
        docker_host: The engine, as ``DOCKER_HOST`` would name it; None for the one that ``docker`` would use.
        _others: Parameters of other schedulers.
    """
    return DockerScheduler(session_name, docker_host=docker_host)
