"""TorchX's path of the local scheduler; what lies here is defined in `torchx_core.schedulers.local`."""

from __future__ import annotations

from dataclasses import dataclass

from torchx_core.schedulers.local import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalRequest,
    LocalScheduler,
    PopenRequest,
    ReplicaParam,
    create_cwd_scheduler,
    create_scheduler,
)
from torchx_core.schedulers.local.log_iterator import LogIterator
from torchx_core.schedulers.structured_opts import StructuredOpts

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalRequest",
    "LocalScheduler",
    "LogIterator",
    "Opts",
    "PopenRequest",
    "ReplicaParam",
    "create_cwd_scheduler",
    "create_scheduler",
]


@dataclass
class Opts(StructuredOpts):
    """The options of the local schedulers as fields, to submit with; None stands for the option's default.

    `LocalScheduler.run_opts` says what each means.

    Example:
        >>> Opts(log_dir="/tmp/logs")["log_dir"]
        '/tmp/logs'
    """

    log_dir: str | None = None
    prepend_cwd: bool | None = None
    auto_set_cuda_visible_devices: bool | None = None
    grace_s: float | None = None
    timeout_s: float | None = None
    deadline: float | None = None
    lease_s: float | None = None
    unsupported: str | None = None
    log_mode: str | None = None
    log_max_mb: int | None = None
    limits: str | None = None
    retention: str | None = None
