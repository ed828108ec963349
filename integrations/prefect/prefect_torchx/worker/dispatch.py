"""What a flow run's states say of its dispatches to workers, and the ids of their apps; pure.

A flow run may be dispatched several times: after a crash, by a user's hand, when it is resumed. Each time
it becomes ``Scheduled`` (or ``Late``, ``AwaitingRetry``, ...: all of that type), and then ``Pending`` by the
worker that takes it. So the number of such steps names the dispatch, for whichever worker looks. Prefect's
own run count does not do: it stays when a process dies before the flow starts, and grows when a flow is
retried inside its process.

Every worker of a pool is offered the same flow runs, and one that is slow may want a flow run that another
has taken meanwhile. What Prefect's server (3.6 to 3.9) makes of its ``Pending``, and we then:

===========================================  ==========  =====================================================
the flow run is by then                      the server  we
===========================================  ==========  =====================================================
Scheduled, to be dispatched (again)          accepts     submit: it is a dispatch as good as any
AwaitingRetry, within the process it has     accepts     do not submit; the process goes on from Pending, too,
                                                         at the time of its retry
Pending, Submitting, Running, Cancelling     refuses
Paused, Suspended                            refuses
Cancelled, Completed with a stored result    refuses
Completed, Failed, Crashed                   accepts     do not submit; the end is given back
===========================================  ==========  =====================================================

The end is given back by the late worker; by the worker that sees the app end, if that is later; and by the
next sweep, if the late worker died. Nobody gives ``AwaitingRetry`` back: the process may be at its next state
by then, and the server knows no "only if it is still as I read it".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING
from uuid import UUID

from torchx_core.errors import MalformedAppHandleException
from torchx_core.specs import AppHandle, parse_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

__all__ = ["Dispatch", "Stage", "app_id", "is_app", "is_app_of", "latest_dispatch"]

_BY_A_WORKER = "Pending"
_RETRY = "AwaitingRetry"
_PREFIX = "flow-run"


class Stage(Enum):
    """How far a dispatch has come."""

    WAITING = "the flow run waits for a worker, perhaps not for the first time"
    TAKEN = "a worker has it, and is to submit its app"
    BEGUN = "its process has it: runs, waits or ends it"
    OVER = "the flow run has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """The latest time that a flow run was handed to a worker."""

    number: int = 0
    """Counted from 1; 0 before the first."""
    stage: Stage = Stage.WAITING
    end: State | None = None
    """How the flow run ended, once it is over."""
    late: bool = False
    """Whether a worker has taken the flow run since, which came too late: it bears that one's name now."""

    def due(self, now: State) -> State | None:
        """Return the end that a late worker took from the flow run and that it is to have again.

        Args:
            now: The flow run's state.
        """
        taken = now.is_pending() or now.is_cancelling() or now.is_crashed()
        return self.end if self.late and taken and self.end and _words(self.end) != _words(now) else None


def latest_dispatch(states: Iterable[State]) -> Dispatch:
    """Return the latest dispatch of the flow run that has been through these states, oldest first.

    Two states of the same moment may come in either order: the server writes down when each was proposed.
    """
    dispatch = reduce(_step, states, Dispatch())
    return replace(dispatch, number=max(1, dispatch.number))


def _step(seen: Dispatch, state: State) -> Dispatch:
    if state.is_final():
        return replace(seen, stage=Stage.OVER, end=seen.end if _keeps_its_end(seen, state) else state)
    if state.is_scheduled():
        in_process = seen.stage is Stage.BEGUN and _is_by_the_server(state)
        return seen if in_process else Dispatch(number=seen.number)
    if state.is_pending():
        return _pending(seen, state)
    if seen.end and seen.late and state.is_cancelling():  # of what only looks as if it had not ended
        return seen
    return replace(seen, stage=Stage.BEGUN, end=None)


def _keeps_its_end(seen: Dispatch, state: State) -> bool:
    """Return whether this is no end: only what was taken late can crash although it has ended."""
    return bool(seen.end and seen.late and state.is_crashed() and not seen.end.is_crashed())


def _pending(seen: Dispatch, state: State) -> Dispatch:
    if seen.stage is Stage.WAITING:
        return Dispatch(number=seen.number + 1, stage=Stage.TAKEN)
    # A worker's second state, Submitting, may follow the end as well as its first.
    too_late = seen.stage is Stage.OVER or state.name == _BY_A_WORKER
    return replace(seen, late=seen.late or too_late)


def _is_by_the_server(state: State) -> bool:
    """Return whether it is a retry within a process: the server answers ``Failed`` with it.

    A process that hands its flow run back at a SIGTERM says ``AwaitingRetry``, too, but every state that
    Prefect's client sets bears a transition id. The flow run's own policy (``retry_type``) tells of the last
    retry alone.
    """
    return state.name == _RETRY and state.state_details.transition_id is None


def _words(state: State) -> tuple[object, ...]:
    """Return what makes two states one to a reader; one that was given back has an id of its own."""
    return state.type, state.name, state.message


def app_id(flow_run_id: UUID, dispatch: int) -> str:
    """Return the id of the flow run's app.

    Args:
        flow_run_id: The flow run.
        dispatch: Which dispatch, counted from 1.

    Example:
        >>> app_id(UUID(int=7), 2)
        'flow-run-00000000-0000-0000-0000-000000000007-2'
    """
    return f"{_PREFIX}-{flow_run_id}" + (f"-{dispatch}" if dispatch > 1 else "")


def is_app(handle: str | None, wanted: str) -> bool:
    """Return whether the handle, or whatever a flow run has in its place, is of the app with that id."""
    return _id_in(handle) == wanted


def is_app_of(flow_run_id: UUID, handle: AppHandle | None) -> bool:
    """Return whether the handle is of any app of that flow run."""
    found = _id_in(handle)
    return found == app_id(flow_run_id, 1) or found.startswith(f"{app_id(flow_run_id, 1)}-")


def _id_in(handle: str | None) -> str:
    try:
        return parse_app_handle(handle or "").app_id
    except MalformedAppHandleException:
        return ""
