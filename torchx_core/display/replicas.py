"""The table of an app's replicas, as its events tell it; at the end as its status does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import final

from torchx_core.display.usage import peak_text
from torchx_core.schedulers import ReplicaChanged
from torchx_core.specs import AppDef, AppState, AppStatus, Usage

__all__ = ["ReplicaTable"]

MAX_ROWS = 500
"""A page shows them all at once."""
MINUTE_S = 60


@dataclass(slots=True)
class _Replica:
    """What is known of a replica's latest attempt."""

    state: str = "PENDING"
    attempt: int = 0
    exit: str = ""
    host: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    message: str = ""
    usage: Usage = Usage()  # noqa: RUF009  # it is frozen


@final
class ReplicaTable:
    """Follows each replica's latest attempt."""

    def __init__(self, app: AppDef) -> None:
        """Know the replicas of the app, none of which has started."""
        self._replicas = {
            (role.name, number): _Replica() for role in app.roles for number in range(role.num_replicas)
        }

    def take(self, event: ReplicaChanged) -> None:
        """Learn what became of a replica."""
        replica = self._replicas.setdefault((event.role, event.replica), _Replica())
        if event.state is AppState.RUNNING:
            replica.started_at, replica.ended_at = event.time, None
        else:
            replica.ended_at = event.time
        replica.state, replica.attempt, replica.message = str(event.state), event.attempt, event.msg
        replica.exit = _exit(event.exit_code, event.signal)

    def complete(self, status: AppStatus) -> None:
        """Take over what the app's status says, which knows more."""
        for role in status.roles:
            for known in role.replicas:
                self._replicas[known.role, known.id] = _Replica(
                    state=str(known.state),
                    attempt=known.attempt,
                    exit=_exit(known.exit_code, known.signal),
                    host=known.hostname,
                    started_at=known.started_at,
                    ended_at=known.ended_at,
                    message=known.msg,
                    usage=known.usage,
                )

    def rows(self, now: float) -> list[dict[str, str | int]]:
        """Return a row for each replica; of a great many those that did not succeed come first.

        Args:
            now: Seconds since the epoch, to tell how long a replica has been running.
        """
        rows = [_row(f"{role}/{number}", replica, now) for (role, number), replica in self._replicas.items()]
        if len(rows) <= MAX_ROWS:
            return rows
        rows.sort(key=lambda row: row["state"] in ("SUCCEEDED", "RUNNING"))
        return rows[:MAX_ROWS]

    def summary(self) -> str:
        """Return how many replicas are in which state.

        Example:
            >>> from torchx_core.specs import AppDef, Role
            >>> ReplicaTable(AppDef("a", [Role("r", image="", num_replicas=3)])).summary()
            '3 PENDING'
        """
        states = [replica.state for replica in self._replicas.values()]
        return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def _row(name: str, replica: _Replica, now: float) -> dict[str, str | int]:
    return {
        "replica": name,
        "state": replica.state,
        "exit": replica.exit,
        "attempt": replica.attempt + 1,
        "duration": _duration(replica, now),
        "cpu": "" if replica.usage.cpu_s is None else _seconds(replica.usage.cpu_s),
        "memory": peak_text(replica.usage),
        "host": replica.host,
        "message": replica.message,
    }


def _exit(exit_code: int | None, signal: str | None) -> str:
    if signal:
        return signal
    return "" if exit_code is None else str(exit_code)


def _duration(replica: _Replica, now: float) -> str:
    if replica.started_at is None:
        return ""
    return _seconds(max(0.0, (replica.ended_at or now) - replica.started_at))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < MINUTE_S else str(timedelta(seconds=int(seconds)))
