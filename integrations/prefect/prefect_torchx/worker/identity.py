"""Names the app of a flow run.

A flow run may be handed to a worker several times: after a crash, by a user's hand, when it is resumed. Each
time it becomes ``Scheduled`` (or ``Late``, ``AwaitingRetry``, ...: all of that type), and then ``Pending`` by
the worker that takes it. So the number of such steps names the hand-out, for whichever worker looks, and the
core runs an app id once.

The states named ``Pending`` alone do not do: every worker of a pool is offered the same flow runs, and the
server lets a slow one take a flow run that another took, ran and saw end meanwhile (as of Prefect 3.9, from
Completed, Failed and Crashed). That is the same hand-out again, and it is over.

Prefect's own run count does not do: it stays when a process dies before the flow starts, and grows when a
flow is retried inside its process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

from torchx_core.errors import MalformedAppHandleException
from torchx_core.specs import AppHandle, parse_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

__all__ = ["Handout", "app_id", "is_app", "is_app_of", "latest_handout"]

_PREFIX = "flow-run"
_HANDED_OUT = "Pending"


def app_id(flow_run_id: UUID, handout: int) -> str:
    """Return the id of the flow run's app.

    Args:
        flow_run_id: The flow run.
        handout: Which hand-out, counted from 1.

    Example:
        >>> app_id(UUID(int=7), 2)
        'flow-run-00000000-0000-0000-0000-000000000007-2'
    """
    return f"{_PREFIX}-{flow_run_id}" + (f"-{handout}" if handout > 1 else "")


@dataclass(frozen=True)
class Handout:
    """One time that a flow run was handed to a worker."""

    number: int
    """Counted from 1."""
    end: State[Any] | None = None
    """How the flow run ended since; None while it has not."""


def latest_handout(states: Iterable[State[Any]]) -> Handout:
    """Return the latest hand-out of the flow run that has been through these states, oldest first."""
    number, end = 0, None
    for before, state in pairwise([*states]):
        if before.is_scheduled() and state.name == _HANDED_OUT:
            number, end = number + 1, None
        elif state.is_final():
            end = state
    return Handout(max(1, number), end)


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
