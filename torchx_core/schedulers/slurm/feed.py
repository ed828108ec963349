"""Follows one app over the shared file system; asks Slurm only what the files do not say."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from torchx_core.errors import UnknownAppException
from torchx_core.schedulers.events import AppEvent, Batch, ReplicaChanged, StateChanged
from torchx_core.schedulers.record_feed import RecordFeed
from torchx_core.schedulers.responses import FollowOptions
from torchx_core.schedulers.slurm.cursor import AppPlace, ReplicaPlace, decode_cursor, encode_cursor
from torchx_core.schedulers.slurm.decide import Decision
from torchx_core.schedulers.slurm.facts import Attempt, RunFile, find_attempt, read_stop
from torchx_core.schedulers.slurm.node.files import refresh
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.reconcile import exists, look
from torchx_core.schedulers.slurm.record import LEASE, NEVER_RENEWED, AppRecord, Planned
from torchx_core.schedulers.slurm.replica_log import new_reports, read_lines
from torchx_core.schedulers.slurm.view import Standing, replica_state
from torchx_core.schedulers.snapshot import put_in_place, replica_changed
from torchx_core.specs import AppState
from torchx_core.supervisor.reading import open_regular

__all__ = ["SlurmFeed"]

_SHORTEST_S, _LONGEST_S = 0.05, 1.0
"""How long the files are left alone: the longer the quieter the app is."""
_LOOK_EVERY_S = 1.0
"""How often it is asked whether the app is over, while nothing happens."""
_WAITING_LOOK_EVERY_S = 5.0
"""How often the files of an app that waits in the queue are read, if neither its directory nor what Slurm
says has changed."""
_CHANGES_FOR_S = 2.0
"""How long after a change of its directory another one may bear the same time: disks keep it coarsely."""
_RENEWALS_PER_LEASE = 4
_WAITS_FROM_S = 10.0
"""How long after its submit an app that has not begun is said to wait."""


class SlurmFeed(RecordFeed[AppRecord]):
    """One reader's place in one app's stream."""

    def __init__(
        self, record: AppRecord, app_handle: str, cursor: str | None, options: FollowOptions, queue: JobQueue
    ) -> None:
        """Read nothing yet.

        Raises:
            InvalidCursorError: The cursor is not one of this app's.
        """
        super().__init__(record)
        self._handle = app_handle
        self._returned = cursor
        self._start = encode_cursor(record.incarnation, AppPlace())
        self._place = AppPlace() if cursor is None else decode_cursor(cursor, record.incarnation)
        self._options = options
        self._queue = queue
        self._wanted = [
            (i, planned) for i, planned in enumerate(record.replicas) if options.wants_role(planned.role)
        ]
        self._in_parts = record.is_limited
        self._began = time.monotonic()
        self._quiet_s = _SHORTEST_S
        self._lease_s = record.lease_s if options.renew else None
        self._renew_at = 0.0
        self._look_at = self._look_anyway_at = 0.0
        self._changed: tuple[int, float] = -1, 0.0
        self._waiting_seen: tuple[int, float] | None = None
        self._joined = False

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return encode_cursor(self._record.incarnation, self._place)

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._place.done

    def _next(self) -> Batch | None:
        if not exists(self._record):
            raise UnknownAppException(self._handle)
        refresh(self._record.directory)
        self._join()
        self._renew()
        events = self._news(None) if self._place.begun or self._may_have_begun() else []
        if not self._has_moved(events) and self._reconcile_is_due():
            events = self._last_news()
        if not self._has_moved(events):
            self._quiet_s = min(1.5 * self._quiet_s, _LONGEST_S)
            return None
        self._quiet_s = _SHORTEST_S
        self._returned = self.cursor
        return Batch(events=tuple(events), cursor=self._returned)

    def _has_moved(self, events: list[AppEvent]) -> bool:
        """Return whether there was anything: a megabyte of the stream that nobody wants makes no event."""
        if events or not self._place.begun:
            return bool(events)
        return self.cursor != (self._returned or self._start)

    def _start_over(self) -> None:
        cursor = self._returned
        self._place = AppPlace() if cursor is None else decode_cursor(cursor, self._record.incarnation)

    def _wait(self, timeout_s: float | None) -> None:
        """Leave the files alone for a while."""
        time.sleep(self._patience(timeout_s))  # noqa: TID251  (nothing tells of news on a shared file system)

    async def _wait_async(self, timeout_s: float | None) -> None:
        """Leave the files alone for a while, on the event loop."""
        await asyncio.sleep(self._patience(timeout_s))

    def close(self) -> None:
        """Ask Slurm nothing more."""
        if self._joined:
            self._joined = False
            self._queue.leave()

    def _join(self) -> None:
        if not self._joined:
            self._joined = True
            self._queue.join()

    def _patience(self, timeout_s: float | None) -> float:
        return self._quiet_s if timeout_s is None else min(timeout_s, self._quiet_s)

    def _may_have_begun(self) -> bool:
        """Return whether to read an app's files that has not begun: not while its directory is as it was."""
        now = time.monotonic()
        changed_ns, since = _changed_ns(self._record), self._changed[1]
        if changed_ns != self._changed[0]:
            since = now
        self._changed = changed_ns, since
        return now < since + _CHANGES_FOR_S or now >= self._look_anyway_at

    def _reconcile_is_due(self) -> bool:
        """Return whether to ask if the app is over: of what an app that waits needs, that takes longest."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + min(self._quiet_s, _LOOK_EVERY_S)
        if not self._place.begun:
            seen = self._changed[0], self._queue.poll().asked_at
            if seen == self._waiting_seen and now < self._look_anyway_at:
                return False
            self._waiting_seen, self._look_anyway_at = seen, now + _WAITING_LOOK_EVERY_S
        return True

    def _last_news(self) -> list[AppEvent]:
        """Return what comes once the app is over: the rest of its output, then its end."""
        decision, standing = look(self._record, self._queue, asked_after=self._began)
        if standing is None or standing.ended_at is None:
            return list(self._waiting(decision))
        events = self._news(standing)
        if self._has_moved(events):
            return events  # perhaps not all of it: one batch after the other
        self._place.done = True
        last = StateChanged(
            state=standing.state, time=standing.ended_at, msg=standing.status.msg, status=standing.status
        )
        return [last]

    def _waiting(self, decision: Decision) -> Iterator[AppEvent]:
        """Say once why an app waits in the queue, unless it is about to begin."""
        place = self._place
        if place.begun or place.waited or decision.state is not AppState.PENDING or not decision.msg:
            return
        if time.time() >= self._record.created_at + _WAITS_FROM_S:
            place.waited = True
            yield StateChanged(state=AppState.PENDING, time=time.time(), msg=decision.msg)

    def _news(self, over: Standing | None) -> list[AppEvent]:
        """Return what is new; once the app is over also the end of those whose end nobody saw."""
        begun: list[AppEvent] = []
        if not self._place.begun:
            run = self._record.read("run.0.json", RunFile)
            if run is None:
                return []
            self._place.begun = True
            begun = [StateChanged(state=AppState.RUNNING, time=run.time)]
        events: list[AppEvent] = []
        for index, planned in self._wanted:
            place = self._place.replicas.setdefault(index, ReplicaPlace())
            events += self._news_of(planned, place, over.attempts[index] if over else None)
        self._put_stop(events, over)
        return [*begun, *events]

    def _put_stop(self, events: list[AppEvent], over: Standing | None) -> None:
        """Say once among the events why the app ends, where that is no failure of its own."""
        if self._place.stopping or (over is not None and over.state is not AppState.CANCELLED):
            return
        stop = read_stop(self._record)
        if stop is not None and stop.outcome == AppState.CANCELLED.name:
            change = StateChanged(state=AppState.RUNNING, time=stop.time, msg=f"stopping: {stop.msg}")
            self._place.stopping = put_in_place(change, events)

    def _news_of(
        self, planned: Planned, place: ReplicaPlace, known: list[Attempt] | None
    ) -> Iterator[AppEvent]:
        while True:
            attempt = _find(known, planned, place.attempt)
            if attempt is None:
                return
            if not place.started:
                place.attempt, place.started = attempt.number, True
                yield _changed(planned, attempt, AppState.RUNNING, attempt.started_at)
            later = _find(known, planned, place.attempt + 1, attempt.run)
            closed = attempt.code is not None or later or known is not None  # asked before its output is read
            before = place.runs, place.reports
            yield from self._output(planned, place, attempt, closed=bool(closed))
            if not closed or (place.runs, place.reports) != before:
                return
            if not place.ended:
                place.ended = True
                yield _end(planned, attempt)
            if later is None:
                return
            self._place_at(place, later.number)

    @staticmethod
    def _place_at(place: ReplicaPlace, number: int) -> None:
        place.attempt = number
        place.started = place.ended = False
        place.runs = place.offset = place.reports = 0

    def _output(
        self, planned: Planned, place: ReplicaPlace, attempt: Attempt, *, closed: bool
    ) -> Iterator[AppEvent]:
        if self._options.logs:
            streams, most = self._options.streams, self._options.batch_bytes
            yield from read_lines(planned, place, streams, most, in_parts=self._in_parts, closed=closed)
        yield from new_reports(planned, place, attempt.started_at, closed=closed)

    def _renew(self) -> None:
        if self._lease_s is None or time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + self._lease_s / _RENEWALS_PER_LEASE
        self._count_renewals()
        with suppress(FileNotFoundError):  # it was deleted
            fd = open_regular(self._record.path(LEASE), os.O_RDWR)
            try:  # in place: a full disk has room
                os.pwrite(fd, os.urandom(len(NEVER_RENEWED) // 2).hex().encode(), 0)
            finally:
                os.close(fd)


def _find(known: list[Attempt] | None, planned: Planned, number: int, run: int = 0) -> Attempt | None:
    """Return the first attempt from this number on: as it is now, or as the app's last record has it."""
    if known is None:
        return find_attempt(planned.log_dir, number, run)
    return next((attempt for attempt in known if attempt.number >= number), None)


def _changed(
    planned: Planned, attempt: Attempt, state: AppState, at: float, code: int | None = None
) -> ReplicaChanged:
    return replica_changed(planned.role, planned.replica, attempt.number, state, at, code)


def _end(planned: Planned, attempt: Attempt) -> ReplicaChanged:
    state = replica_state(attempt, over=True)
    at = attempt.started_at if attempt.ended_at is None else attempt.ended_at
    return _changed(planned, attempt, state, at, attempt.code)


def _changed_ns(record: AppRecord) -> int:
    """Return when a file last came into the app's directory, or left it; 0 where there is no directory."""
    try:
        return os.stat(record.directory).st_mtime_ns
    except FileNotFoundError:
        return 0
