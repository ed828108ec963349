"""Puts together what is written down of an app and how its backend sees it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from torchx_core.compat.backend import Backend, Sight
from torchx_core.compat.records import Content, Record, number, text
from torchx_core.compat.submit import is_lost
from torchx_core.errors import InvalidAppError
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, Role, RoleStatus, is_terminal

__all__ = ["Known", "app_of", "look", "native_id_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One look at an app; the same for everybody who looks later."""

    app: AppDef
    status: AppStatus
    native_id: str = ""
    running_at: float | None = None
    ended_at: float | None = None


def app_of(record: Record) -> AppDef:
    """Return the app as it was submitted.

    Raises:
        CorruptRecordError: It is none.
    """
    app = record.asked.get("app")
    try:
        return AppDef.from_dict(cast("Mapping[str, object]", app if isinstance(app, dict) else {}))
    except InvalidAppError as err:
        raise record.damage(f"its app cannot be read: {err}") from err


def native_id_of(record: Record) -> str:
    """Return TorchX's own id of the app, empty while it is not known to be submitted.

    Raises:
        CorruptRecordError: It was submitted, and nobody knows as what.
    """
    submitted = record.get("submitted")
    native_id = text(submitted, "native_id")
    if submitted is not None and not native_id:
        raise record.damage("it was submitted, and TorchX's own id of it is missing")
    return native_id


def look(record: Record, backend: Backend) -> Known | None:
    """Return what is known of the app now, or None when its backend has no trace of it.

    Times are those of the first look that saw a change: it writes them down for all later ones.

    Raises:
        SchedulerError: The backend cannot be asked.
    """
    app = app_of(record)
    native_id = native_id_of(record)
    final = record.get("final")
    if final is not None:
        return _known(app, record, _final(record, final), native_id)
    if not native_id:
        return Known(app=app, status=_before(record))
    sight = backend.look(native_id)
    if sight is None:
        return None
    status = _status(app, record, sight)
    if status.state is AppState.RUNNING or status.state in (AppState.SUCCEEDED, AppState.FAILED):
        record.put("running", {"at": time.time()})
    _stamp(status, record)
    if is_terminal(status.state):
        status = AppStatus.from_json(record.put("final", {**status.to_json(), "at": time.time()}))
    return _known(app, record, status, native_id)


def _known(app: AppDef, record: Record, status: AppStatus, native_id: str) -> Known:
    return Known(
        app=app,
        status=status,
        native_id=native_id,
        running_at=_at(record, "running"),
        ended_at=_at(record, "final"),
    )


def _final(record: Record, final: Mapping[str, object]) -> AppStatus:
    try:
        return AppStatus.from_json(final)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise record.damage(f"its end cannot be read: {type(err).__name__}: {err}") from err


def _before(record: Record) -> AppStatus:
    if record.get("attempt.1") is not None and is_lost(record):
        return AppStatus(
            AppState.UNKNOWN, msg="its submitter died; submit it again to settle what came of it"
        )
    return AppStatus(AppState.SUBMITTED, msg="being submitted")


def _status(app: AppDef, record: Record, sight: Sight) -> AppStatus:
    cancel_request = record.get("cancel")
    state, msg = sight.state, sight.msg
    if cancel_request is not None:
        reason = cancel_reason(cancel_request)
        state, msg = (AppState.CANCELLED, reason) if is_terminal(state) else (state, f"stopping: {reason}")
    return AppStatus(
        state=state,
        num_restarts=sight.num_restarts,
        msg=msg,
        structured_error_msg=sight.structured_error_msg,
        ui_url=sight.ui_url,
        roles=[_role(role, sight, state) for role in app.roles],
    )


def cancel_reason(cancel_request: Content) -> str:
    """Return why an app is to end, as whoever asked for that has said."""
    return text(cancel_request, "reason") or "cancelled"


def _role(role: Role, sight: Sight, state: AppState) -> RoleStatus:
    return RoleStatus(role.name, [_replica(role.name, k, sight, state) for k in range(role.num_replicas)])


def _replica(role: str, k: int, sight: Sight, app_state: AppState) -> ReplicaStatus:
    given = sight.replicas.get((role, k))
    if given is None:
        return ReplicaStatus(id=k, state=app_state, role=role, hostname="")
    if app_state is AppState.CANCELLED and given.exit_code is None:
        return replace(given, state=AppState.CANCELLED)  # it was ended, whatever the backend makes of that
    return replace(given)


def _stamp(status: AppStatus, record: Record) -> None:
    """Write down when each replica started and ended, as far as one could see."""
    started = _at(record, "running")
    for role in status.roles:
        for replica in role.replicas:
            replica.started_at = started
            if is_terminal(replica.state):
                fact = record.put(f"ended.{replica.role}.{replica.id}", {"at": time.time()})
                replica.ended_at = number(fact, "at")


def _at(record: Record, fact: str) -> float | None:
    told = record.get(fact)
    return None if told is None else number(told, "at")
