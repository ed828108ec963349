"""One look at an app, as the events that a reader has not seen yet."""

from __future__ import annotations

from typing import NamedTuple

from torchx_core.compat.backend import Backend, LogsUnavailableError
from torchx_core.compat.cursor import Place
from torchx_core.compat.records import Record, number
from torchx_core.compat.view import Known, cancel_reason, look
from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.schedulers import (
    AppEvent,
    FollowOptions,
    LogLines,
    LogsLost,
    ReplicaChanged,
    StateChanged,
    Stream,
)
from torchx_core.schedulers.events import StreamName
from torchx_core.specs import AppState, ReplicaStatus, is_terminal

__all__ = ["Polled", "Poller"]

_TRIES = 5
"""How often the log of a replica that has ended is asked for before it counts as lost."""


class Polled(NamedTuple):
    """What one look found, and the place after it."""

    events: tuple[AppEvent, ...]
    place: Place
    more: bool
    """Whether another look would find more at once."""


class _Read(NamedTuple):
    events: list[AppEvent]
    drained: bool
    """Whether nothing will come any more from a replica that has ended."""


class Poller:
    """Looks at one app for one reader; one look at a time."""

    def __init__(self, handle: str, record: Record, backend: Backend, options: FollowOptions) -> None:
        self._handle = handle
        self._record = record
        self._backend = backend
        self._options = options
        self._failures: dict[str, int] = {}
        self._more = False

    def __call__(self, place: Place) -> Polled:
        """Return what is new since the place.

        Raises:
            UnknownAppException: The app was deleted.
            SchedulerError: The backend cannot be asked, or has no trace of the app (Slurm's accounting lags).
        """
        if self._record.get("asked") is None:
            raise UnknownAppException(self._handle)
        known = look(self._record, self._backend)
        if known is None:
            raise SchedulerError(f"{self._backend.name} has no trace of {self._handle}", retryable=True)
        after = place.copy()
        events = self._beginning(known, after)
        self._more = False
        for replica in self._wanted(known):
            events += self._of_replica(known, replica, after)
        events += self._stopping(known, after)
        return Polled((*events, *self._end(known, after)), after, self._more)

    def _beginning(self, known: Known, place: Place) -> list[AppEvent]:
        if known.running_at is None or not _is_first(place, "running"):
            return []
        return [StateChanged(state=AppState.RUNNING, time=known.running_at)]

    def _stopping(self, known: Known, place: Place) -> list[AppEvent]:
        """Say once why an app is to end, after what it had printed by then."""
        cancel_request = None if known.running_at is None or self._more else self._record.get("cancel")
        if cancel_request is None or not _is_first(place, "stopping"):
            return []
        msg = f"stopping: {cancel_reason(cancel_request)}"
        return [StateChanged(state=AppState.RUNNING, time=number(cancel_request, "at"), msg=msg)]

    def _end(self, known: Known, place: Place) -> list[AppEvent]:
        told = all(_ended(replica) in place.told for replica in self._wanted(known))
        if known.ended_at is None or not told or not _is_first(place, "end"):
            return []
        status = known.status
        return [StateChanged(state=status.state, time=known.ended_at, msg=status.msg, status=status)]

    def _wanted(self, known: Known) -> list[ReplicaStatus]:
        """Return the replicas that the reader wants; none of an app that never ran."""
        wanted = [role for role in known.status.roles if self._options.wants_role(role.role)]
        return [] if known.running_at is None else [replica for role in wanted for replica in role.replicas]

    def _of_replica(self, known: Known, replica: ReplicaStatus, place: Place) -> list[AppEvent]:
        if _ended(replica) in place.told:
            return []
        events: list[AppEvent] = []
        if _is_first(place, f"started.{replica.role}.{replica.id}"):
            events.append(_changed(replica, AppState.RUNNING, known.running_at))
        reads = [self._read(known, replica, stream, place) for stream in self._streams()]
        for read in reads:
            events += read.events
        if is_terminal(replica.state) and all(read.drained for read in reads):
            place.told.add(_ended(replica))
            events.append(_changed(replica, replica.state, replica.ended_at))
        return events

    def _streams(self) -> tuple[StreamName, ...]:
        if not self._options.logs:
            return ()
        return tuple(
            s for s in self._backend.streams if self._options.streams in (Stream.COMBINED, Stream(s))
        )

    def _read(self, known: Known, replica: ReplicaStatus, stream: StreamName, place: Place) -> _Read:
        log = f"{replica.role}.{replica.id}.{stream}"
        ended = is_terminal(replica.state)
        position = place.logs.get(log, 0)
        try:
            lines = self._backend.read(
                known.native_id, (replica.role, replica.id), stream, position, ended=ended
            )
        except LogsUnavailableError as err:
            self._failures[log] = self._failures.get(log, 0) + ended
            given_up = self._failures[log] >= _TRIES
            return _Read([_lost(replica, str(err))] if given_up else [], given_up)
        place.logs[log] = lines.position
        self._more = self._more or lines.more
        # no scheduler of TorchX tells when a line was written: all bear the time of the submit
        at = number(self._record.asked, "created_at")
        event = LogLines(replica.role, replica.id, 0, stream, lines.texts, at, lines.eol)
        return _Read([event] if lines.texts else [], not lines.more)


def _is_first(place: Place, event: str) -> bool:
    """Return whether the event is still to be told, and take it as told."""
    if event in place.told:
        return False
    place.told.add(event)
    return True


def _ended(replica: ReplicaStatus) -> str:
    return f"ended.{replica.role}.{replica.id}"


def _changed(replica: ReplicaStatus, state: AppState, at: float | None) -> ReplicaChanged:
    over = is_terminal(state)
    return ReplicaChanged(
        role=replica.role,
        replica=replica.id,
        attempt=0,
        state=state,
        time=at or 0.0,
        exit_code=replica.exit_code if over else None,
        signal=replica.signal if over else None,
    )


def _lost(replica: ReplicaStatus, reason: str) -> LogsLost:
    at = replica.ended_at or 0.0
    return LogsLost(role=replica.role, replica=replica.id, attempt=0, size_bytes=None, reason=reason, time=at)
