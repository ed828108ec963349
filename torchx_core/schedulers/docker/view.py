"""How an app stands: its records, its containers and what they wrote, put together and told as a status.

Pure: what was read is given, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from signal import Signals
from typing import cast

from torchx_core.schedulers.docker.answers import Container, Figures, Inspection, Json
from torchx_core.schedulers.docker.content import attempts
from torchx_core.schedulers.docker.labels import INDEX, KIND
from torchx_core.schedulers.docker.records import AppRecord, Planned, Records, Restart, dump_stop
from torchx_core.schedulers.docker.volume_state import Attempt, VolumeState
from torchx_core.schedulers.events import UsageSample
from torchx_core.schedulers.snapshot import app_status, usage_of_attempts
from torchx_core.specs import NONE, AppState, AppStatus, ReplicaStatus, Usage
from torchx_core.supervisor.signals import exit_of
from torchx_core.supervisor.usage import out_of_memory

__all__ = [
    "AppView",
    "Phase",
    "ReplicaView",
    "dump_final",
    "is_up",
    "replica_state",
    "replicas_among",
    "samples",
    "status",
    "unexplained",
    "view_of",
    "why",
]

_SIGNAL_BASE = 128
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_NOT_BEGUN = (0, _SIGNAL_BASE + Signals.SIGTERM)
_KILLED = _SIGNAL_BASE + Signals.SIGKILL
"""How the script exits when the app is over, or when it was told to end, before the program began."""


class Phase(Enum):
    """Where a replica's container is."""

    ABSENT = "absent"
    CREATED = "created"
    UP = "up"
    AGAIN = "again"
    """Between two attempts: the engine is about to start it again."""
    DOWN = "down"


_PHASES = {
    "created": Phase.CREATED,
    "running": Phase.UP,
    "paused": Phase.UP,
    "restarting": Phase.AGAIN,
    "removing": Phase.ABSENT,
    "exited": Phase.DOWN,
    "dead": Phase.DOWN,
}


