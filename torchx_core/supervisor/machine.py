"""The app's state machine: events in, a new state and instructions out, no I/O and no clock.

The supervisor writes every event to the journal before it carries out what `step` answers. Folding the
journal again therefore gives the same state to everybody who reads it (`replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from torchx_core.supervisor.usage import Used, after_attempt

# Phases of an app.
SUBMITTED = "submitted"
RUNNING = "running"
RESTARTING = "restarting"
STOPPING = "stopping"
SWEEPING = "sweeping"
ENDED = "ended"

# Phases of a replica; `STOPPED` ended because it was told to.
WAITING = "waiting"
UP = "up"
SUCCEEDED = "succeeded"
FAILED = "failed"
STOPPED = "stopped"
REPLICA_PHASES = frozenset({WAITING, UP, SUCCEEDED, FAILED, STOPPED})

# Outcomes of an app, named like TorchX's states.
CANCELLED = "cancelled"
OUTCOMES = frozenset({SUCCEEDED, FAILED, CANCELLED})


class Replica(NamedTuple):
    """One replica: where it stands in its present attempt."""

    role: str
    replica_id: int
    policy: str
    max_retries: int
    phase: str = WAITING
    attempt: int = 0
    restart: bool = False
    """Start it again, as the next attempt, once everything that restarts with it is down."""
    pid: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    error: str = ""
    """What the program wrote about its own failure (torchelastic error file)."""
    msg: str = ""
    notice: str = ""
    """What could not be done for it, for example a limit this host cannot enforce."""
    used: Used | None = None
    """What its attempts have used, once one has ended."""


class State(NamedTuple):
    """The whole app."""

    replicas: tuple[Replica, ...]
    phase: str = SUBMITTED
    outcome: str = ""
    """What it ends as, once known: succeeded, failed or cancelled."""
    msg: str = ""
    restarts: int = 0
    began_at: float | None = None
    ended_at: float | None = None
    result: object = None


class Began(NamedTuple):
    """The supervisor is up."""

    time: float
    supervisor_pid: int


class Started(NamedTuple):
    """A replica's program runs."""

    time: float
    replica: int
    attempt: int
    pid: int
    notice: str = ""


class StartFailed(NamedTuple):
    """A replica's program could not be run; ``fatal`` when another try cannot help."""

    time: float
    replica: int
    attempt: int
    msg: str
    fatal: bool


class Exited(NamedTuple):
    """A replica's main process ended."""

    time: float
    replica: int
    attempt: int
    exit_code: int | None
    signal: str | None
    error: str = ""
    max_rss_mb: int = 0
    """The most memory that its processes had; 0 when that, and their CPU time, is not known."""
    cpu_s: float = 0.0
    msg: str = ""

    @property
    def figures(self) -> tuple[float | None, int | None]:
        """CPU time and peak."""
        return (self.cpu_s, self.max_rss_mb) if self.max_rss_mb else (None, None)


class StopAsked(NamedTuple):
    """Somebody wants the app to end: a user, the lease, the deadline, the host."""

    time: float
    outcome: str
    msg: str
    grace_s: float


class GraceOver(NamedTuple):
    """What was asked to end has had its time."""

    time: float


class Swept(NamedTuple):
    """No process of the app is left."""

    time: float


class Reported(NamedTuple):
    """A replica handed back a result."""

    time: float
    replica: int
    attempt: int
    result: object


class Lost(NamedTuple):
    """The supervisor is gone without having ended the app; whoever found out killed what was left."""

    time: float
    msg: str


Event: TypeAlias = Began | Started | StartFailed | Exited | StopAsked | GraceOver | Swept | Reported | Lost


class Start(NamedTuple):
    """Run the replica's program as this attempt, unless it no longer waits for that (`is_due`)."""

    replica: int
    attempt: int


class Terminate(NamedTuple):
    """Ask the replica to end (SIGTERM)."""

    replica: int


class Kill(NamedTuple):
    """End the replica and all below it (SIGKILL)."""

    replica: int


class Alarm(NamedTuple):
    """Send `GraceOver` after this long."""

    after_s: float


class Sweep(NamedTuple):
    """Send `Swept` once no process of the app is left; with ``kill`` see to it."""

    kill: bool


class Finish(NamedTuple):
    """Write the final record and go."""


Instruction: TypeAlias = Start | Terminate | Kill | Alarm | Sweep | Finish
Step: TypeAlias = tuple[State, list[Instruction]]


class UnexpectedEvent(Exception):
    """The state does not allow the event: a bug in the driver."""


def step(state: State, event: Event, grace_s: float = 0.0) -> Step:
    """Return the state after the event, and what to do about it.

    Args:
        state: The present state.
        event: What happened.
        grace_s: How long replicas get to end when the machine itself stops them.

    Raises:
        UnexpectedEvent: The table has no such transition.
    """
    handler = TRANSITIONS.get((state.phase, type(event)))
    if handler is None:
        raise UnexpectedEvent(f"{type(event).__name__} in phase {state.phase}")
    return handler(state, event, grace_s)


