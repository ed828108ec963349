"""A worker's view of apps, from the event loop: looked at, followed and stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import final

from prefect_torchx.driver import ASYNC_BATCH_BYTES
from prefect_torchx.off_loop import in_daemon_thread
from torchx_core.errors import MalformedAppHandleException, NotFoundError, SchedulerError, UnknownAppException
from torchx_core.launch import Patience
from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import Batch, LogLines, StateChanged
from torchx_core.specs import AppHandle, AppStatus

__all__ = ["Apps", "Show", "follow_to_end"]

Show = Callable[[LogLines], None]

logger = logging.getLogger(__name__)


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


async def follow_to_end(runner: Runner, handle: AppHandle, show: Show | None = None) -> AppStatus | None:
    """Return how the app ended; None when there is no such app.

    Following renews the app's lease. A cancellation leaves the app alone.

    Args:
        runner: Any; the handle says scheduler and session.
        handle: The app.
        show: Takes what the app prints; None when nobody wants it, which is cheaper.

    Raises:
        SchedulerError: One that does not pass; while a scheduler is away this waits.
    """
    cursor: str | None = None
    patience = Patience(give_up_s=inf)
    status: AppStatus | None = None
    while True:
        try:
            # A far away scheduler is asked for the stream, and may be slow.
            batches = await in_daemon_thread(
                runner.afollow, handle, cursor, logs=show is not None, batch_bytes=ASYNC_BATCH_BYTES
            )
            async for batch in batches:
                cursor = batch.cursor
                patience.answered()
                status = _take(batch, show) or status
            return status or await in_daemon_thread(runner.status, handle)
        except UnknownAppException:
            return None
        except SchedulerError as err:
            delay_s = patience.delay_after(err)
            logger.warning("cannot follow %s, trying again in %.0f s: %s", handle, delay_s, err)
            await asyncio.sleep(delay_s)


def _take(batch: Batch, show: Show | None) -> AppStatus | None:
    status: AppStatus | None = None
    for event in batch.events:
        if show is not None and isinstance(event, LogLines):
            show(event)
        if isinstance(event, StateChanged):
            status = event.status
    return status
