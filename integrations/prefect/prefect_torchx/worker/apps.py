"""A worker's view of apps, from the event loop: looked at and stopped in threads of their own."""

from __future__ import annotations

from contextlib import suppress
from typing import final

from prefect_torchx.off_loop import in_daemon_thread
from torchx_core.errors import MalformedAppHandleException, NotFoundError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppStatus

__all__ = ["Apps"]


@final
class Apps:
    """The apps that can be seen from this host, whatever their session."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._runners: dict[str | None, Runner] = {}

    def runner(self, session: str | None = None) -> Runner:
        """Return the runner of a session; for looking at an app any will do."""
        if session not in self._runners:
            self._runners[session] = get_runner(session)
        return self._runners[session]

    async def status(self, handle: AppHandle) -> AppStatus | None:
        """Return the app's status; None when there is no such app."""
        return await in_daemon_thread(self.runner().status, handle)

    async def sees(self, handle: str) -> bool:
        """Return whether the app, or whatever a flow run has in its place, can be seen from here."""
        # NotFoundError: of a scheduler that only its worker's host has.
        with suppress(NotFoundError, MalformedAppHandleException):
            return await self.status(handle) is not None
        return False

    async def cancel(self, handle: AppHandle, reason: str, grace_s: float | None = None) -> None:
        """Ask for the app's end."""
        await in_daemon_thread(self.runner().cancel, handle, grace_s=grace_s, reason=reason)

    def close(self) -> None:
        """Release what the schedulers hold in this process; apps go on."""
        for runner in self._runners.values():
            runner.close()
