"""Follows one app: tells what the watch sees, and each replica's lines and reports, in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

from torchx_core.schedulers import AppEvent, Batch, EventFeed, FollowOptions, LogLines, LogsLost
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.cursor import AppPlace, ReplicaPlace, decode_cursor, encode_cursor
from torchx_core.schedulers.docker.exchange import Exchange
from torchx_core.schedulers.docker.frames import STDOUT, to_seconds
from torchx_core.schedulers.docker.history import app_history, attempts_begun, last_word, replica_history
from torchx_core.schedulers.docker.labels import of_app
from torchx_core.schedulers.docker.lines import Run
from torchx_core.schedulers.docker.log import ReplicaLog
from torchx_core.schedulers.docker.notifier import (
    EventStream,
    LoopNotifier,
    Notifier,
    wait_for,
    wait_for_async,
)
from torchx_core.schedulers.docker.records import AppRecord
from torchx_core.schedulers.docker.view import AppView, Phase, ReplicaView
from torchx_core.schedulers.docker.watch import Watch
from torchx_core.schedulers.reports import read_reports
from torchx_core.schedulers.snapshot import put_in_place
from torchx_core.specs import AppState

__all__ = ["DockerFeed"]

_LONGEST_S = 3600.0


class DockerFeed(EventFeed):
    """One reader's place in one app's stream.

    Nothing here waits for the engine, so a `poll` that returns None may only mean that the answers are under
    way: `caught_up` tells. While the engine is away the feed keeps trying; the app goes on meanwhile.
    """

    def __init__(
        self,
        engine: Engine,
        app: AppRecord,
        app_handle: str,
        cursor: str | None,
        options: FollowOptions,
        notifier: Notifier,
    ) -> None:
        """Hold nothing yet: a stream may never be read, and then nobody closes it.

        Raises:
            InvalidCursorError: The cursor is not one of this app's.
        """
        self._engine = engine
        self._app = app
        self._place = AppPlace() if cursor is None else decode_cursor(cursor, app.nonce)
        self._options = options
        self._notifier = notifier
        self._watch = Watch(engine, app, app_handle, renew=options.renew)
        self._logs: dict[int, ReplicaLog] = {}
        self._stream: EventStream | None = None
        self._loop_notifier: LoopNotifier | None = None
        self._rung: asyncio.Future[None] | None = None
        self._budget = 0

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return encode_cursor(self._app.nonce, self._place)

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._place.done

    @property
    def caught_up(self) -> bool:
        """Whether everything has been returned that was there when this reader came."""
        view = self._watch.view
        if view is None or not self._watch.reports_complete:
            return False
        return all(self._log_of(r).caught_up for r in self._wanted(view) if self._has_log(view, r))

    def poll(self) -> Batch | None:
        """Return the next events, or None."""
        if self.done:
            return None
        now = time.monotonic()
        if self._stream is not None and self._stream.advance(now):
            self._watch.ring()
        if self._watch.advance(now):
            self._mind_logs()
        self._count_renewals(self._watch.renewals - self.renewals)
        view = self._watch.view
        if view is None:
            return None
        self._budget = self._options.batch_bytes
        events = list(self._tell(view, now))
        return Batch(events=tuple(events), cursor=self.cursor) if events else None

    # --- telling

    def _tell(self, view: AppView, now: float) -> Iterator[AppEvent]:
        history = app_history(view)
        if history and not self._place.changes:
            self._place.changes = 1
            yield history[0]
        settled = True
        events: list[AppEvent] = []
        for replica in self._wanted(view):
            place = self._place.replicas.setdefault(replica.planned.index, ReplicaPlace())
            events += self._tell_replica(view, replica, place, now)
            settled = settled and self._is_told(view, replica, place)
        ends = view.over and settled
        if events or ends or self.caught_up:  # else the log may be on its way
            for change in history[self._place.changes :]:
                self._place.changes += put_in_place(change, events)
        yield from events
        if ends and self._place.changes >= len(history):
            self._place = AppPlace(done=True)
            yield last_word(view)

    def _tell_replica(
        self, view: AppView, replica: ReplicaView, place: ReplicaPlace, now: float
    ) -> Iterator[AppEvent]:
        """Tell starts and ends, and between them what each attempt printed and reported."""
        yield from self._lines(view, replica, place, now)
        for change in replica_history(view, replica)[place.changes :]:
            if change.state is not AppState.RUNNING:
                if not self._all_printed(view, replica, change.attempt) or not self._watch.reports_complete:
                    break
                yield from self._reports(replica, place, change.attempt, ended=True)
                place.reports = 0
            place.changes += 1
            yield change
            yield from self._lines(view, replica, place, now)
        if place.changes % 2:
            yield from self._reports(replica, place, self._last_begun(view, replica, place), ended=False)

    @staticmethod
    def _last_begun(view: AppView, replica: ReplicaView, place: ReplicaPlace) -> int:
        history = replica_history(view, replica)  # shorter than what was told, once the container is gone
        return history[min(place.changes, len(history)) - 1].attempt if history else 0

    def _lines(
        self, view: AppView, replica: ReplicaView, place: ReplicaPlace, now: float
    ) -> Iterator[LogLines | LogsLost]:
        if not self._has_log(view, replica):
            return
        log = self._log_of(replica)
        log.advance(now)
        runs = log.take(self._attempt_told(view, replica, place), self._budget)
        if log.wants_look:
            log.wants_look = False
            self._watch.ring()
        planned = replica.planned
        for reason in log.lost:
            yield LogsLost(
                role=planned.role,
                replica=planned.replica,
                attempt=log.attempt,
                size_bytes=None,
                reason=reason,
                time=time.time(),
            )
        log.lost.clear()
        if runs:
            self._watch.heard()
        for run in runs:
            yield _event(planned.role, planned.replica, run)
        place.log = log.place

    def _attempt_told(self, view: AppView, replica: ReplicaView, place: ReplicaPlace) -> int:
        """Return the last attempt of which the start was told: lines follow it."""
        return self._last_begun(view, replica, place) if place.changes else -1

    def _reports(
        self, replica: ReplicaView, place: ReplicaPlace, attempt: int, *, ended: bool
    ) -> Iterator[AppEvent]:
        lines = self._watch.reports.get((replica.planned.index, attempt), [])
        whole = len(lines) if ended else len(lines) - 1  # the last one may be half written
        new = lines[place.reports : max(place.reports, whole)]
        place.reports += len(new)
        begun = next((a.started_at for a in replica.attempts if a.number == attempt), None)
        planned = replica.planned
        yield from read_reports(new, planned.role, planned.replica, attempt, begun or 0.0)

    def _all_printed(self, view: AppView, replica: ReplicaView, attempt: int) -> bool:
        return not self._has_log(view, replica) or self._log_of(replica).passed(attempt)

    def _is_told(self, view: AppView, replica: ReplicaView, place: ReplicaPlace) -> bool:
        """Return whether there is nothing left to tell of a replica of an app that is over."""
        printed = not self._has_log(view, replica) or self._log_of(replica).drained
        return printed and place.changes >= len(replica_history(view, replica))

    # --- logs

    def _wanted(self, view: AppView) -> Iterator[ReplicaView]:
        return (r for r in view.replicas if self._options.wants_role(r.planned.role))

    def _has_log(self, view: AppView, replica: ReplicaView) -> bool:
        begun = attempts_begun(view, replica) > 0 or replica.planned.index in self._logs
        return self._options.logs and begun

    def _log_of(self, replica: ReplicaView) -> ReplicaLog:
        index = replica.planned.index
        if index not in self._logs:
            place = self._place.replicas.get(index, ReplicaPlace())
            log = self._logs[index] = ReplicaLog(
                self._engine.endpoint,
                self._notifier.version,
                container=replica.container or replica.planned.container,
                key=self._app.key if self._app.has_shim else None,
                streams=self._options.streams,
                place=place.log,
            )
            view = self._watch.view
            if view is not None:
                _mind(log, view, replica)
        return self._logs[index]

    def _mind_logs(self) -> None:
        view = self._watch.view
        if view is None:
            return
        for replica in view.replicas:
            log = self._logs.get(replica.planned.index)
            if log is not None:
                _mind(log, view, replica)

    # --- waiting

    def wait(self, timeout_s: float | None) -> None:
        """Block until there may be more."""
        if self._watch.due is not None:
            self._watch.act()
            return
        if self._stream is None:
            self._stream = EventStream(self._engine.endpoint, self._notifier.version, of_app(self._app.key))
            if self._stream.advance(time.monotonic()):
                self._watch.ring()
        stream = [self._stream.exchange] if self._stream.exchange is not None else []
        wait_for([*self._exchanges(), *stream], self._patience(timeout_s, self._stream))

    async def wait_async(self, timeout_s: float | None) -> None:
        """Wait on the event loop until there may be more; what is due is done in a thread for so long."""
        if self._watch.due is not None:
            await asyncio.to_thread(self._watch.act)
            return
        if self._loop_notifier is None or self._loop_notifier.closed:
            self._loop_notifier = self._notifier.join(self._app.key, self._ring)
        self._rung = asyncio.get_running_loop().create_future()
        try:
            await wait_for_async(self._exchanges(), self._rung, self._patience(timeout_s, None))
        finally:
            self._rung = None

    def _ring(self) -> None:
        self._watch.ring()
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    def _exchanges(self) -> Iterator[Exchange]:
        yield from self._watch.exchanges
        for log in self._logs.values():
            if log.exchange is not None:
                yield log.exchange

    def _patience(self, timeout_s: float | None, stream: EventStream | None) -> float:
        """Return how long to wait at most."""
        times = [self._watch.due_at]
        times += [log.due_at for log in self._logs.values() if log.waits_for_time]
        if stream is not None and stream.exchange is None:
            times.append(stream.due_at)
        longest = min(max(0.0, min(times) - time.monotonic()), _LONGEST_S)
        return longest if timeout_s is None else min(timeout_s, longest)

    def close(self) -> None:
        """Let go."""
        self._watch.close()
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._loop_notifier is not None:
            self._loop_notifier.leave(self._app.key, self._ring)
            self._loop_notifier = None


def _mind(log: ReplicaLog, view: AppView, replica: ReplicaView) -> None:
    up = not view.over and replica.phase in {Phase.UP, Phase.AGAIN}
    log.mind(up=up, starts=attempts_begun(view, replica))


_NAMES: dict[bool, Literal["stdout", "stderr"]] = {True: "stdout", False: "stderr"}


def _event(role: str, replica: int, run: Run) -> LogLines:
    text = b"\n".join(run.lines).decode("utf-8", "replace")
    name = _NAMES[run.stream == STDOUT]
    return LogLines(role, replica, run.attempt, name, tuple(text.split("\n")), to_seconds(run.stamp), run.eol)
