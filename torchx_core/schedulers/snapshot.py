"""How an app stands, in the words of the API: written once for every scheduler that knows its replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from torchx_core.schedulers.events import AppEvent, ReplicaChanged, StateChanged
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus, RoleStatus, Usage
from torchx_core.supervisor.signals import exit_of
from torchx_core.supervisor.usage import Used, after_attempt

__all__ = ["Ended", "app_status", "put_in_place", "replica_changed", "usage_of", "usage_of_attempts"]


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
    known = list(replicas)
    roles: dict[str, RoleStatus] = {}
    for replica in known:
        if replica.role not in roles:
            roles[replica.role] = RoleStatus(role=replica.role, replicas=[])
        roles[replica.role].replicas.append(replica)
    return AppStatus(
        state=state,
        num_restarts=num_restarts,
        msg=msg,
        structured_error_msg=_first_error(known),
        roles=list(roles.values()),
        result=result,
    )


def _first_error(replicas: Sequence[ReplicaStatus]) -> str:
    """Return the error file of the replica that failed first: the others often follow from it."""
    if all(replica.structured_error_msg == NONE for replica in replicas):
        return NONE
    from torchx_core.specs.failure import suspects  # here: its expressions take a while to compile

    told = (replica.structured_error_msg for replica in suspects(replicas))
    return next((error for error in told if error != NONE), NONE)


def put_in_place(change: StateChanged, events: list[AppEvent]) -> bool:
    """Put what happened to an app among the events of its replicas, which lie apart from it, by its time.

    Whoever reads a log later reads in a moment what took hours: no app is to be stopping before it has
    printed anything.

    Returns:
        False where it is later than all of these events: there may be more, which are earlier than it.
    """
    at = next((i for i, event in enumerate(events) if event.time >= change.time), len(events))
    if events and at == len(events):
        return False
    events.insert(at, change)
    return True


class Ended(Protocol):
    """What is known of an attempt when it has ended."""

    @property
    def started_at(self) -> float | None:
        """Seconds since the epoch."""
        ...

    @property
    def ended_at(self) -> float | None:
        """The same; None for one that has not ended, or whose end nobody saw."""
        ...

    @property
    def cpu_s(self) -> float | None:
        """CPU time of all its processes."""
        ...

    @property
    def peak_mb(self) -> int | None:
        """The most memory that it had."""
        ...


def usage_of_attempts(attempts: Iterable[Ended], limit_mb: int = 0) -> Usage:
    """Return what a replica has used in those of its attempts that have ended.

    Args:
        attempts: In their order.
        limit_mb: How much memory it may have; 0 for no limit.
    """
    used: Used | None = None
    for attempt in attempts:
        if attempt.ended_at is not None:
            used = after_attempt(used, attempt.started_at, attempt.ended_at, attempt.cpu_s, attempt.peak_mb)
    return usage_of(used, limit_mb)


def usage_of(used: Used | None, limit_mb: int = 0) -> Usage:
    """Return the same in the words of the API."""
    if used is None:
        return Usage()
    return Usage(
        cpu_s=used.cpu_s,
        wall_s=used.wall_s,
        memory_peak_bytes=None if used.peak_mb is None else used.peak_mb << 20,
        memory_limit_bytes=limit_mb << 20 if limit_mb > 0 else None,
    )


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