def is_due(state: State, start: Start) -> bool:
    """Return whether the instruction still stands; what came in between may have overtaken it."""
    replica = state.replicas[start.replica]
    return state.phase == RUNNING and replica.phase == WAITING and replica.attempt == start.attempt


def fold(state: State, event: Event) -> State:
    """Return the state after an event of a journal; one that does not fit (a damaged file) is skipped."""
    return step(state, event)[0] if fits(state, event) else state


def fits(state: State, event: Event) -> bool:
    """Return whether the event can happen in that state."""
    replica = getattr(event, "replica", 0)
    return (state.phase, type(event)) in TRANSITIONS and 0 <= replica < len(state.replicas)


def replay(state: State, events: Iterable[Event]) -> State:
    """Return the state that the events of a journal lead to."""
    for event in events:
        state = fold(state, event)
    return state


def _began(state: State, event: Began, _grace_s: float) -> Step:
    starts: list[Instruction] = [Start(i, 0) for i in range(len(state.replicas))]
    return state._replace(phase=RUNNING, began_at=event.time), starts


def _started(state: State, event: Started, _grace_s: float) -> Step:
    up = state.replicas[event.replica]._replace(
        phase=UP,
        attempt=event.attempt,
        pid=event.pid,
        started_at=event.time,
        notice=event.notice,
        ended_at=None,
        exit_code=None,
        signal=None,
        error="",
        msg="",
    )
    return _put(state, event.replica, up), []


def _start_failed(state: State, event: StartFailed, grace_s: float) -> Step:
    down = state.replicas[event.replica]._replace(
        phase=FAILED, attempt=event.attempt, restart=False, ended_at=event.time, msg=event.msg
    )
    return _judge(_put(state, event.replica, down), event.replica, grace_s, fatal=event.fatal)


def _exited(state: State, event: Exited, grace_s: float) -> Step:
    replica = state.replicas[event.replica]
    good = event.exit_code == 0
    told = state.phase == STOPPING or replica.restart
    phase = STOPPED if told else SUCCEEDED if good else FAILED
    replica = replica._replace(
        phase=phase,
        ended_at=event.time,
        exit_code=event.exit_code,
        signal=event.signal,
        error=event.error,
        msg=event.msg,
        used=after_attempt(replica.used, replica.started_at, event.time, *event.figures),
    )
    state = _put(state, event.replica, replica)
    if phase == FAILED:
        return _judge(state, event.replica, grace_s, fatal=False)
    return _when_down(state)


def _judge(state: State, failed: int, grace_s: float, *, fatal: bool) -> Step:
    """Decide whether the failed replica starts again, alone or with others, or the app is over."""
    replica = state.replicas[failed]
    if fatal or replica.attempt >= replica.max_retries:
        return _stop(state, FAILED, f"{replica.role}/{replica.replica_id} failed: {_why(replica)}", grace_s)
    scope = _scope(state, failed)
    marked = tuple(r._replace(restart=True) if i in scope else r for i, r in enumerate(state.replicas))
    state = state._replace(replicas=marked, phase=RESTARTING, restarts=state.restarts + 1)
    up = [i for i in scope if marked[i].phase == UP]
    asks: list[Instruction] = [Terminate(i) for i in up]
    if up:
        return state, [*asks, Alarm(grace_s)]
    return _when_down(state)


def _why(replica: Replica) -> str:
    if replica.signal:
        return f"killed by {replica.signal}" + (f" ({replica.msg})" if replica.msg else "")
    return replica.msg or f"exit code {replica.exit_code}"


def _scope(state: State, failed: int) -> list[int]:
    policy, role = state.replicas[failed].policy, state.replicas[failed].role
    everyone = range(len(state.replicas))
    if policy == "REPLICA":
        return [failed]
    if policy == "ROLE":
        return [i for i in everyone if state.replicas[i].role == role]
    return list(everyone)


def _when_down(state: State) -> Step:
    """Go on once everything that has to be down is down."""
    if any(r.phase == UP and (r.restart or state.phase == STOPPING) for r in state.replicas):
        return state, []
    if state.phase == STOPPING:
        return state, [Sweep(kill=False)]
    if any(r.phase in (UP, WAITING) and not r.restart for r in state.replicas):
        return _restart(state)
    return state._replace(phase=SWEEPING), [Sweep(kill=True)]


def _restart(state: State) -> Step:
    """Start what is marked for it, and what was not started yet when the restart came between."""
    waiting = tuple(_again(r) if r.restart else r for r in state.replicas)
    starts: list[Instruction] = [Start(i, r.attempt) for i, r in enumerate(waiting) if r.phase == WAITING]
    return state._replace(phase=RUNNING, replicas=waiting), starts


