"""What is left of one call's work with an app when it goes on elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from prefect_torchx.order import OnWorkerShutdown
from torchx_core.specs import AppHandle, AppStatus

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
    ended: AppStatus | None = None
    """How the app ended, where it is on a host whose apps are not seen on every other; else None."""

    def __setstate__(self, values: Sequence[object]) -> None:
        """Read what a task has returned, perhaps under an older release, which had not all of the fields."""
        for each in fields(self):
            object.__setattr__(self, each.name, each.default)
        for each, value in zip(fields(self), values, strict=False):
            object.__setattr__(self, each.name, value)
