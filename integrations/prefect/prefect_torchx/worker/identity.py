"""Names the app of a flow run.

A flow run may be handed to a worker several times: after a crash, by a user's hand, when it is resumed. The
server gives each hand-out to one worker only and remembers it as a state named ``Pending``. So the number of
such states names the hand-out, for whichever worker looks, and the core runs an app id once.

Prefect's own run count does not do: it stays when a process dies before the flow starts, and grows when a
flow is retried inside its process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from torchx_core.errors import MalformedAppHandleException
from torchx_core.specs import AppHandle, parse_app_handle

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

__all__ = ["app_id", "count_handouts", "is_app", "is_app_of"]

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


def count_handouts(states: Iterable[State[Any]]) -> int:
    """Return how often the flow run with these states was handed to a worker; at least 1."""
    return max(1, sum(state.name == _HANDED_OUT for state in states))


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
