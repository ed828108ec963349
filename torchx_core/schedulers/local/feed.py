"""Follows one local app: a place in its timeline, and what to do when nothing more comes."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from torchx_core.errors import UnknownAppException
from torchx_core.schedulers import AppEvent, Batch, FollowOptions, LogsLost, StateChanged
from torchx_core.schedulers.cursors import seal, unseal
from torchx_core.schedulers.local.cancelling import wake
from torchx_core.schedulers.local.inotify import InotifyPool
from torchx_core.schedulers.local.liveness import is_served, reconcile
from torchx_core.schedulers.local.notifier import Notifier
from torchx_core.schedulers.local.reader import TimelineReader
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.timeline_file import TimelineFile
from torchx_core.schedulers.local.view import app_state, status
from torchx_core.schedulers.record_feed import RecordFeed
from torchx_core.supervisor import machine, timeline
from torchx_core.supervisor.closing import unclosed_attempts
from torchx_core.supervisor.reading import DamagedFile, is_damage, is_there
from torchx_core.supervisor.records import ALIVE, CANCEL, RENEW, SPEC, TIMELINE

if TYPE_CHECKING:
    from torchx_core.schedulers.local.async_notifier import AsyncNotifier

__all__ = ["LocalFeed", "decode_cursor", "encode_cursor"]

_RENEWALS_PER_LEASE = 4

_IDLE_LOOK_S = 10.0
"""How often to look without a notification: a stopped supervisor notifies nobody."""
_CANCEL_LOOK_S = 1.0
_VERSION = 1
DONE = -1
"""The place after the terminal event."""


class LocalFeed(RecordFeed[AppRecord]):
    """One reader's place in one app's stream."""

    def __init__(
        self,
        record: AppRecord,
        app_handle: str,
        cursor: str | None,
        options: FollowOptions,
        pool: InotifyPool,
    ) -> None:
        """Hold nothing yet: a stream may never be read, and then nobody closes it.

        Raises:
            InvalidCursorError: The cursor is not one of this app's.
        """
        super().__init__(record)
        self._handle = app_handle
        self._at = self._began_at = 0 if cursor is None else decode_cursor(cursor, record.incarnation)
        self._reader = TimelineReader(record, options)
        self._options = options
        self._pool = pool
        self._alive = -1
        self._timeline: TimelineFile | None = None
        self._notifier: Notifier | None = None
        self._async_notifier: AsyncNotifier | None = None
        self._lease_s = record.plan.lease_s if options.renew else None
        self._renew_at = 0.0
        self._cancelled = False

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return encode_cursor(self._record.incarnation, self._at)

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._at == DONE

    def _next(self) -> Batch | None:
        self._began_at = self._at
        line = self._open()
        self._renew()
        while True:
            served = is_served(self._record)  # asked first: what a dead supervisor wrote is all there now
            stretch = line.read(self._at, self._options.batch_bytes if self._options.logs else None)
            if stretch.end == self._at:
                if not served:
                    return self._end(lost=True)
                self._mind_the_cancel()
                return None
            texts = self._reader.texts(stretch.entries)
            if not line.is_current(stretch):
                continue
            events = list(self._reader.events(stretch.entries, texts))
            self._check_incarnation(line)
            self._at = stretch.end
            if stretch.entries and stretch.entries[-1].kind == timeline.END:
                return self._end(*events)
            self._reset_notifiers()
            if events:
                return Batch(events=tuple(events), cursor=self.cursor)

    def _start_over(self) -> None:
        self.close()
        self._at = self._began_at
        self._reader = TimelineReader(self._record, self._options)

    def _open(self) -> TimelineFile:
        if self._timeline is not None:
            return self._timeline
        try:
            if self._alive < 0:
                self._alive = _open_fifo(self._record.path(ALIVE))
            self._timeline = TimelineFile(self._record)
        except FileNotFoundError as err:
            if is_there(self._record.path(SPEC)):
                raise DamagedFile(str(err.filename), "is missing") from err
            raise UnknownAppException(self._handle) from err
        return self._timeline

    def _mind_the_cancel(self) -> None:
        """Use the pause to see that a cancel which the supervisor does not serve is carried out."""
        self._cancelled = is_there(self._record.path(CANCEL))
        if self._cancelled:
            self._reconcile()

    def _reconcile(self) -> machine.State:
        """Return the app's true state; somebody may delete it meanwhile."""
        try:
            return reconcile(self._record)
        except FileNotFoundError as err:
            if is_there(self._record.directory):
                raise
            raise UnknownAppException(self._handle) from err

    def _check_incarnation(self, line: TimelineFile) -> None:
        """Raise when what was just read may be another app's: ours was deleted, and its id submitted again.

        Checked afterwards: our timeline, which is open, keeps its inode's number from being used again.
        """
        try:
            present = os.stat(self._record.path(TIMELINE))
        except FileNotFoundError:
            return  # deleted, which is found where it matters
        if not line.is_at(present):
            raise UnknownAppException(self._handle)

    def _end(self, *events: AppEvent, lost: bool = False) -> Batch | None:
        """Return the terminal batch; the supervisor said that this is the end, or is gone."""
        if not is_there(self._record.directory):
            raise UnknownAppException(self._handle)
        state = self._reconcile()
        self._check_incarnation(self._open())
        if state.phase != machine.ENDED:
            return None  # somebody started the app a moment ago
        self._at = DONE
        at = state.ended_at or time.time()
        gaps = self._gaps(state, at) if lost else []
        last = StateChanged(
            state=app_state(state), time=at, msg=state.msg, status=status(self._record, state)
        )
        return Batch(events=(*events, *gaps, last), cursor=self.cursor)

    def _gaps(self, state: machine.State, at: float) -> list[AppEvent]:
        """Say whose last output may be missing: what a dead supervisor had not written yet."""
        reason = "its supervisor died; what it had not written yet is lost"
        unclosed = unclosed_attempts(self._record.directory, state)
        return [
            LogsLost(role=r.role, replica=r.replica_id, attempt=n, size_bytes=None, reason=reason, time=at)
            for r, n in ((state.replicas[index], number) for index, number in unclosed)
            if self._options.wants_role(r.role)
        ]

    def _wait(self, timeout_s: float | None) -> None:
        if self._notifier is None:
            # What was written before the watch began notifies nobody: look once more first.
            self._notifier = Notifier(self._record.path(TIMELINE), self._alive, self._pool)
            return
        self._notifier.wait(self._patience(timeout_s))

    async def _wait_async(self, timeout_s: float | None) -> None:
        if self._async_notifier is None:
            from torchx_core.schedulers.local.async_notifier import AsyncNotifier  # imports asyncio

            self._async_notifier = AsyncNotifier(self._record.path(TIMELINE), self._alive, self._pool)
            return
        await self._async_notifier.wait(self._patience(timeout_s))

    def _patience(self, timeout_s: float | None) -> float:
        longest = _CANCEL_LOOK_S if self._cancelled else _IDLE_LOOK_S
        if self._lease_s is not None:
            longest = min(longest, max(0.0, self._renew_at - time.monotonic()))
        return longest if timeout_s is None else min(timeout_s, longest)

    def _renew(self) -> None:
        if self._lease_s is None or time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + self._lease_s / _RENEWALS_PER_LEASE
        self._count_renewals()
        wake(self._record, RENEW)

    def _reset_notifiers(self) -> None:
        for notifier in (self._notifier, self._async_notifier):
            if notifier is not None:
                notifier.reset()

    def close(self) -> None:
        """Let go."""
        for notifier in (self._notifier, self._async_notifier):
            if notifier is not None:
                notifier.close()
        self._notifier = self._async_notifier = None
        if self._alive >= 0:
            os.close(self._alive)
        if self._timeline is not None:
            self._timeline.close()
        self._alive, self._timeline = -1, None


def _open_fifo(path: str) -> int:
    """Return a descriptor of the pipe that hangs up with its last writer."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as err:
        if not is_damage(err):
            raise
        raise DamagedFile(path, f"cannot be opened: {err.strerror}") from err
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedFile(path, "is no FIFO")
    return fd


def encode_cursor(incarnation: str, at: int) -> str:
    """Return the cursor of a place in the timeline of one app."""
    return seal(at, app=incarnation, version=_VERSION)


def decode_cursor(cursor: str, incarnation: str) -> int:
    """Return the place.

    Raises:
        InvalidCursorError: It is no cursor, or another app's.
    """
    return unseal(cursor, _between_events, app=incarnation, version=_VERSION)


def _between_events(at: object) -> int:
    if not isinstance(at, int) or at < DONE or (at != DONE and at % timeline.SIZE):
        raise ValueError(at)
    return at
