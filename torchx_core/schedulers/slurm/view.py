"""Tells how an app stands in the words of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

from torchx_core.schedulers.slurm.decide import Decision
from torchx_core.schedulers.slurm.facts import OUTCOMES, Attempt, Facts, Figures, error_of
from torchx_core.schedulers.slurm.record import AppRecord, Planned
from torchx_core.schedulers.snapshot import app_status, usage_of_attempts
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.shape import Misshapen, build, rows
from torchx_core.supervisor.signals import exit_of
from torchx_core.supervisor.usage import out_of_memory

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
            planned,
            found,
            waits=waits,
            over=over,
            is_cause=index == cause,
            limit_mb=record.memory_limit_mb(planned.role),
        )
        for index, (planned, found) in enumerate(zip(record.replicas, attempts, strict=True))
    ]
    return app_status(decision.state, replicas, num_restarts=num_restarts, msg=decision.msg, result=result)


def _replica_status(
    planned: Planned,
    attempts: Sequence[Attempt],
    *,
    waits: bool,
    over: bool,
    is_cause: bool,
    limit_mb: int,
) -> ReplicaStatus:
    last = attempts[-1] if attempts else None
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
        msg=out_of_memory(last.peak_mb, limit_mb) if last and last.figures.oom else "",
        log_dir=f"{planned.log_dir}/{last.number}" if last else "",
        usage=usage_of_attempts(attempts, limit_mb),
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
    """Return the last record of an app that is over; what the release before does not know stands apart."""
    known = [[asdict(attempt) for attempt in attempts] for attempts in facts.attempts]
    figures = [[row.pop("figures")._asdict() for row in attempts] for attempts in known]
    return {
        "version": 1,
        "state": decision.state.name,
        "msg": decision.msg,
        "ended_at": ended_at,
        "num_restarts": facts.num_restarts,
        "cause": facts.stop.index if facts.stop else -1,
        "attempts": known,
        "figures": figures,
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
    figures: object = None


def load_final(record: AppRecord, final: FinalFile) -> Standing:
    """Return how an app stands that is over.

    Raises:
        Misshapen: The record does not say.
    """
    attempts = _attempts(final)
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


def _attempts(final: FinalFile) -> list[list[Attempt]]:
    """Return the attempts of each replica; the release before has written no figures.

    Raises:
        Misshapen: The record does not say.
    """
    record = final._asdict()
    known = [rows({"": found}, "") for found in rows(record, "attempts")]
    used = [rows({"": told}, "") for told in rows(record, "figures")] if final.figures is not None else []
    return [
        [
            replace(build(Attempt, row), figures=build(Figures, figures or {}))
            for row, figures in zip_longest(attempts, told)
        ]
        for attempts, told in zip_longest(known, used, fillvalue=list[object]())
    ]