_DOWN = (Phase.DOWN, Phase.ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica."""

    planned: Planned
    phase: Phase
    container: str = ""
    """Its id."""
    attempts: tuple[Attempt, ...] = ()
    """All that are known, oldest first."""

    @property
    def last(self) -> Attempt | None:
        """The latest attempt, or None when it has not started yet."""
        return self.attempts[-1] if self.attempts else None

    @property
    def next_attempt(self) -> int:
        """The number of the attempt after this one; one that never ran has not used up any."""
        return self.last.number + 1 if self.last else 0

    def is_to_start(self, restart: Restart) -> bool:
        """Return whether the restart wants an attempt of it that has not begun."""
        return restart.targets.get(self.planned.index, -1) >= self.next_attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AppView:
    """One app."""

    records: Records
    replicas: tuple[ReplicaView, ...]
    volume_state: VolumeState

    @property
    def app(self) -> AppRecord:
        """What was submitted."""
        return self.records.app

    @property
    def over(self) -> bool:
        """Whether the app has ended for good."""
        return self.records.final is not None

    def in_phase(self, *phases: Phase) -> list[ReplicaView]:
        """Return the replicas in one of these phases."""
        return [r for r in self.replicas if r.phase in phases]


def view_of(
    records: Records,
    containers: Iterable[Container],
    volume_state: VolumeState,
    inspections: Mapping[int, Inspection],
) -> AppView:
    """Put together what was read.

    Args:
        records: The app's records.
        containers: Its containers; none are needed once it is over.
        volume_state: What they wrote.
        inspections: By index, of those that have ended and whose journal does not tell how.
    """
    if records.final is not None:
        return AppView(records=records, replicas=_from_final(records), volume_state=volume_state)
    found = {c.labels.get(INDEX): c for c in containers}
    replicas = tuple(
        _replica(records, p, found.get(str(p.index)), volume_state, inspections.get(p.index))
        for p in records.app.replicas
    )
    return AppView(records=records, replicas=replicas, volume_state=volume_state)


def replicas_among(containers: Iterable[Container]) -> list[Container]:
    """Return the containers that are replicas, by index."""
    found = [c for c in containers if c.labels.get(KIND) == "replica" and c.labels.get(INDEX, "").isdecimal()]
    return sorted(found, key=lambda c: int(c.labels[INDEX]))


def is_up(container: Container) -> bool:
    """Return whether it runs, or is about to run again."""
    return _PHASES.get(container.state, Phase.UP) in {Phase.UP, Phase.AGAIN}


def unexplained(containers: Iterable[Container], volume_state: VolumeState) -> Iterator[Container]:
    """Yield the containers that have ended and whose journal does not tell how, or not everything."""
    for container in containers:
        if _PHASES.get(container.state) is not Phase.DOWN:
            continue
        attempts = volume_state.attempts.get(int(container.labels.get(INDEX, -1)))
        if not attempts or attempts[-1].code in {None, _SIGNAL_BASE + Signals.SIGKILL}:
            yield container


def _replica(
    records: Records,
    planned: Planned,
    container: Container | None,
    volume_state: VolumeState,
    inspection: Inspection | None,
) -> ReplicaView:
    if container is None:
        return _removed(records, planned, volume_state)
    phase = _PHASES.get(container.state, Phase.UP)
    seen = ReplicaView(
        planned=planned,
        phase=phase,
        container=container.id,
        attempts=volume_state.attempts.get(planned.index, ()),
    )
    if inspection is None:
        return seen
    if inspection.running:
        return replace(seen, phase=Phase.UP)  # it was started again after the list was made
    return replace(seen, attempts=_explained(seen, inspection, records))


def _removed(records: Records, planned: Planned, volume_state: VolumeState) -> ReplicaView:
    """Tell of a container that is gone what its journal says, which other replicas give access to."""
    attempts = volume_state.attempts.get(planned.index, ())
    if attempts and attempts[-1].code is None:
        attempts = (*attempts[:-1], replace(attempts[-1], told=records.stop is not None))
    return ReplicaView(planned=planned, phase=Phase.ABSENT, attempts=attempts)


def _explained(seen: ReplicaView, inspection: Inspection, records: Records) -> tuple[Attempt, ...]:
    """Complete the last attempt by what the engine knows; make it up when there is no journal."""
    attempts = seen.attempts
    if not attempts:
        if records.app.has_shim and inspection.exit_code in _NOT_BEGUN:
            return ()  # the script has let no attempt begin
        attempts = (Attempt(number=inspection.restarts, started_at=_time(inspection.started_at)),)
    last = attempts[-1]
    if last.code is None:
        ended_at = _time(inspection.finished_at)
        stop = records.stop
        told = stop is not None and (records.app.has_shim or (ended_at or 0.0) >= stop.time)
        told = told or any(seen.is_to_start(restart) for restart in records.restarts[-1:])
        last = replace(last, code=inspection.exit_code, ended_at=ended_at, told=told)
    limit_mb = records.app.app.get_role(seen.planned.role).resource.memMB
    return (*attempts[:-1], replace(last, oom=inspection.oom_killed or _was_short(last, limit_mb)))


def _was_short(last: Attempt, limit_mb: int) -> bool:
    """Return whether an attempt that was killed had all the memory it may have.

    A busy engine may notice the container's end before it notices why, and says then that there was memory.
    """
    killed = last.code == _KILLED and not last.told
    return killed and last.peak_mb is not None and last.peak_mb >= limit_mb > 0


def _time(text: str) -> float | None:
    """Read the engine's time, which has nine digits after the point; its zero is the year 1."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    if whole.startswith("0001-"):
        return None
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def why(view: AppView, replica: ReplicaView) -> str:
    """Say how the replica failed, for example ``trainer/0 failed: killed by SIGKILL (out of memory)``."""
    planned, last = replica.planned, replica.last
    who = f"{planned.role}/{planned.replica} failed"
    if replica.phase is Phase.ABSENT:
        return f"{who}: its container was removed"
    if last is None:
        return f"{who}: its container ended before the program began"
    code, signal = exit_of(last.code)
    if signal is not None:
        reason = _who_killed(last, view, planned.role)
        return f"{who}: killed by {signal}" + (f" ({reason})" if reason else "")
    if code == _NOT_FOUND and view.app.has_shim and planned.index not in view.volume_state.attempts:
        return f"{who}: the image has no /bin/sh; use shim=none"
    entrypoint = view.app.app.get_role(planned.role).entrypoint
    hint = {
        _NOT_FOUND: f" (no program {entrypoint!r} in the image?)",
        _NOT_EXECUTABLE: f" (may {entrypoint!r} be executed?)",
    }.get(code or 0, "")
    return f"{who}: exit code {code}{hint}"


def _who_killed(last: Attempt, view: AppView, role: str) -> str:
    if last.oom:
        return out_of_memory(last.peak_mb, _limit_mb(view, role))
    if view.records.stop is None and last.told:
        return "from outside: the engine was stopped, or somebody stopped the container"
    return ""


def _limit_mb(view: AppView, role: str) -> int:
    return max(0, view.app.app.get_role(role).resource.memMB)


def status(view: AppView) -> AppStatus:
    """Return the app's status."""
    if view.records.final is not None:
        return AppStatus.from_json(cast("dict[str, object]", view.records.final["status"]))
    return _status(view, _app_state(view), _msg(view), result=None, ended=False)


def samples(view: AppView, statistics: Mapping[int, Figures], now: float) -> list[UsageSample]:
    """Return what the replicas use of which the engine has told it.

    Args:
        view: How the app stands.
        statistics: By index of the replica.
        now: Seconds since the epoch.
    """
    found: list[UsageSample] = []
    for replica in view.replicas:
        figures, planned = statistics.get(replica.planned.index), replica.planned
        if figures is not None and set(figures) != {None}:
            usage = Usage(**figures._asdict(), memory_limit_bytes=_limit_mb(view, planned.role) << 20 or None)
            attempt = replica.last.number if replica.last else 0
            found.append(
                UsageSample(
                    role=planned.role, replica=planned.replica, attempt=attempt, usage=usage, time=now
                )
            )
    return found


def dump_final(view: AppView, outcome: str, msg: str, result: object, now: float) -> Json:
    """Return the final record of an app that has ended."""
    ends = [r.last.ended_at for r in view.replicas if r.last and r.last.ended_at]
    records = view.records
    return {
        "status": _status(view, AppState[outcome], msg, result=result, ended=True).to_json(),
        "attempts": [[_dump_attempt(a) for a in r.attempts] for r in view.replicas],
        "ended_at": max(ends, default=records.stop.time if records.stop else now),
        "begun": None if records.begun_at is None else {"time": records.begun_at},
        "stop": dump_stop(records.stop) if records.stop else None,
    }


def _dump_attempt(attempt: Attempt) -> Json:
    """Return the attempt without what it has used: the status has that, and the release before knows none."""
    return {name: value for name, value in asdict(attempt).items() if name not in ("peak_mb", "cpu_s")}


def _from_final(records: Records) -> tuple[ReplicaView, ...]:
    ended = attempts(cast("Json", records.final))
    return tuple(
        ReplicaView(planned=p, phase=Phase.DOWN, attempts=row)
        for p, row in zip(records.app.replicas, ended, strict=True)
    )


def _app_state(view: AppView) -> AppState:
    if view.records.begun_at is None:
        return AppState.SUBMITTED
    if any(r.phase not in {Phase.CREATED, Phase.ABSENT} for r in view.replicas):
        return AppState.RUNNING
    return AppState.PENDING


def _msg(view: AppView) -> str:
    if view.records.stop is not None:
        return f"stopping: {view.records.stop.msg}"
    return ""


def _status(view: AppView, state: AppState, msg: str, *, result: object, ended: bool) -> AppStatus:
    replicas = (_replica_status(view, replica, ended=ended) for replica in view.replicas)
    return app_status(state, replicas, num_restarts=_restarts(view), msg=msg, result=result)


def _restarts(view: AppView) -> int:
    """Count the times that something was started again: a scope that restarts together counts once."""
    alone = sum(r.last.number for r in view.replicas if r.planned.by_engine and r.last)
    return alone + len(view.records.restarts)


def _replica_status(view: AppView, replica: ReplicaView, *, ended: bool) -> ReplicaStatus:
    planned, last = replica.planned, replica.last or Attempt(number=0)
    down = replica.phase in _DOWN
    exit_code, signal = exit_of(last.code) if down else (None, None)
    limit_mb = _limit_mb(view, planned.role)
    return ReplicaStatus(
        id=planned.replica,
        state=replica_state(view, replica, ended=ended),
        role=planned.role,
        hostname=planned.container,
        structured_error_msg=view.volume_state.errors.get((planned.index, last.number), NONE),
        exit_code=exit_code,
        signal=signal,
        attempt=last.number,
        started_at=last.started_at,
        ended_at=last.ended_at if down else None,
        msg=out_of_memory(last.peak_mb, limit_mb) if last.oom else "",
        usage=usage_of_attempts(replica.attempts, limit_mb),
    )


def replica_state(view: AppView, replica: ReplicaView, *, ended: bool) -> AppState:
    """Return the replica's state, of an app that has ended or one that goes on."""
    last = replica.last
    if replica.phase is Phase.UP and not ended:
        return AppState.RUNNING
    if replica.phase not in _DOWN or last is None or (last.code is None and not ended):
        return AppState.CANCELLED if ended else AppState.PENDING
    stop = view.records.stop
    if last.told and stop is not None and stop.cause != replica.planned.index:
        return AppState.CANCELLED
    if not ended and _restarts_soon(view, replica):
        return AppState.PENDING
    return AppState.SUCCEEDED if last.code == 0 else AppState.FAILED


def _restarts_soon(view: AppView, replica: ReplicaView) -> bool:
    restarts = view.records.restarts
    return bool(restarts) and replica.is_to_start(restarts[-1])
