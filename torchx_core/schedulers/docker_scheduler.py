"""TorchX's path of the Docker scheduler; what lies here is defined in `torchx_core.schedulers.docker`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from torchx_core.errors import TorchXError
from torchx_core.schedulers.structured_opts import StructuredOpts

if TYPE_CHECKING:
    from torchx_core.schedulers.docker import (
        DockerContainer,
        DockerJob,
        DockerRequest,
        DockerScheduler,
        create_scheduler,
    )

__all__ = [
    "DockerContainer",
    "DockerJob",
    "DockerRequest",
    "DockerScheduler",
    "Opts",
    "create_scheduler",
    "has_docker",
]


@dataclass
class Opts(StructuredOpts):
    """The options of the Docker scheduler as fields, to submit with; None stands for the option's default.

    `DockerScheduler.run_opts` says what each means.

    Example:
        >>> Opts(privileged=True)["privileged"]
        True
    """

    copy_env: list[str] | None = None
    env: dict[str, str] | None = None
    privileged: bool | None = None
    image_repo: str | None = None
    quiet: bool | None = None
    pull: str | None = None
    network: str | None = None
    host_ip: str | None = None
    shim: str | None = None
    init: bool | None = None
    grace_s: float | None = None
    timeout_s: float | None = None
    deadline: float | None = None
    lease_s: float | None = None
    log_driver: str | None = None
    log_max_mb: int | None = None
    shm_mb: int | None = None
    gpu_ids: list[str] | None = None
    retention: str | None = None


def has_docker() -> bool:
    """Return whether ``docker`` is installed and an engine answers; ``torchx-core doctor`` says more."""
    try:
        with closing(import_module("torchx_core.schedulers.docker").create_scheduler("")) as scheduler:
            return any(found.subject == "engine" and found.verdict == "ok" for found in scheduler.diagnose())
    except (ImportError, TorchXError):
        return False


def __getattr__(name: str) -> object:
    """Import the client of Docker, which may not be installed, when a name is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("torchx_core.schedulers.docker"), name)