def _again(replica: Replica) -> Replica:
    """Return the replica waiting for its next attempt; one that never ran has not used up any."""
    used = 0 if replica.phase == WAITING else 1
    return replica._replace(phase=WAITING, restart=False, attempt=replica.attempt + used)


def _stop_asked(state: State, event: StopAsked, _grace_s: float) -> Step:
    return _stop(state, event.outcome, event.msg, event.grace_s)


def _stop_asked_sweeping(state: State, event: StopAsked, grace_s: float) -> Step:
    if any(r.restart for r in state.replicas):
        return _stop_asked(state, event, grace_s)
    return state, []  # every replica has succeeded: too late to stop anything


def _stop(state: State, outcome: str, msg: str, grace_s: float) -> Step:
    calm = tuple(
        r._replace(restart=False, phase=STOPPED if r.phase == WAITING else r.phase) for r in state.replicas
    )
    state = state._replace(phase=STOPPING, outcome=outcome, msg=msg, replicas=calm)
    up = [i for i, r in enumerate(calm) if r.phase == UP]
    asks: list[Instruction] = [Terminate(i) for i in up]
    if up:
        return state, [*asks, Alarm(grace_s)]
    return state, [Sweep(kill=True)]


def _grace_over_restarting(state: State, _event: GraceOver, _grace_s: float) -> Step:
    return state, [Kill(i) for i, r in enumerate(state.replicas) if r.restart and r.phase == UP]


def _grace_over_stopping(state: State, _event: GraceOver, _grace_s: float) -> Step:
    return state, [Sweep(kill=True)]


def _swept_before_restart_or_end(state: State, event: Swept, _grace_s: float) -> Step:
    if any(r.restart for r in state.replicas):
        return _restart(state)
    return _end(state, SUCCEEDED, event.time)


def _swept_stopping(state: State, event: Swept, _grace_s: float) -> Step:
    return _end(state, state.outcome, event.time)


def _end(state: State, outcome: str, time: float) -> Step:
    return state._replace(phase=ENDED, outcome=outcome, ended_at=time), [Finish()]


def _reported(state: State, event: Reported, _grace_s: float) -> Step:
    return state._replace(result=event.result), []


def _lost(state: State, event: Lost, _grace_s: float) -> Step:
    gone = tuple(
        r._replace(
            phase=FAILED,
            ended_at=event.time,
            msg=event.msg,
            restart=False,
            used=after_attempt(r.used, r.started_at, event.time),
        )
        if r.phase == UP
        else r._replace(phase=STOPPED, restart=False)
        if r.phase == WAITING
        else r
        for r in state.replicas
    )
    finished = state.phase == SWEEPING and not any(r.restart for r in state.replicas)
    outcome = state.outcome or (SUCCEEDED if finished else FAILED)
    msg = f"{state.msg}; {event.msg}" if state.msg else event.msg
    state = state._replace(phase=ENDED, outcome=outcome, msg=msg, ended_at=event.time, replicas=gone)
    return state, []


def _ignored(state: State, _event: Event, _grace_s: float) -> Step:
    return state, []


def _put(state: State, index: int, replica: Replica) -> State:
    replicas = (*state.replicas[:index], replica, *state.replicas[index + 1 :])
    return state._replace(replicas=replicas)


Handler: TypeAlias = Callable[..., Step]

TRANSITIONS: dict[tuple[str, type[Event]], Handler] = {
    (SUBMITTED, Began): _began,
    (SUBMITTED, StopAsked): _stop_asked,
    (SUBMITTED, Lost): _lost,
    (RUNNING, Started): _started,
    (RUNNING, StartFailed): _start_failed,
    (RUNNING, Exited): _exited,
    (RUNNING, StopAsked): _stop_asked,
    (RUNNING, GraceOver): _ignored,
    (RUNNING, Reported): _reported,
    (RUNNING, Lost): _lost,
    (RESTARTING, Exited): _exited,
    (RESTARTING, StopAsked): _stop_asked,
    (RESTARTING, GraceOver): _grace_over_restarting,
    (RESTARTING, Reported): _reported,
    (RESTARTING, Lost): _lost,
    (STOPPING, Exited): _exited,
    (STOPPING, StopAsked): _ignored,
    (STOPPING, GraceOver): _grace_over_stopping,
    (STOPPING, Swept): _swept_stopping,
    (STOPPING, Reported): _reported,
    (STOPPING, Lost): _lost,
    (SWEEPING, StopAsked): _stop_asked_sweeping,
    (SWEEPING, GraceOver): _ignored,
    (SWEEPING, Swept): _swept_before_restart_or_end,
    (SWEEPING, Reported): _reported,
    (SWEEPING, Lost): _lost,
}
