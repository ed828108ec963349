"""What an attachment is given: the request to submit, and the log in which it shows the app."""

from __future__ import annotations

from typing import Protocol

from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent
from torchx_core.specs import AppHandle

__all__ = ["Request", "TaskLog"]


class Request(Protocol):
    """What to submit."""

    @property
    def scheduler(self) -> str:
        """The scheduler's name."""
        ...

    @property
    def lease_s(self) -> float | None:
        """The lease the app will have."""
        ...

    def submit(self, runner: Runner, app_id: str) -> AppHandle:
        """Submit under that id."""
        ...


class TaskLog(Protocol):
    """Where the app's events are shown."""

    def write(self, event: AppEvent) -> None:
        """Show one event, or keep it for a while."""
        ...

    def tick(self) -> None:
        """Show what was kept, if that is due."""
        ...

    def say(self, message: str) -> None:
        """Show a message of our own."""
        ...
