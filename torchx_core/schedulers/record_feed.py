"""What feeds share that read an app's files: patience with a file system that does not answer for a while."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Final, Generic, TypeVar, final

from torchx_core.errors import RecordUnavailableError
from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.feed import EventFeed
from torchx_core.schedulers.stored import StoredApp

__all__ = ["RecordFeed"]

R = TypeVar("R", bound=StoredApp)

_PATIENCE_S: Final = 60.0
"""How long the files may be away before following ends with the error; its caller may have more patience."""
_PAUSE_S: Final = 1.0


class RecordFeed(EventFeed, Generic[R]):
    """One reader's place in one app's stream, read from the app's files."""

    def __init__(self, record: R) -> None:
        """Read nothing yet."""
        self._record = record
        self._failing_since: float | None = None
        self._retry_at = 0.0

    @property
    def caught_up(self) -> bool:
        """Whether the files could be read when they were last asked."""
        return self._failing_since is None

    @final
    def poll(self) -> Batch | None:
        """Return the next events, or None; also while the files cannot be read, for a minute at most.

        Raises:
            CorruptRecordError: The app's files cannot say.
            RecordUnavailableError: They could not be read for longer than that.
        """
        if self.done or time.monotonic() < self._retry_at:
            return None
        try:
            with self._record.naming_damage():
                batch = self._next()
        except RecordUnavailableError as err:
            self._take_failure(err)
            return None
        self._failing_since = None
        return batch

    def _take_failure(self, error: RecordUnavailableError) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            import logging  # here: a program that shows a status or a log has no need of it otherwise

            logger = logging.getLogger(__name__)
            logger.warning("following goes on when the files can be read again: %s", error)
            self._failing_since = now
        if not error.retryable or now - self._failing_since > _PATIENCE_S:
            raise error
        self._retry_at = now + _PAUSE_S
        self._start_over()

    @abstractmethod
    def _next(self) -> Batch | None:
        """Do what `poll` does, once."""

    @abstractmethod
    def _start_over(self) -> None:
        """Go back to the place right after the last batch, and close what may be an old file."""

    @final
    def wait(self, timeout_s: float | None) -> None:
        """Block until there may be more."""
        if self._failing_since is None:
            self._wait(timeout_s)
        else:
            time.sleep(self._pause(timeout_s))  # noqa: TID251  # nothing tells that the files are back

    @final
    async def wait_async(self, timeout_s: float | None) -> None:
        """Wait on the event loop until there may be more."""
        if self._failing_since is None:
            await self._wait_async(timeout_s)
            return
        import asyncio  # here: most followers need no event loop

        await asyncio.sleep(self._pause(timeout_s))

    def _pause(self, timeout_s: float | None) -> float:
        left_s = max(0.0, self._retry_at - time.monotonic())
        return left_s if timeout_s is None else min(timeout_s, left_s)

    @abstractmethod
    def _wait(self, timeout_s: float | None) -> None:
        """Do what `wait` does while the files can be read."""

    @abstractmethod
    async def _wait_async(self, timeout_s: float | None) -> None:
        """Do what `wait_async` does while the files can be read."""
