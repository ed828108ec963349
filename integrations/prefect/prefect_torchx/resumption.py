"""What is left of one call's work with an app when it goes on elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from prefect_torchx.order import OnWorkerShutdown
from torchx_core.specs import AppHandle

__all__ = ["Resumption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """All that another process needs to go on with an app."""

    handle: AppHandle
    token: str | None = None
    """Of whoever attached to it; None to look on: an onlooker never cancels the app."""
    limit_bytes: int | None = None
    """How much of the app's output the log shows; None for all."""
    on_worker_shutdown: OnWorkerShutdown = "detach"
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """What to mask besides the app's secret variables."""
