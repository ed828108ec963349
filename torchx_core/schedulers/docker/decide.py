"""What is to be done about an app, decided from how it stands; pure.

Whoever looks at the app carries the decision out (`reconcile`), and looks again. Two who do the same thing at
once do it once: a record is written by the first, a container that runs is not started, and one that was
started too often ends at once (`shim`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias, cast

from torchx_core.schedulers.docker.content import UNDONE
from torchx_core.schedulers.docker.records import Restart, Stop
from torchx_core.schedulers.docker.view import AppView, Phase, ReplicaView, why
from torchx_core.schedulers.docker.volume_state import Over
from torchx_core.specs import AppState

__all__ = ["Decision", "End", "Finish", "Halt", "Launch", "Order", "decide"]

_PATIENCE_S = 5.0
"""How long after its grace period a replica that was told to end is killed; the engine may have forgotten."""
_START_PATIENCE_S = 15.0
"""How long after the app began a container may wait for its submitter to start it."""


class End(NamedTuple):
    """Write down that the app is to end, and stop what runs."""

    stop: Stop


class Order(NamedTuple):
    """Write down which replicas start again together, and stop those of them that run."""

    restart: Restart


class Halt(NamedTuple):
    """Kill these replicas: they were told to end, and had their time."""

    replicas: tuple[ReplicaView, ...]


class Launch(NamedTuple):
    """Start these replicas, each as the attempt given by its index."""

    replicas: tuple[ReplicaView, ...]
    attempts: Mapping[int, int]


class Finish(NamedTuple):
    """Write down how the app ended."""

    outcome: str
    msg: str


Decision: TypeAlias = End | Order | Halt | Launch | Finish


def decide(view: AppView, now: float) -> Decision | None:
    """Return what to do next, or None when there is nothing to do but wait.

    Args:
        view: How the app stands.
        now: Seconds since the epoch.
    """
    if view.over:
        return None
    if view.records.stop is not None:
        return _stopping(view, view.records.stop, now)
    reason = _overdue(view, now)
    if reason:
        return _end(view, AppState.CANCELLED, reason, now)
    if view.records.begun_at is None:
        return None  # its submit goes on, or will be taken up again
    return _begun(view, now)


def _begun(view: AppView, now: float) -> Decision | None:
    if view.volume_state.over is not None:
        return _ended_by_itself(view, view.volume_state.over, now)
    gone = view.in_phase(Phase.ABSENT)
    if gone:
        return _broken(view, gone[0], now)
    restart = view.records.restarts[-1] if view.records.restarts else None
    waiting = tuple(r for r in view.replicas if restart and r.is_to_start(restart))
    if restart and waiting:
        return _restarting(view, restart, waiting, now)
    failed = [r for r in view.in_phase(Phase.DOWN) if r.last is None or r.last.code != 0]
    return _failed(view, failed, now) if failed else _rest(view, now)


def _stopping(view: AppView, stop: Stop, now: float) -> Decision | None:
    up = view.in_phase(Phase.UP, Phase.AGAIN)
    if up:
        late = now - stop.time > stop.grace_s + _PATIENCE_S
        return Halt(tuple(up)) if late else None
    return None if stop.outcome == UNDONE else Finish(stop.outcome, stop.msg)


def _overdue(view: AppView, now: float) -> str:
    # Where replicas keep watch themselves, they know better when they began.
    slack_s = _PATIENCE_S if view.app.has_shim and view.records.begun_at is not None else 0.0
    ends_at, reason = min(_limits(view), default=(now, ""))
    return reason if now > ends_at + slack_s else ""


def _limits(view: AppView) -> Iterator[tuple[float, str]]:
    """Yield when the app must end, in seconds since the epoch, and why."""
    deadline = cast("float | None", view.app.cfg.get("deadline"))
    if deadline is not None:
        yield deadline, "deadline passed"
    timeout_s = cast("float | None", view.app.cfg.get("timeout_s"))
    if timeout_s is not None and view.records.begun_at is not None:
        yield view.records.begun_at + timeout_s, f"deadline passed: it ran for {timeout_s:g} s"


def _ended_by_itself(view: AppView, over: Over, now: float) -> Decision | None:
    if over.why != "failed":
        lease_s = cast("float | None", view.app.cfg.get("lease_s")) or 0.0
        expired = f"lease expired: nobody renewed it for {lease_s:g} s"
        reason = expired if over.why == "lease" else min(_limits(view), default=(now, "deadline passed"))[1]
        return _end(view, AppState.CANCELLED, reason, now)
    failed = next((r for r in view.replicas if r.planned.index == over.index), None)
    if failed is None:
        return _end(view, AppState.FAILED, f"a replica failed that there is not: {over.index}", now)
    if failed.phase in {Phase.UP, Phase.AGAIN}:
        return None  # its container is about to end
    return _broken(view, failed, now)


def _restarting(
    view: AppView, restart: Restart, waiting: tuple[ReplicaView, ...], now: float
) -> Decision | None:
    """Bring the restart to its end, whoever ordered it: nothing starts before all of it is down."""
    up = tuple(r for r in waiting if r.phase in {Phase.UP, Phase.AGAIN})
    if not up:
        return Launch(waiting, restart.targets)
    late = now - restart.time > view.app.grace_s + _PATIENCE_S
    return Halt(up) if late else None


def _failed(view: AppView, down: list[ReplicaView], now: float) -> Decision | None:
    failed = min(down, key=lambda r: (r.last and r.last.ended_at) or 0.0)
    planned = failed.planned
    if failed.next_attempt > planned.max_retries:
        return _broken(view, failed, now)
    if planned.by_engine:
        return _forgotten(view, failed, now)
    scope = [r for r in view.replicas if planned.policy != "ROLE" or r.planned.role == planned.role]
    if any(r.phase is Phase.UP and r.last is None for r in scope) and _is_recent(failed, now):
        return None  # its first attempt is about to be written down, and would pass for what is ordered here
    targets = {r.planned.index: r.next_attempt for r in scope}
    number = len(view.records.restarts) + 1
    return Order(Restart(number=number, targets=targets, cause=why(view, failed), time=now))


def _forgotten(view: AppView, failed: ReplicaView, now: float) -> Decision | None:
    """Start again what the engine should have: it forgets a replica that fails just when it ends itself.

    What somebody has stopped or killed stays down: the engine was right.

    Source: seen on 20.10.24 with ``--live-restore``. It may refuse the start: "task already exists".
    """
    noted = view.volume_state.attempts.get(failed.planned.index, ())
    if not noted or noted[-1].code is None or noted[-1].told:
        return _broken(view, failed, now)
    return None if _is_recent(failed, now) else Launch((failed,), {})


def _is_recent(failed: ReplicaView, now: float) -> bool:
    """Return whether what it leads to may wait: it ended a moment ago."""
    return failed.last is not None and 0 <= now - (failed.last.ended_at or 0.0) < _PATIENCE_S


def _rest(view: AppView, now: float) -> Decision | None:
    if all(r.phase is Phase.DOWN for r in view.replicas):
        return Finish(AppState.SUCCEEDED.name, "")
    idle = view.in_phase(Phase.CREATED)
    if idle and now - (view.records.begun_at or now) > _START_PATIENCE_S:
        return Launch(tuple(idle), {})
    return None


def _broken(view: AppView, failed: ReplicaView, now: float) -> End:
    end = _end(view, AppState.FAILED, why(view, failed), now)
    return End(replace(end.stop, cause=failed.planned.index))


def _end(view: AppView, outcome: AppState, msg: str, now: float) -> End:
    return End(Stop(outcome=outcome.name, msg=msg, grace_s=view.app.grace_s, time=now))
