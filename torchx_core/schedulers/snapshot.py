"""How an app stands, in the words of the API: written once for every scheduler that knows its replicas."""

from __future__ import annotations

from collections.abc import Iterable

from torchx_core.schedulers.events import ReplicaChanged
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus, RoleStatus
from torchx_core.supervisor.signals import exit_of

__all__ = ["app_status", "replica_changed"]


def app_status(
    state: AppState,
    replicas: Iterable[ReplicaStatus],
    *,
    num_restarts: int,
    msg: str = "",
    result: object = None,
) -> AppStatus:
    """Return the app's status.

    Args:
        state: The app's.
        replicas: Role by role, in order.
        num_restarts: How often something was started again.
        msg: Why the app is in this state.
        result: What the app reported as its result.
    """
    roles: dict[str, RoleStatus] = {}
    for replica in replicas:
        roles.setdefault(replica.role, RoleStatus(role=replica.role, replicas=[])).replicas.append(replica)
    return AppStatus(
        state=state,
        num_restarts=num_restarts,
        msg=msg,
        structured_error_msg=_first_error(r for role in roles.values() for r in role.replicas),
        roles=list(roles.values()),
        result=result,
    )


def _first_error(replicas: Iterable[ReplicaStatus]) -> str:
    """Return the error file of the replica that failed first: the others often follow from it.

    One that was told to end, as another one had failed or a user asked, may have written an error too.
    """
    failed = [r for r in replicas if r.state is AppState.FAILED and r.structured_error_msg != NONE]
    first = min(failed, key=lambda replica: replica.ended_at or 0.0, default=None)
    return first.structured_error_msg if first else NONE


def replica_changed(
    role: str, replica: int, attempt: int, state: AppState, time: float, code: int | None = None
) -> ReplicaChanged:
    """Return the event of an attempt that has started or ended.

    Args:
        role: The replica's.
        replica: Its number in the role.
        attempt: Which of its attempts.
        state: Its state from now on.
        time: Since when, in seconds since the epoch.
        code: How it ended: exit code, or 128 and the number of the signal; None where that is not known.
    """
    exit_code, signal = exit_of(code)
    return ReplicaChanged(
        role=role,
        replica=replica,
        attempt=attempt,
        state=state,
        time=time,
        exit_code=exit_code,
        signal=signal,
    )
