"""What a stream says of an app, read from how it stands; pure.

The more is known the longer the history gets, and its beginning stays: so the number of things said is a
place in it, and whoever reads it later reads what was told live.
"""

from __future__ import annotations

from typing import cast

from torchx_core.schedulers.docker.answers import Json
from torchx_core.schedulers.docker.content import Stop, stop
from torchx_core.schedulers.docker.view import AppView, Phase, ReplicaView, status
from torchx_core.schedulers.docker.volume_state import Attempt
from torchx_core.schedulers.events import ReplicaChanged, StateChanged
from torchx_core.schedulers.snapshot import replica_changed
from torchx_core.specs import AppState

__all__ = ["app_history", "attempts_begun", "last_word", "replica_history"]


def app_history(view: AppView) -> list[StateChanged]:
    """Return the changes of the app's state, without its end."""
    begun_at = view.records.begun_at
    if begun_at is None or not any(_begun(view, replica) for replica in view.replicas):
        return []
    history = [StateChanged(state=AppState.RUNNING, time=begun_at)]
    stop = _stop(view)
    if stop is not None and stop.outcome == AppState.CANCELLED.name:
        history.append(StateChanged(state=AppState.RUNNING, time=stop.time, msg=f"stopping: {stop.msg}"))
    return history


def last_word(view: AppView) -> StateChanged:
    """Return the end of an app that is over."""
    final = cast("Json", view.records.final)
    told = status(view)
    return StateChanged(state=told.state, time=cast("float", final["ended_at"]), msg=told.msg, status=told)


def replica_history(view: AppView, replica: ReplicaView) -> list[ReplicaChanged]:
    """Return starts and ends of the replica's attempts, in turn."""
    if not view.app.has_shim:
        return _history_without_journal(view, replica)
    history: list[ReplicaChanged] = []
    for attempt in replica.attempts:
        history.append(_change(replica, attempt.number, AppState.RUNNING, attempt.started_at))
        if _ended(view, replica, attempt):
            history.append(_end(view, replica, attempt))
    return history


def attempts_begun(view: AppView, replica: ReplicaView) -> int:
    """Return how many attempts are known to have begun."""
    if replica.attempts:
        return replica.attempts[-1].number + 1
    return int(_begun(view, replica))


def _begun(view: AppView, replica: ReplicaView) -> bool:
    up = replica.phase in {Phase.UP, Phase.AGAIN}
    return bool(replica.attempts) or (up and not view.app.has_shim)


def _history_without_journal(view: AppView, replica: ReplicaView) -> list[ReplicaChanged]:
    """Tell one start and one end: the engine does not know of the attempts between."""
    if not _begun(view, replica):
        return []
    history = [_change(replica, 0, AppState.RUNNING, view.records.begun_at)]
    last = replica.last
    if last is not None and view.over:
        history.append(_end(view, replica, last))
    return history


def _ended(view: AppView, replica: ReplicaView, attempt: Attempt) -> bool:
    """Return whether it is settled how the attempt ended.

    What the engine tells instead of the journal is settled when the app is over: the replica may be started
    again, and then the engine knows of its new attempt only. Why an attempt was told to end is settled when
    there is a record of it.
    """
    if attempt is not replica.attempts[-1] or view.over:
        return True
    if attempt.told and _stop(view) is None and not _restarted(view, replica, attempt):
        return False
    noted = view.volume_state.attempts.get(replica.planned.index, ())
    return any(a.number == attempt.number and a.code is not None for a in noted)


def _end(view: AppView, replica: ReplicaView, attempt: Attempt) -> ReplicaChanged:
    later = next((a for a in replica.attempts if a.number > attempt.number), None)
    ended_at = attempt.ended_at or (later.started_at if later else None) or attempt.started_at
    return _change(replica, attempt.number, _outcome(view, replica, attempt), ended_at, attempt.code)


def _outcome(view: AppView, replica: ReplicaView, attempt: Attempt) -> AppState:
    later = attempt is not replica.attempts[-1]
    if attempt.told and (later or _restarted(view, replica, attempt) or _is_stopped(view, replica)):
        return AppState.CANCELLED
    return AppState.SUCCEEDED if attempt.code == 0 else AppState.FAILED


def _restarted(view: AppView, replica: ReplicaView, attempt: Attempt) -> bool:
    index, number = replica.planned.index, attempt.number + 1
    return any(restart.targets.get(index) == number for restart in view.records.restarts)


def _is_stopped(view: AppView, replica: ReplicaView) -> bool:
    """Return whether the app's end is why the replica was told to end, not the other way round."""
    stop = _stop(view)
    return stop is not None and stop.cause != replica.planned.index


def _change(
    replica: ReplicaView, number: int, state: AppState, at: float | None, code: int | None = None
) -> ReplicaChanged:
    planned = replica.planned
    return replica_changed(planned.role, planned.replica, number, state, at or 0.0, code)


def _stop(view: AppView) -> Stop | None:
    """Return what ended the app; a request that came when it was over is none."""
    final = view.records.final
    if final is None:
        return view.records.stop
    told = cast("Json | None", final.get("stop"))
    return stop(told) if told else None
