"""Durable local schedulers: `local_cwd` and `local_dir`."""

from __future__ import annotations

from torchx_core.schedulers.local.directories import LocalDirScheduler
from torchx_core.schedulers.local.images import CWDImageProvider, ImageProvider, LocalDirectoryImageProvider
from torchx_core.schedulers.local.request import LocalRequest
from torchx_core.schedulers.local.scheduler import LocalScheduler

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirScheduler",
    "LocalDirectoryImageProvider",
    "LocalRequest",
    "LocalScheduler",
    "create_cwd_scheduler",
    "create_dir_scheduler",
]


def create_cwd_scheduler(
    session_name: str, *, state_dir: str | None = None, gpus: tuple[str, ...] | None = None, **_others: object
) -> LocalScheduler:
    """Return ``local_cwd``: replicas run in the submitter's working directory and the image is ignored."""
    return LocalScheduler("local_cwd", session_name, CWDImageProvider(), state_dir=state_dir, gpus=gpus)


def create_dir_scheduler(
    session_name: str, *, state_dir: str | None = None, gpus: tuple[str, ...] | None = None, **_others: object
) -> LocalScheduler:
    """Return ``local_dir``: the image is a directory of this host."""
    return LocalDirScheduler(session_name, state_dir=state_dir, gpus=gpus)
