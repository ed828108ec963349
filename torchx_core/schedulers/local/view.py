"""Shows the state machine's state in the words of the API."""

from __future__ import annotations

from collections.abc import Iterator

from torchx_core.schedulers import ReplicaChanged, Result, StateChanged
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.snapshot import app_status, usage_of
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus
from torchx_core.supervisor import machine
from torchx_core.supervisor.limits import holds_memory
from torchx_core.supervisor.plan import Plan, ReplicaPlan

__all__ = ["app_state", "changes", "memory_limit_mb", "replica_state", "status"]

_APP: dict[str, AppState] = {
    machine.SUBMITTED: AppState.SUBMITTED,
    machine.RUNNING: AppState.RUNNING,
    machine.RESTARTING: AppState.RUNNING,
    machine.STOPPING: AppState.RUNNING,
    machine.SWEEPING: AppState.RUNNING,
}
_OUTCOME: dict[str, AppState] = {
    machine.SUCCEEDED: AppState.SUCCEEDED,
    machine.FAILED: AppState.FAILED,
    machine.CANCELLED: AppState.CANCELLED,
}
_REPLICA: dict[str, AppState] = {
    machine.WAITING: AppState.PENDING,
    machine.UP: AppState.RUNNING,
    machine.SUCCEEDED: AppState.SUCCEEDED,
    machine.FAILED: AppState.FAILED,
    machine.STOPPED: AppState.CANCELLED,
}


def app_state(state: machine.State) -> AppState:
    """Return the app's state."""
    if state.phase == machine.ENDED:
        return _OUTCOME.get(state.outcome, AppState.UNKNOWN)
    return _APP[state.phase]


def replica_state(replica: machine.Replica) -> AppState:
    """Return a replica's state."""
    return _REPLICA[replica.phase]


def changes(
    event: machine.Event, before: machine.State, state: machine.State
) -> Iterator[StateChanged | ReplicaChanged | Result]:
    """Yield what the stream shows of the event that led from one state to the other, but for an app's end."""
    if isinstance(event, machine.Began):
        yield StateChanged(state=AppState.RUNNING, time=event.time)
    elif isinstance(event, machine.StopAsked):
        yield StateChanged(state=app_state(state), time=event.time, msg=f"stopping: {event.msg}")
    elif isinstance(event, machine.Started | machine.StartFailed | machine.Exited):
        replica = _left_by(event, before, state)
        notice = replica.notice if isinstance(event, machine.Started) else ""  # said once
        yield _replica_changed(replica, event.time, replica.msg or notice)
    elif isinstance(event, machine.Reported):
        replica = state.replicas[event.replica]
        yield Result(
            role=replica.role,
            replica=replica.replica_id,
            attempt=event.attempt,
            value=event.result,
            time=event.time,
        )


def _left_by(
    event: machine.Started | machine.StartFailed | machine.Exited, before: machine.State, state: machine.State
) -> machine.Replica:
    """Return the replica as the event has left it.

    One that starts again at once waits for its next attempt by now; what ended is the one before.
    """
    replica = state.replicas[event.replica]
    if replica.phase != machine.WAITING:
        return replica
    was_told = isinstance(event, machine.Exited) and before.replicas[event.replica].restart
    phase = machine.STOPPED if was_told else machine.FAILED
    return replica._replace(attempt=event.attempt, phase=phase)


def _replica_changed(replica: machine.Replica, time: float, msg: str) -> ReplicaChanged:
    return ReplicaChanged(
        role=replica.role,
        replica=replica.replica_id,
        attempt=replica.attempt,
        state=replica_state(replica),
        time=time,
        exit_code=replica.exit_code,
        signal=replica.signal,
        msg=msg,
    )


def status(record: AppRecord, state: machine.State) -> AppStatus:
    """Return the app's status."""
    replicas = (
        _replica(plan, replica, memory_limit_mb(record.plan, index, replica), record.host)
        for index, (plan, replica) in enumerate(zip(record.plan.replicas, state.replicas, strict=True))
    )
    return app_status(
        app_state(state), replicas, num_restarts=state.restarts, msg=_msg(record, state), result=state.result
    )


def _msg(record: AppRecord, state: machine.State) -> str:
    if state.phase == machine.SUBMITTED and record.plan.gpu_ids:
        return "waiting for free GPUs"
    if state.phase == machine.STOPPING:
        return f"stopping: {state.msg}"
    return state.msg


def memory_limit_mb(plan: Plan, index: int, replica: machine.Replica) -> int:
    """Return what the replica's latest attempt is held to, or was; 0 for no limit."""
    return plan.replicas[index].mem_mb if plan.limits != "off" and holds_memory(replica.notice) else 0


def _replica(plan: ReplicaPlan, replica: machine.Replica, limit_mb: int, host: str) -> ReplicaStatus:
    return ReplicaStatus(
        id=replica.replica_id,
        state=replica_state(replica),
        role=replica.role,
        hostname=host,
        structured_error_msg=replica.error or NONE,
        exit_code=replica.exit_code,
        signal=replica.signal,
        attempt=replica.attempt,
        started_at=replica.started_at,
        ended_at=replica.ended_at,
        msg=replica.msg or replica.notice,
        log_dir=f"{plan.log_dir}/{replica.attempt}" if plan.log_dir else "",
        usage=usage_of(replica.used, limit_mb),
    )
