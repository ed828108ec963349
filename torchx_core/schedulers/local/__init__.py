"""Durable local schedulers: `local_cwd` and `local_dir`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torchx_core.schedulers.local.directories import LocalDirScheduler
from torchx_core.schedulers.local.images import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    ReplicaParam,
)
from torchx_core.schedulers.local.request import LocalRequest, PopenRequest
from torchx_core.schedulers.local.scheduler import LocalScheduler
from torchx_core.specs import CfgVal

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirScheduler",
    "LocalDirectoryImageProvider",
    "LocalRequest",
    "LocalScheduler",
    "PopenRequest",
    "ReplicaParam",
    "create_cwd_scheduler",
    "create_dir_scheduler",
    "create_scheduler",
]


def create_scheduler(
    session_name: str,
    cache_size: int = 100,
    extra_paths: Sequence[str] | None = None,
    image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] = CWDImageProvider,
    *,
    state_dir: str | None = None,
    gpus: tuple[str, ...] | None = None,
    **_others: object,
) -> LocalScheduler:
    """Return the local scheduler whose images mean what the provider says.

    Args:
        session_name: As for `LocalScheduler`, like all that follow.
        cache_size: The same.
        extra_paths: The same.
        image_provider_class: The same. ``local_cwd`` has `CWDImageProvider`, ``local_dir`` has
            `LocalDirectoryImageProvider`.
        state_dir: The same.
        gpus: The same.
        _others: Parameters of other schedulers.
    """
    if image_provider_class is LocalDirectoryImageProvider:
        return create_dir_scheduler(session_name, extra_paths, state_dir=state_dir, gpus=gpus)
    return LocalScheduler(
        session_name, image_provider_class, cache_size, extra_paths, state_dir=state_dir, gpus=gpus
    )


create_cwd_scheduler = create_scheduler
"""The same, under TorchX's older name of it."""


def create_dir_scheduler(
    session_name: str,
    extra_paths: Sequence[str] | None = None,
    *,
    state_dir: str | None = None,
    gpus: tuple[str, ...] | None = None,
    **_others: object,
) -> LocalScheduler:
    """Return ``local_dir``: the image is a directory of this host."""
    return LocalDirScheduler(session_name, extra_paths, state_dir=state_dir, gpus=gpus)
