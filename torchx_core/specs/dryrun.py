"""The rendered request that a dry run shows and `schedule` submits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from torchx_core.specs.cfg_types import CfgVal

if TYPE_CHECKING:
    from torchx_core.specs.app import AppDef, Role  # which imports this module

__all__ = ["AppDryRunInfo"]

T = TypeVar("T")


class AppDryRunInfo(Generic[T]):
    """What would be submitted; ``print(info)`` shows it readably.

    Attributes:
        request: The scheduler's own request; may be changed before it is scheduled.
        app: The snapshot that the request was made from; None until the scheduler's dry run set it.
        cfg: The resolved run options.
        scheduler: The name of the scheduler that made the request.
        builds: The roles, as they were authored, whose workspace must be built before the request is
            submitted; `Runner.schedule` does so. In `app` such a role has the image that will come of it.
    """

    def __init__(self, request: T, fmt: Callable[[T], str]) -> None:
        """Keep the request, and the function that shows it to people."""
        self.request = request
        self.app: AppDef | None = None
        self.cfg: Mapping[str, CfgVal] = {}
        self.scheduler: str | None = None
        self.builds: list[Role] = []
        self._fmt = fmt

    @property
    def _app(self) -> AppDef | None:
        """`app`, by the name that TorchX had for it until 2026, as had `_cfg`; it still has `_scheduler`."""
        return self.app

    @_app.setter
    def _app(self, app: AppDef | None) -> None:
        self.app = app

    @property
    def _cfg(self) -> Mapping[str, CfgVal]:
        return self.cfg

    @_cfg.setter
    def _cfg(self, cfg: Mapping[str, CfgVal]) -> None:
        self.cfg = cfg

    @property
    def _scheduler(self) -> str | None:
        return self.scheduler

    @_scheduler.setter
    def _scheduler(self, scheduler: str | None) -> None:
        self.scheduler = scheduler

    def __repr__(self) -> str:
        """Return the request as its scheduler wants it shown."""
        return self._fmt(self.request)
