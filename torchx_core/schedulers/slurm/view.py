"""Tells how an app stands in the words of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from torchx_core.schedulers.slurm.decide import Decision
from torchx_core.schedulers.slurm.facts import OUTCOMES, Attempt, Facts, error_of
from torchx_core.schedulers.slurm.record import AppRecord, Planned
from torchx_core.schedulers.snapshot import app_status
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.shape import Misshapen, build, rows
from torchx_core.supervisor.signals import exit_of

__all__ = ["FinalFile", "Standing", "dump_final", "load_final", "replica_state", "status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an app stands at this moment."""

    state: AppState
    ended_at: float | None
    """Set when it is over."""
    status: AppStatus
    attempts: list[list[Attempt]]


def status(
    record: AppRecord,
    decision: Decision,
    attempts: Sequence[Sequence[Attempt]],
    *,
    num_restarts: int,
    cause: int = -1,
    result: object = None,
) -> AppStatus:
    """Return the app's status."""
    over = decision.state in {AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED}
    waits = decision.state is AppState.PENDING  # perhaps again: then earlier attempts have ended
    replicas = [
        _replica_status(
            planned, found[-1] if found else None, waits=waits, over=over, is_cause=index == cause
        )
        for index, (planned, found) in enumerate(zip(record.replicas, attempts, strict=True))
    ]
    return app_status(decision.state, replicas, num_restarts=num_restarts, msg=decision.msg, result=result)


def _replica_status(
    planned: Planned, last: Attempt | None, *, waits: bool, over: bool, is_cause: bool
) -> ReplicaStatus:
    exit_code, signal = exit_of(last.code if last else None)
    return ReplicaStatus(
        id=planned.replica,
        state=AppState.PENDING if waits else replica_state(last, over=over, is_cause=is_cause),
        role=planned.role,
        hostname=last.host if last else "",
        structured_error_msg=(error_of(planned.log_dir, last.number) if last else "") or NONE,
        exit_code=exit_code,
        signal=signal,
        attempt=last.number if last else 0,
        started_at=last.started_at if last else None,
        ended_at=last.ended_at if last else None,
        log_dir=f"{planned.log_dir}/{last.number}" if last else "",
    )


def replica_state(attempt: Attempt | None, *, over: bool, is_cause: bool = False) -> AppState:
    """Return the state of a replica whose latest attempt is this."""
    if attempt is None:
        return AppState.CANCELLED if over else AppState.PENDING
    if attempt.code is None:
        return AppState.FAILED if over else AppState.RUNNING
    if attempt.told and not is_cause:
        return AppState.CANCELLED
    return AppState.SUCCEEDED if attempt.code == 0 else AppState.FAILED


def dump_final(decision: Decision, facts: Facts, *, ended_at: float, result: object) -> Json:
    """Return the last record of an app that is over."""
    return {
        "version": 1,
        "state": decision.state.name,
        "msg": decision.msg,
        "ended_at": ended_at,
        "num_restarts": facts.num_restarts,
        "cause": facts.stop.index if facts.stop else -1,
        "attempts": [[asdict(attempt) for attempt in attempts] for attempts in facts.attempts],
        "result": result,
    }


class FinalFile(NamedTuple):
    """The last record of an app that is over."""

    state: str
    msg: str
    ended_at: float
    num_restarts: int
    cause: int
    attempts: list[object]
    result: object


def load_final(record: AppRecord, final: FinalFile) -> Standing:
    """Return how an app stands that is over.

    Raises:
        Misshapen: The record does not say.
    """
    attempts = [
        [build(Attempt, row) for row in rows({"attempts": found}, "attempts")]
        for found in rows(final._asdict(), "attempts")
    ]
    if final.state not in OUTCOMES or len(attempts) != len(record.replicas):
        raise Misshapen(f"{len(attempts)} replicas end as {final.state!r}")
    state = AppState[final.state]
    told = status(
        record,
        Decision(state, final.msg),
        attempts,
        num_restarts=final.num_restarts,
        cause=final.cause,
        result=final.result,
    )
    return Standing(state=state, ended_at=final.ended_at, status=told, attempts=attempts)
